"""A saved model as one module that uses only tensors, which ``torch.export`` can trace.

    p = softmax( Σ_m w_m T_m log p_m(x) )

Networks, linear, sparse and kernel regressions, Gaussians, trees and graphs can be written as such
modules; the user's own classifiers and boosted trees cannot. Predictions equal those of
:mod:`dessl.teachers` up to rounding: networks compute in float32, the others as there.
"""

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from dessl.functional import log_probabilities
from dessl.recipes import PooledPredictor, TaughtPredictor
from dessl.recipes.predictor import AnyPredictor, Predictor
from dessl.teachers import KINDS, State, Taught
from dessl.teachers.base import Classes, taken_from
from dessl.teachers.crossfit import FOLDS
from dessl.teachers.gaussians import bounded
from dessl.teachers.graph import LEAST_WEIGHT, NEIGHBOURS
from dessl.teachers.neighbours import EXACT_UP_TO
from dessl.teachers.patches import Patches
from dessl.teachers.rows import as_columns
from dessl.teachers.space import Space

SAMPLE = 512  # training rows that are checked
INSTEAD = "Pass --networks-only (networks_only=True in Python) to export the networks alone."
TIED = 1e-5  # of the squared lengths: distances that differ less are one in float32


class ExportError(ValueError):
    """The model cannot be exported, or its export gives different predictions."""


class Probabilities(nn.Module):
    """The exported module: maps rows to probabilities (n, classes), float32."""

    def __init__(self, log_p: nn.Module) -> None:
        super().__init__()
        self.log_p = copy.deepcopy(log_p).cpu().requires_grad_(False)  # leaves the model as it is
        self.eval()

    def forward(self, rows: Tensor) -> Tensor:
        """Return probabilities of unencoded rows of the data."""
        probabilities: Tensor = self.log_p(rows).softmax(-1).float()
        return probabilities

    def tied(self, rows: Tensor) -> Tensor:
        """Return which rows, (n,), have a tie for the eighth neighbour among training rows."""
        found = torch.zeros(len(rows), dtype=torch.bool)
        shown = self.log_p.columns if isinstance(self.log_p, PoolGraph) else as_columns
        columns = shown(rows)
        for graph in self._graphs():
            found |= graph.tied(graph.space(columns))
        return found

    def tied_share(self) -> float:
        """Return the share of training rows with such a tie, from 512 of them."""
        nodes = [(graph, graph.get_buffer("rows")) for graph in self._graphs()]
        shares = [graph.tied(z[:: -(-len(z) // SAMPLE)]).double().mean() for graph, z in nodes]
        return max(map(float, shares), default=0.0)

    def _graphs(self) -> list["GraphMember"]:
        return [part for part in self.modules() if isinstance(part, GraphMember)]


class PoolGraph(nn.Module):
    """The pool: networks and teachers, each with its weight."""

    def __init__(self, model: PooledPredictor) -> None:
        super().__init__()
        if model.pool.on_features:
            raise ExportError(
                "the pool's teachers use features of the network, which cannot be exported. "
                f"{INSTEAD}"
            )
        patches = model.pool.columns
        self.columns = PatchColumns(patches) if isinstance(patches, Patches) else Flattened()
        weights = model.pool.weights
        self.anchor = model.networks if weights.weights[weights.anchor] else None
        members = {name: member_module(name, one) for name, one in model.pool.members.items()}
        self.members = nn.ModuleList(members.values())
        names = [*([weights.anchor] if self.anchor is not None else []), *members]
        self.weights = [weights.weights[name] * weights.exponents[name] for name in names]

    def forward(self, rows: Tensor) -> Tensor:
        """Return the weighted sum of the members' log-probabilities, float64."""
        columns = self.columns(rows)
        found = [] if self.anchor is None else [self.anchor(rows).double()]
        found += [member(columns) for member in self.members]
        parts = [weight * log_p for weight, log_p in zip(self.weights, found, strict=True)]
        return torch.stack(parts).sum(0)


class Flattened(nn.Module):
    """Rows as columns, unchanged."""

    def forward(self, rows: Tensor) -> Tensor:
        """Return columns (n, d)."""
        return as_columns(rows)


class PatchColumns(nn.Module):
    """Images in the columns of :class:`dessl.teachers.patches.Patches`."""

    def __init__(self, patches: Patches) -> None:
        super().__init__()
        self.patches = patches
        self.space = SpaceGraph(patches.space)

    def forward(self, rows: Tensor) -> Tensor:
        """Return columns (n, d)."""
        columns: Tensor = self.space(self.patches.found(rows))
        return columns


class SpaceGraph(nn.Module):
    """Rows in the columns of a :class:`dessl.teachers.space.Space`."""

    def __init__(self, space: Space) -> None:
        super().__init__()
        for name, part in space._asdict().items():
            self.register_buffer(name, part.float())

    def forward(self, x: Tensor) -> Tensor:
        """Return rows (n, k), float32."""
        scaled = (x.float() - self.get_buffer("mean")) / self.get_buffer("scale")
        directions = self.get_buffer("directions")
        return scaled @ directions if directions.shape[1] else scaled


class AllClasses(nn.Module):
    """Expands the values of the classes that a teacher has seen to all classes."""

    def __init__(self, classes: Classes) -> None:
        super().__init__()
        present, prior = classes.present.long(), classes.prior.double()
        seen = torch.zeros(len(prior), dtype=torch.bool)
        seen[present] = True
        place = torch.zeros(len(prior), dtype=torch.long)
        place[present] = torch.arange(len(present))
        for name, part in (("seen", seen), ("place", place), ("prior", prior)):
            self.register_buffer(name, part)
        self.left = float((1 - prior[~seen].sum()).log())

    def of(self, values: Tensor, others: Tensor) -> Tensor:
        """Return values (n, present) as (n, classes), with ``others`` (classes,) for the rest."""
        seen, place = self.get_buffer("seen"), self.get_buffer("place")
        return torch.where(seen, values[:, place], others)

    def log_p(self, scores: Tensor) -> Tensor:
        """Return log-probabilities (n, classes) of scores (n, present)."""
        known = scores.log_softmax(-1) + self.left
        return self.of(known, self.get_buffer("prior").log())


class LinearMember(nn.Module):
    """Logistic regression."""

    def __init__(self, state: State) -> None:
        super().__init__()
        self.space = SpaceGraph(taken_from(state.tensors, "space", Space))
        self.classes = AllClasses(taken_from(state.tensors, "classes", Classes))
        self.register_buffer("weights", state.tensors["weights"].double())

    def forward(self, x: Tensor) -> Tensor:
        """Return log-probabilities (n, classes)."""
        return self.scores(self.features(self.space(x).double()))

    def features(self, z: Tensor) -> Tensor:
        """Return the inputs of the regression, (n, d)."""
        return z

    def scores(self, features: Tensor) -> Tensor:
        """Return log-probabilities by the weights."""
        return self.classes.log_p(self.log_odds(features))

    def log_odds(self, features: Tensor) -> Tensor:
        """Return them up to a constant of each row, (n, classes seen)."""
        weights = self.get_buffer("weights")
        odds: Tensor = features @ weights[:-1] + weights[-1]
        return odds


class GaussiansMember(LinearMember):
    """Gaussians of one shape, whose log-odds are linear until they are bounded."""

    def log_odds(self, features: Tensor) -> Tensor:
        """Return them bounded."""
        return bounded(super().log_odds(features))


class KernelMember(LinearMember):
    """Logistic regression on similarities to landmarks."""

    def __init__(self, state: State) -> None:
        super().__init__(state)
        self.register_buffer("landmarks", state.tensors["landmarks"].double())
        self.register_buffer("basis", state.tensors["basis"].double())
        self.bandwidth = float(state.settings["bandwidth"])

    def features(self, z: Tensor) -> Tensor:
        """Return k(z, ·) U Λ^−½."""
        squares = squared_distances(z, self.get_buffer("landmarks")).clamp(min=0)
        return (-squares / (2 * self.bandwidth**2)).exp() @ self.get_buffer("basis")


class TreesMember(nn.Module):
    """A forest: all rows descend all trees at the same time."""

    def __init__(self, state: State) -> None:
        super().__init__()
        for name in ("roots", "column", "threshold", "left", "right", "shares"):
            self.register_buffer(name, state.tensors[f"forest.{name}"])
        self.classes = AllClasses(taken_from(state.tensors, "classes", Classes))
        self.depth = int(state.tensors["forest.depth"])
        self.trees = int(state.settings["trees"])

    def forward(self, x: Tensor) -> Tensor:
        """Return log-probabilities (n, classes)."""
        column, threshold, left, right = map(
            self.get_buffer, ("column", "threshold", "left", "right")
        )
        values = x.float().double()
        node = self.get_buffer("roots").unsqueeze(0).expand(x.shape[0], -1)
        for _ in range(self.depth):
            goes_left = values.gather(1, column[node]) <= threshold[node]
            node = torch.where(goes_left, left[node], right[node])
        shares = self.get_buffer("shares")[node].mean(1)
        prior = self.classes.get_buffer("prior")
        votes = self.classes.of(shares, torch.zeros_like(prior))
        return ((self.trees * votes + prior) / (self.trees + 1)).log()


class GraphMember(nn.Module):
    """Diffused labels: a new row gets those of its neighbours among all nodes."""

    def __init__(self, state: State) -> None:
        super().__init__()
        self.space = SpaceGraph(taken_from(state.tensors, "space", Space))
        for name in ("rows", "sigma", "mass", "prior"):
            self.register_buffer(name, state.tensors[name])
        self.alpha = float(state.settings["alpha"])
        self.weight = float(state.settings["smoothing"]) * float(state.settings["median"])
        self.neighbours = min(NEIGHBOURS, len(state.tensors["rows"]))

    def forward(self, x: Tensor) -> Tensor:
        """Return log-probabilities (n, classes)."""
        z, rows = self.space(x), self.get_buffer("rows")
        # |z − r|² / 2 − |z|² / 2, as the teacher computes it, so that ties are the same.
        halves = torch.addmm(rows.square().sum(1) / 2, z, rows.T, alpha=-1)
        near = halves.topk(self.neighbours, 1, largest=False).indices
        squares = (z.unsqueeze(1) - rows[near]).square().sum(2)
        sigma = squares.amax(1, keepdim=True).sqrt()
        product = (sigma * self.get_buffer("sigma")[near]).clamp(
            min=torch.finfo(torch.float32).tiny
        )
        weights = (-squares / product).exp().clamp(min=LEAST_WEIGHT).double()
        share = (weights / weights.sum(1, keepdim=True)).unsqueeze(2)
        mass = self.alpha * (share * self.get_buffer("mass")[near].double()).sum(1)
        prior = self.get_buffer("prior")
        total = mass.sum(1, keepdim=True) + self.weight
        log_p: Tensor = ((mass + self.weight * prior) / total).log()
        return log_p

    def tied(self, z: Tensor) -> Tensor:
        """Return which rows, (n,), have a tie for the last neighbour, in float32 precision.

        Args:
            z: Rows in the graph's space.
        """
        z, rows = z.double(), self.get_buffer("rows").double()
        if len(rows) <= self.neighbours:
            return torch.zeros(len(z), dtype=torch.bool)
        squares = squared_distances(z, rows).topk(self.neighbours + 1, 1, largest=False)
        gap = squares.values[:, -1] - squares.values[:, -2]
        length = z.square().sum(1) + rows.square().sum(1)[squares.indices[:, -1]]
        tied: Tensor = gap < TIED * length
        return tied


class Ensemble(nn.Module):
    """The geometric mean of networks."""

    def __init__(self, networks: Sequence[nn.Module]) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks)

    def forward(self, z: Tensor) -> Tensor:
        """Return log-probabilities (n, classes), float64."""
        logs = [log_probabilities(network(z).double()) for network in self.networks]
        return torch.stack(logs).mean(0).log_softmax(-1)


class StudentGraph(nn.Module):
    """A student of a teacher's answers, without its teacher: networks and other models."""

    def __init__(self, taught: Taught) -> None:
        super().__init__()
        self.space = SpaceGraph(taught.space)
        groups = [list(taught.networks["complete_case"])]
        for name, size in (("students", FOLDS), ("imitators", 2)):
            own = taught.networks[name]
            groups += [list(own[k : k + size]) for k in range(0, len(own), size)]
        choice = taught.report.student
        counted = [pair for pair in zip(choice.used, groups, strict=False) if pair[0]]
        self.weights = [float(weight) for weight, _ in counted]
        self.groups = nn.ModuleList(Ensemble(group) for _, group in counted)
        used = zip(choice.members[len(groups) :], choice.used[len(groups) :], strict=True)
        others = {name: float(weight) for name, weight in used if weight}
        self.weights += others.values()
        self.members = nn.ModuleList(member_module(name, taught.others[name]) for name in others)

    def forward(self, rows: Tensor) -> Tensor:
        """Return the weighted sum of log-probabilities, float64."""
        z, columns = self.space(rows), as_columns(rows)
        found = [group(z) for group in self.groups]
        found += [member(columns) for member in self.members]
        parts = [weight * log_p for weight, log_p in zip(self.weights, found, strict=True)]
        return torch.stack(parts).sum(0)


MEMBERS: dict[str, type[nn.Module]] = {
    "linear": LinearMember, "kernel": KernelMember, "trees": TreesMember, "graph": GraphMember,
    "gaussians": GaussiansMember, "sparse": LinearMember,
}  # fmt: skip


def probabilities_of(model: AnyPredictor, *, networks_only: bool = False) -> Probabilities:
    """Return the exported module of a model.

    Args:
        model: The module of a saved model.
        networks_only: Whether to leave out a pool's teachers.

    Raises:
        ExportError: A member of its pool cannot be written with tensors.
    """
    if isinstance(model, TaughtPredictor):
        taught = model.taught
        return Probabilities(StudentGraph(taught.networks_alone() if networks_only else taught))
    if isinstance(model, Predictor):
        return Probabilities(model)
    return Probabilities(model.networks if networks_only else PoolGraph(model))


def exported_members(model: AnyPredictor, *, networks_only: bool = False) -> tuple[str, ...]:
    """Return the names of a pool's members that are exported; the networks are ``"networks"``."""
    if networks_only or isinstance(model, Predictor):
        return ("networks",)
    if isinstance(model, TaughtPredictor):
        taught = model.taught
        choice = taught.report.student
        used = [name for name, w in zip(choice.members, choice.used, strict=True) if w]
        others = tuple(name for name in used if name in taught.others)
        return ("networks", *others) if len(others) < len(used) else others
    weights = model.pool.weights
    anchor = ("networks",) if weights.weights[weights.anchor] else ()
    return (*anchor, *model.pool.members)


def member_module(name: str, teacher: Any) -> nn.Module:
    """Return a fitted teacher as a module that maps columns to log-probabilities.

    Raises:
        ExportError: It cannot be written with tensors, or is too large.
    """
    kind = next((kind for kind in MEMBERS if isinstance(teacher, KINDS[kind])), None)
    if kind is None:
        raise ExportError(
            f"the pool's member {name!r} cannot be exported: a {type(teacher).__name__} is not "
            f"made of tensors. {INSTEAD}"
        )
    state = teacher.state()
    if kind == "graph" and len(state.tensors["rows"]) > EXACT_UP_TO:
        raise ExportError(
            f"the pool's member {name!r} cannot be exported: it has {len(state.tensors['rows']):,} "
            f"rows, and above {EXACT_UP_TO:,} its neighbour search is approximate. {INSTEAD}"
        )
    return MEMBERS[kind](state)


def squared_distances(x: Tensor, y: Tensor) -> Tensor:
    """Return |x − y|² (n, m) of rows (n, d) and (m, d).

    >>> squared_distances(torch.tensor([[0.0, 1.0]]), torch.tensor([[3.0, 5.0], [0.0, 1.0]]))
    tensor([[25.,  0.]])
    """
    squares: Tensor = x.square().sum(1, keepdim=True) + y.square().sum(1) - 2 * x @ y.T
    return squares

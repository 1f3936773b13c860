"""Graph: labels diffuse over the nearest neighbours of all rows, labelled or not.

With w_ij = exp(−d_ij² / σ_i σ_j) on 8 neighbours (σ_i the distance of the eighth), D the row sums
of W and S = D^−½ W D^−½, the labels Y of rows A reach row i as

    G = Σ_t α^t S^t,   F = D^−½ G D^½ Y[A] = Σ_t α^t P^t Y[A],   P = D^−1 W,

a sum over walks of t steps. With π the class shares and m the median mass that reaches rows outside
A, p = (F + s m π) / (ΣF + s m). F is linear in Y: the labels of each fold are diffused once, and
what a row gets from the others is a sum. Equal rows are one node, which walks reach as often as it
has rows.
"""

import math
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from dessl import _checks
from dessl.teachers.base import (
    Rows,
    State,
    checked_columns,
    checked_rows,
    class_prior,
    not_fitted,
    taken_from,
    under,
)
from dessl.teachers.neighbours import Index, Neighbours
from dessl.teachers.rows import SomeRows, blocks_of
from dessl.teachers.space import Space

NEIGHBOURS = 8
LEAST_WEIGHT = 1e-6  # of an edge, so that every walk can leave its node
LEFT_OUT = 0.02  # share of the mass of long walks that is ignored
ALPHAS = (0.5, 0.8, 0.95)
SMOOTHINGS = (0.1, 1.0)


@dataclass(frozen=True)
class Edges:
    """The graph of rows: nodes are distinct rows.

    Attributes:
        space: The space in which distances are measured.
        index: Index of the nodes' coordinates.
        node: The node of each row, (n,), labelled rows first.
        sigma: Distance of each node's last neighbour, (nodes,).
        count: Number of rows of each node, (nodes,).
        walk: P, (nodes, nodes), sparse float32: SciPy's on the CPU, PyTorch's on a GPU.
    """

    space: Space
    index: Index
    node: Tensor
    sigma: Tensor
    count: Tensor
    walk: Any  # scipy.sparse.csr_array, or a tensor


class SharedEdges:
    """A cache of the latest graphs, so that teachers with different settings share them.

    Args:
        space: The space in which distances are measured; by default learnt from the rows.
    """

    MOST = 2  # with unlabelled rows and without

    def __init__(self, space: Space | None = None) -> None:
        self._space = space
        self._known: list[tuple[object, object, Edges]] = []

    def of(self, x_l: Tensor, x_u: Tensor | SomeRows) -> Edges:
        """Return the graph of labelled and unlabelled rows; the same objects share one graph."""
        for labelled, unlabelled, edges in self._known:
            if labelled is x_l and unlabelled is x_u:
                return edges
        edges = graph_of(x_l, x_u, self._space)
        self._known = [*self._known[1 - self.MOST :], (x_l, x_u, edges)]
        return edges

    def forget(self) -> None:
        """Release the graphs and their rows, which may be large."""
        self._known = []


class Graph:
    """Diffusion of labels over nearest neighbours, with one α and one smoothing s.

    Args:
        alpha: How far labels reach: a walk of t steps has weight α^t, 0 < α < 1.
        smoothing: s > 0, how strongly rows with little mass are shrunk to the class shares.
        edges: Edges shared with other graphs on the same rows; its own by default.

    >>> x = torch.cat([torch.linspace(0, 1, 20), torch.linspace(5, 6, 20)])[:, None]
    >>> few = torch.tensor([0, 39])
    >>> graph = Graph(alpha=0.95, smoothing=0.1).fit(x[few], torch.tensor([0, 1]), x, 2)
    >>> graph.predict_log_proba(torch.tensor([[0.7], [5.2]])).argmax(1).tolist()
    [0, 1]
    """

    uses_unlabelled = True
    takes_some_rows = True

    def __init__(
        self, alpha: float = 0.8, smoothing: float = 1.0, *, edges: SharedEdges | None = None
    ) -> None:
        self.alpha = _checks.number("alpha", alpha, low=0, high=1, open_low=True, open_high=True)
        self.smoothing = _checks.number("smoothing", smoothing, low=0, open_low=True)
        self.name = f"graph α={alpha:g} s={smoothing:g}"
        self.shared = edges or SharedEdges()
        self._memory: _Memory | None = None

    def fit(
        self,
        x_l: Tensor,
        y_l: Tensor,
        x_u: Tensor | SomeRows,
        n_classes: int,
        weights: Tensor | None = None,
        held: Tensor | None = None,
    ) -> Self:
        """Diffuse all labels, each with its weight.

        Args:
            x_l: (n_l, d).
            y_l: (n_l,) class numbers.
            x_u: (n_u, d), or rows that are not yet gathered.
            n_classes: Number of classes.
            weights: How much each label counts, (n_l,); None if all count the same.
            held: Which labels are not used, (n_l,): these rows count as unlabelled ones.
        """
        rows = labelled_rows(x_l, y_l, x_u, n_classes, weights)
        edges = self.shared.of(x_l, x_u)
        used = torch.ones(len(rows.y_l), dtype=torch.bool) if held is None else ~held
        y = rows.mass.float() * used[:, None]
        mass = diffused(edges, y, [self.alpha])[0]
        labelled = edges.node[: len(y)]
        unlabelled = torch.cat([labelled[~used], edges.node[len(y) :]])
        if len(unlabelled):
            median = _median_mass(mass.sum(1)[unlabelled])
        else:  # mass that labelled rows get from themselves does not count
            median = _median_mass(mass.sum(1)[labelled] - y.sum(1).to(mass.device))
        prior = class_prior(rows.y_l[used], n_classes, rows.weights_of(used))
        sigma, mass = edges.sigma.cpu(), mass.cpu()
        self._memory = _Memory(edges.space, edges.index.cpu(), sigma, mass, prior, median)
        return self

    def predict_log_proba(self, x: Tensor) -> Tensor:
        """Treat each row as a new unlabelled row: α times its neighbours' weighted mean."""
        if self._memory is None:
            raise not_fitted(self)
        seen = self._memory
        z = seen.space(checked_columns("x", x))
        found = seen.index.nearest(z, min(NEIGHBOURS, len(seen.index.rows)))
        sigma = found.squares[:, -1].sqrt()
        weights = edge_weights(found, sigma, seen.sigma).double()
        share = (weights / weights.sum(1, keepdim=True)).unsqueeze(2)
        mass = self.alpha * (share * seen.mass[found.numbers].double()).sum(1)
        return smoothed(mass, seen.prior, self.smoothing * seen.median)

    def out_of_fold(
        self,
        x_l: Tensor,
        y_l: Tensor,
        x_u: Tensor | SomeRows,
        folds: Tensor,
        n_classes: int,
        weights: Tensor | None = None,
    ) -> Tensor:
        """Return each labelled row's log-probabilities from the labels outside its fold."""
        rows = labelled_rows(x_l, y_l, x_u, n_classes, weights)
        edges = self.shared.of(x_l, x_u)
        return settings_out_of_fold(edges, rows, folds, [self.alpha], [self.smoothing])[0]

    def state(self) -> State:
        """Return the space, the nodes' coordinates and their mass."""
        if self._memory is None:
            raise not_fitted(self)
        seen = self._memory
        tensors = under("space", seen.space) | {"rows": seen.index.rows, "sigma": seen.sigma}
        tensors |= {"mass": seen.mass, "prior": seen.prior}
        own = {"alpha": self.alpha, "smoothing": self.smoothing, "median": seen.median}
        return State(tensors, own)

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Rebuild a fitted graph."""
        tensors, settings = state
        new = cls(float(settings["alpha"]), float(settings["smoothing"]))
        sigma, mass, prior = (tensors[name] for name in ("sigma", "mass", "prior"))
        if not len(tensors["rows"]) == len(sigma) == len(mass) or mass.shape[1:] != prior.shape:
            raise ValueError("the saved graph is damaged: its arrays are not of the same rows.")
        space, index = taken_from(tensors, "space", Space), Index(tensors["rows"])
        new._memory = _Memory(space, index, sigma, mass, prior, float(settings["median"]))
        return new


@dataclass(frozen=True)
class _Memory:
    space: Space
    index: Index
    sigma: Tensor  # (nodes,)
    mass: Tensor  # (nodes, classes)
    prior: Tensor  # (classes,)
    median: float


def labelled_rows(
    x_l: Tensor,
    y_l: Tensor,
    x_u: Tensor | SomeRows,
    n_classes: int,
    weights: Tensor | None = None,
) -> Rows:
    """Return the rows checked, without unlabelled ones that are not yet gathered."""
    return checked_rows(x_l, y_l, None if isinstance(x_u, SomeRows) else x_u, n_classes, weights)


def forget_graphs(teachers: Iterable[object]) -> None:
    """Release what the graphs among some teachers share, which may be large."""
    for teacher in teachers:
        if isinstance(teacher, Graph):
            teacher.shared.forget()


def graph_of(x_l: Tensor, x_u: Tensor | SomeRows, space: Space | None = None) -> Edges:
    """Return the graph of labelled and unlabelled rows, on the device of the unlabelled rows."""
    space = space or Space.of(x_l, x_u)
    z = torch.cat([space(x_l).to(x_u.device), space(x_u)])
    # Equal rows are one node, found by a random combination of their columns in float64.
    generator = torch.Generator().manual_seed(0)
    mixed = torch.randn(z.shape[1], generator=generator, dtype=torch.float64).to(z.device)
    key = torch.cat([rows.double() @ mixed for rows in blocks_of(z)])
    _, node, count = torch.unique(key, return_inverse=True, return_counts=True)
    rows = torch.arange(len(z), device=z.device)
    first = torch.full_like(count, len(z)).scatter_reduce_(0, node, rows, "amin")
    index, n = Index(z[first]), len(first)
    if n == 1:  # a walk that cannot leave its node ends
        nowhere = torch.zeros(2, dtype=torch.long, device=z.device)
        alone = _sparse(nowhere, nowhere[:0], z.new_zeros(0))
        return Edges(space, index, node, z.new_ones(1), count, alone)
    found = index.nearest_others(min(NEIGHBOURS, n - 1))
    sigma = found.squares[:, -1].sqrt()
    weights = edge_weights(found, sigma, sigma).double()
    return Edges(space, index, node, sigma, count, _walk(found.numbers, weights, count))


def _walk(numbers: Tensor, weights: Tensor, count: Tensor) -> Any:
    """P of neighbours (n, k) with their weights: an edge counts both ways, at the larger weight."""
    n, k = numbers.shape
    starts, ends = torch.arange(n, device=numbers.device).repeat_interleave(k), numbers.flatten()
    edge, place = torch.unique(
        torch.cat([starts * n + ends, ends * n + starts]), return_inverse=True
    )
    both = weights.flatten().repeat(2)
    larger = both.new_zeros(len(edge)).scatter_reduce_(0, place, both, "amax")
    del place, both
    start, end = edge // n, edge % n
    larger *= count[end]
    lengths = start.bincount(minlength=n)
    larger /= torch.segment_reduce(larger, "sum", lengths=lengths)[start]
    return _sparse(torch.cat([lengths.new_zeros(1), lengths.cumsum(0)]), end, larger.float())


def _sparse(firsts: Tensor, ends: Tensor, chances: Tensor) -> Any:
    """A sparse matrix of probabilities, (n, n), in CSR form."""
    n = len(firsts) - 1
    if firsts.is_cuda:
        with warnings.catch_warnings():  # PyTorch warns that sparse CSR is in beta
            warnings.simplefilter("ignore", UserWarning)
            return torch.sparse_csr_tensor(firsts.int(), ends.int(), chances, (n, n))
    from scipy.sparse import csr_array

    arrays = (chances.numpy(), ends.int().numpy(), firsts.int().numpy())
    return csr_array(arrays, shape=(n, n))


def edge_weights(found: Neighbours, sigma: Tensor, others: Tensor) -> Tensor:
    """Return exp(−d² / σ_i σ_j) of each neighbour, (n, k)."""
    product = (sigma[:, None] * others[found.numbers]).clamp(min=torch.finfo(torch.float32).tiny)
    return (-found.squares / product).exp().clamp(min=LEAST_WEIGHT)


def diffused(edges: Edges, y: Tensor, alphas: Sequence[float]) -> list[Tensor]:
    """Return Σ_t α^t P^t y for each α, (nodes, columns) each, from y (n_l, columns)."""
    y = y.float().to(edges.node.device)
    start = y.new_zeros(len(edges.count), y.shape[1]).index_add_(0, edges.node[: len(y)], y)
    totals = [start.clone() for _ in alphas]
    here = start
    lengths = [math.ceil(math.log(LEFT_OUT) / math.log(alpha)) for alpha in alphas]
    for step in range(1, max(lengths) + 1):
        on_device = isinstance(edges.walk, Tensor)
        here = edges.walk @ here if on_device else torch.from_numpy(edges.walk @ here.numpy())
        for total, alpha, length in zip(totals, alphas, lengths, strict=True):
            if step <= length:
                total.add_(here, alpha=alpha**step)
    return totals


def settings_out_of_fold(
    edges: Edges, rows: Rows, folds: Tensor, alphas: Sequence[float], smoothings: Sequence[float]
) -> list[Tensor]:
    """Return out-of-fold log-probabilities (n_l, classes) of every α and s, α by α.

    Args:
        edges: The graph of all rows.
        rows: The rows it was built from.
        folds: The fold of each label, (n_l,); labels of fold −1 are never held out and get NaN.
        alphas: Values of α to try.
        smoothings: Values of s to try.
    """
    n_folds, n = int(folds.max()) + 1, len(folds)
    parts = torch.where(folds < 0, n_folds, folds)  # labels in no fold form their own part
    labelled, unlabelled = edges.node[:n], edges.node[n:]
    at, totals = _mass_by_part(edges, rows, parts, alphas)
    shape = (n, rows.n_classes)
    found = [torch.full(shape, torch.nan).double() for _ in alphas for _ in smoothings]
    for number in range(len(alphas)):
        for fold in range(n_folds):
            held = folds == fold
            outside = totals[number].sum(0) - totals[number, fold]
            median = _median_mass(outside[torch.cat([labelled[held], unlabelled])])
            prior = class_prior(rows.y_l[~held], rows.n_classes, rows.weights_of(~held))
            here = (at[number].sum(0) - at[number, fold])[held].double()
            for turn, s in enumerate(smoothings):
                place = number * len(smoothings) + turn
                found[place][held] = smoothed(here, prior, s * median)
    return found


def _mass_by_part(
    edges: Edges, rows: Rows, parts: Tensor, alphas: Sequence[float]
) -> tuple[Tensor, Tensor]:
    """Diffuse the labels part by part, which needs the memory of one part.

    Returns the mass of each class at labelled rows (alphas, parts, n_l, classes), and that of all
    classes at every node (alphas, parts, nodes).
    """
    n, n_parts = len(parts), int(parts.max()) + 1
    at = torch.zeros(len(alphas), n_parts, n, rows.n_classes)
    totals = torch.zeros(len(alphas), n_parts, len(edges.count), device=edges.node.device)
    y = rows.mass.float()
    for part in torch.unique(parts).tolist():
        own = y * (parts == part)[:, None]
        for number, mass in enumerate(diffused(edges, own, alphas)):
            at[number, part] = mass[edges.node[:n]].cpu()
            totals[number, part] = mass.sum(1)
    return at, totals


def smoothed(mass: Tensor, prior: Tensor, weight: float) -> Tensor:
    """Return log((F + w π) / (ΣF + w)), (n, classes), from masses F (n, classes).

    >>> smoothed(torch.tensor([[3.0, 0.0]]), torch.tensor([0.5, 0.5]), 1.0).exp()
    tensor([[0.8750, 0.1250]])
    """
    clean = mass.clamp(min=0)  # a difference of sums may round below 0
    return ((clean + weight * prior) / (clean.sum(1, keepdim=True) + weight)).log()


def _median_mass(totals: Tensor) -> float:
    """The median of masses (rows,); the mean if that is 0, and 1 if all are 0."""
    clean = totals.clamp(min=0).double()
    return float(clean.median()) or float(clean.mean()) or 1.0

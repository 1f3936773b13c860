"""Decide which symmetries of the square training may use, with a short probe on held-out labels.

If the flipped or turned row (x', y) has the same distribution as (x, y), then for any predictor f

    E loss(f(x'), y) = E loss(f(x), y),

so a predictor that has seen images in their own position only can tell: on digits and writing its
loss on flipped held-out rows is much larger. It can tell only as much as it has learnt. A symmetry
is safe if, with 95 % confidence, it costs less than a fifth of what the probe knows about the
labels: the cross-entropy of the class shares minus its own. Each symmetry needs its own test, so
one that is not safe is used with a probability of at most 5 %, however many are tested; what holds
for two of them holds for one after the other. Changes of colour or shape are not symmetries of the
distribution, so this test cannot judge them.

The probe is a regression on patches of the labelled images (:mod:`dessl.teachers.patches`), fitted
without each fifth of the labels in turn: seconds on any device.
"""

import copy
import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from dessl._files import write_whole
from dessl.augment import Strong, Symmetries, Weak
from dessl.augment.symmetries import Position, in_position
from dessl.data import SemiData
from dessl.evaluation.metrics.vocabulary import with_error
from dessl.functional import cross_entropy
from dessl.recipes.held_out import FOLDS, fold_numbers, held_out_check
from dessl.recipes.recipe import Recipe
from dessl.surrogates import Surrogate
from dessl.teachers.evaluated import Predict, label_weights
from dessl.teachers.linear import Linear
from dessl.teachers.patches import learnt_patches, suit_patches
from dessl.teachers.rows import as_columns
from dessl.teachers.space import Space
from dessl.training.progress import doing

STRENGTH = 0.003  # of the regression: small, since confident mistakes make the costs uncertain
MOST = 5_000  # labels used; more would tell nothing new
FEWEST = 20  # held-out labels needed to use a symmetry
LARGEST_COST = 0.2  # of what the probe knows
ONE_SIDED_95 = 1.645
PATIENCE = 2  # times as many evaluations without improvement before training stops early
FILE = "symmetries.json"
AS_IT_IS = Position(flip=False, turns=0)
WORDS = {
    "flip": "flipped left to right",
    "upside_down": "flipped upside down",
    "turn": "turned by quarters",
}


class Cost(NamedTuple):
    """Cross-entropy of rows in other positions minus that of the rows as they are."""

    mean: float
    standard_error: float


@dataclass(frozen=True)
class SymmetryProbe:
    """The costs of symmetries to a regression that has not seen them.

    Attributes:
        n: Number of held-out labels.
        known: Cross-entropy of the class shares minus the regression's.
        costs: By the names of :class:`dessl.augment.Symmetries`; without turns if the images are
            not square. Turns have the mean cost of one, two and three quarters.
    """

    n: int = 0
    known: float = 0.0
    costs: Mapping[str, Cost] = field(default_factory=dict)

    @property
    def safe(self) -> Symmetries:
        """The symmetries to use, each of them safe by itself.

        Turns make one flip of the other, so they are used if both flips are safe, or neither is.

        >>> little, much = Cost(0.02, 0.05), Cost(0.4, 0.05)
        >>> SymmetryProbe(100, 1.0, {"flip": little, "upside_down": much, "turn": little}).safe
        Symmetries(flip=True, upside_down=False, turn=False)
        """
        flip, upside_down, turn = (self.is_safe(name) for name in WORDS)
        return Symmetries(flip, upside_down, turn and flip == upside_down)

    def is_safe(self, name: str) -> bool:
        """Whether a symmetry costs little, with 95 % confidence."""
        if self.n < FEWEST or name not in self.costs:
            return False
        cost = self.costs[name]
        return cost.mean + ONE_SIDED_95 * cost.standard_error < LARGEST_COST * self.known

    @property
    def summary(self) -> str:
        """Which symmetries training used, in a sentence."""
        used = [words for name, words in WORDS.items() if getattr(self.safe, name)]
        first = f"Images were also {_listed(used)}" if used else "No image was flipped or turned"
        return f"{first} in training."

    def __str__(self) -> str:
        first = self.summary.removesuffix(".")
        if self.n < FEWEST:
            return (
                f"{first}: fewer than {FEWEST} labels can be held out to check whether that is "
                "safe."
            )
        costs = _listed(
            [
                f"{with_error('cross_entropy', *cost)} if {WORDS[name]}"
                for name, cost in self.costs.items()
            ]
        )
        return (
            f"{first}: on {self.n} held-out labels the cross-entropy of a short probe "
            f"changes by {costs} (± standard error), and a change is safe if it is below "
            f"{max(0.0, LARGEST_COST * self.known):.3f} with 95 % confidence, a fifth of what the "
            "probe has learnt."
        )


def probed(
    data: SemiData, seed: int, out: Path | None = None, *, groups: Tensor | None = None
) -> SymmetryProbe:
    """Test each symmetry on held-out labels, with a regression on the labelled rows as they are.

    Args:
        data: uint8 images with their labels.
        seed: Seed of the folds and of the patches.
        out: Folder that keeps the result, so that a resumed run makes the same decision.
        groups: Same as in :func:`dessl.recipes.fit`.
    """
    place = None if out is None else out / FILE
    if place is not None and (kept := _read(place)):
        return kept
    with doing("a probe of flips and turns", 0.0):
        found = _measured(data, seed, groups)
    if place is not None:
        place.parent.mkdir(parents=True, exist_ok=True)
        write_whole(place, json.dumps(dataclasses.asdict(found)) + "\n")
    return found


def with_symmetries(recipe: Recipe, symmetries: Symmetries) -> Recipe:
    """The same recipe with symmetries in its views and in the patches of its pool."""
    surrogate, plan = copy.deepcopy(recipe.surrogate), recipe.plan
    for view in weak_views(surrogate):
        view.flip, view.upside_down, view.turn = symmetries
    if any(symmetries) and plan.patience is not None:  # more positions are learnt more slowly
        plan = dataclasses.replace(plan, patience=PATIENCE * plan.patience)
    return dataclasses.replace(recipe, surrogate=surrogate, plan=plan, symmetries=symmetries)


def weak_views(surrogate: Surrogate) -> list[Weak]:
    """The views of the surrogate that can flip and turn images."""
    views = [
        getattr(module, name, None)
        for module in surrogate.modules()
        for name in ("view", "weak", "strong")
    ]
    parts = [view.weak if isinstance(view, Strong) else view for view in views]
    return [part for part in parts if isinstance(part, Weak)]


def _read(place: Path) -> SymmetryProbe | None:
    """The stored result of a probe; None if missing or damaged, to probe again."""
    try:
        found = json.loads(place.read_bytes())
        costs = {name: Cost(*map(float, cost)) for name, cost in found["costs"].items()}
        if costs.keys() <= WORDS.keys():
            return SymmetryProbe(int(found["n"]), float(found["known"]), costs)
    except (OSError, ValueError, TypeError, LookupError, AttributeError):
        pass
    return None


def _measured(data: SemiData, seed: int, groups: Tensor | None) -> SymmetryProbe:
    generator = torch.Generator().manual_seed(seed)
    some = torch.randperm(data.n_labelled, generator=generator)[:MOST].sort().values
    rows = data.labelled_rows[some.to(data.device)]
    y, weights = data.y[rows].cpu(), label_weights(data)
    weights = None if weights is None else weights[some]
    groups = some if groups is None else groups.cpu()[some]
    folds = fold_numbers(y, groups, seed)
    held = folds >= 0
    if len(torch.unique(groups[held])) < FEWEST:
        return SymmetryProbe()
    height, width = data.x.shape[2:]
    tested = {
        name: Symmetries(**{name: True}).positions[1:]
        for name in WORDS
        if name != "turn" or height == width
    }
    columns, space = _columns(data, seed)
    positions = [AS_IT_IS, *(one for each in tested.values() for one in each)]
    shown = {one: columns(in_position(data.x[rows], one)).cpu() for one in positions}
    losses, shares = _losses(shown, y, folds, weights, data.n_classes, space)
    propensity = None if weights is None else 1 / weights[held]
    change = partial(held_out_check, losses[AS_IT_IS], groups=groups[held], propensity=propensity)
    known, costs = change(shares), {}
    for name, each in tested.items():
        found = change(torch.stack([losses[one] for one in each]).mean(0))
        costs[name] = Cost(found.difference, found.standard_error)
    return SymmetryProbe(known.n, known.difference, costs)


def _listed(parts: list[str]) -> str:
    return " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))


def _columns(data: SemiData, seed: int) -> tuple[Predict, Space | None]:
    """What the regression sees of images: patches, or the pixels of images too small for them."""
    if not suit_patches(data, ()):
        return as_columns, None
    patches = learnt_patches(data, seed)
    return patches, Space.unchanged(patches.directions.shape[1])


def _losses(
    shown: Mapping[Position, Tensor],
    y: Tensor,
    folds: Tensor,
    weights: Tensor | None,
    n_classes: int,
    space: Space | None,
) -> tuple[dict[Position, Tensor], Tensor]:
    """Losses (n,) of held-out rows in each position, and those of the class shares."""
    own = shown[AS_IT_IS]
    losses = {position: torch.zeros(len(y), dtype=torch.float64) for position in shown}
    shares = torch.zeros(len(y), dtype=torch.float64)
    for fold in range(FOLDS):
        held = folds == fold
        counts = None if weights is None else weights[~held]
        regression = Linear(STRENGTH, space=space)
        regression.fit(own[~held], y[~held], own[:0], n_classes, counts)
        for position, columns in shown.items():
            log_p = regression.predict_log_proba(columns[held])
            losses[position][held] = cross_entropy(log_p, y[held])
        sums = y[~held].bincount(counts, minlength=n_classes).double() + 1
        shares[held] = -(sums / sums.sum()).log()[y[held]]
    held = folds >= 0
    return {position: loss[held] for position, loss in losses.items()}, shares[held]

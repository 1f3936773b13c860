"""Decide whether training may use mirror images, with a short probe on held-out labels.

If a mirrored row (x', y) has the same distribution as (x, y), then for any network f

    E loss(f(x'), y) = E loss(f(x), y),

so a network that never saw a mirror image can tell: on digits, writing and some organs its loss on
mirrored held-out rows is much larger. It can tell only as much as it has learnt. Mirrors are safe
if, with 95 % confidence, they cost less than a fifth of what the network knows about the labels:
the cross-entropy of the class shares minus its own.
"""

import copy
import dataclasses
import json
import math
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from dessl._files import write_whole
from dessl.augment import Strong, Weak
from dessl.data import SemiData
from dessl.evaluation.metrics import predicted_logits
from dessl.functional import cross_entropy
from dessl.recipes.defaults import Recipe
from dessl.recipes.held_out import held_out_parts
from dessl.risk import COMPLETE_CASE
from dessl.surrogates import Surrogate
from dessl.training import train
from dessl.training.progress import doing

PROBES = 2  # networks, each with a fifth of the labels held out
PROBE_STEPS = 400
FEWEST = 20  # held-out labels needed to use mirror images
LARGEST_COST = 0.2  # of what the probe knows
ONE_SIDED_95 = 1.645
FILE = "mirrors.json"


@dataclass(frozen=True)
class Mirrors:
    """The cost of mirror images to a network that has not seen any.

    Attributes:
        n: Number of held-out labels.
        known: Cross-entropy of the class shares minus the network's.
        cost: Cross-entropy of mirrored rows minus that of the original rows.
        standard_error: Standard error of the cost.
    """

    n: int
    known: float
    cost: float
    standard_error: float

    @property
    def safe(self) -> bool:
        """Whether training may use mirror images.

        >>> Mirrors(100, known=1.0, cost=0.02, standard_error=0.05).safe
        True
        >>> Mirrors(100, known=1.0, cost=0.4, standard_error=0.05).safe
        False
        """
        most = self.cost + ONE_SIDED_95 * self.standard_error
        return self.n >= FEWEST and most < LARGEST_COST * self.known

    def __str__(self) -> str:
        if self.n < FEWEST:
            return (
                f"No mirror images: fewer than {FEWEST} held-out labels to check whether they are "
                "safe."
            )
        used = "Mirror images are shown in training" if self.safe else "No mirror images"
        return (
            f"{used}: on {self.n} held-out labels they change the cross-entropy of a short probe "
            f"by {self.cost:+.3f} ± {self.standard_error:.3f} (standard error); the probe's own is "
            f"{self.known:.3f} nats below that of the class frequencies."
        )


def probed(
    data: SemiData, recipe: Recipe, out: Path | None = None, *, groups: Tensor | None = None
) -> Mirrors:
    """Train short probes on labelled rows alone, without mirrors, and test mirror images on them.

    Args:
        data: Images with their labels.
        recipe: The recipe whose networks and views are probed.
        out: Folder that keeps the result, so that a resumed run makes the same decision.
        groups: Same as in :func:`dessl.recipes.fit`.
    """
    place = None if out is None else out / FILE
    if place is not None and (kept := _read(place)):
        return kept
    parts = held_out_parts(data, groups, members=PROBES, seed=recipe.plan.seed)
    found = Mirrors(0, 0.0, 0.0, math.inf)
    if len(parts.groups) >= FEWEST:
        with doing("probing mirror images"):
            found = _measured([_probe(part, recipe, n) for n, part in enumerate(parts.data)])
    if place is not None:
        place.parent.mkdir(parents=True, exist_ok=True)
        entries = dataclasses.asdict(found) | {"standard_error": min(found.standard_error, 1e9)}
        write_whole(place, json.dumps(entries) + "\n")
    return found


def _read(place: Path) -> Mirrors | None:
    """The stored result of a probe; None if missing or damaged, to probe again."""
    try:
        found = json.loads(place.read_bytes())
        numbers = [float(found[name]) for name in ("known", "cost", "standard_error")]
        return Mirrors(int(found["n"]), *numbers)
    except (OSError, ValueError, TypeError, LookupError):
        return None


def with_mirrors(recipe: Recipe) -> Recipe:
    """The same recipe with mirror images in its views."""
    surrogate = copy.deepcopy(recipe.surrogate)
    for view in flipping_views(surrogate):
        view.flip = True
    return dataclasses.replace(recipe, surrogate=surrogate)


def flipping_views(surrogate: Surrogate) -> list[Weak]:
    """The views of the surrogate that can mirror images."""
    views = [getattr(surrogate, name, None) for name in ("view", "weak", "strong")]
    parts = [view.weak if isinstance(view, Strong) else view for view in views]
    return [part for part in parts if isinstance(part, Weak)]


def _probe(part: SemiData, recipe: Recipe, number: int) -> tuple[Tensor, Tensor, Tensor]:
    """Losses (n,) of held-out rows: from the class shares, from a network, and mirrored."""
    if part.validation is None:
        raise ValueError("a probe needs held-out labels; got none.")
    steps = min(PROBE_STEPS, recipe.plan.total_steps(part.n_labelled))
    plan = dataclasses.replace(
        recipe.plan,
        steps=steps,
        risk=COMPLETE_CASE,
        bound=None,
        ema=0.0,
        seed=recipe.plan.seed + number,
        select="cross_entropy",
        patience=None,
        patience_after=0,
        compile="off",  # compiling takes longer than so few steps
        graph="off",
        schedule="cosine",
        evaluate_every=max(1, steps // 10),
    )
    result = train(
        recipe.model,
        copy.deepcopy(recipe.surrogate),
        part,
        plan,
        transform=recipe.transform,
        progress=False,
    )
    return _losses(result.model, part, recipe)


def _losses(model: nn.Module, part: SemiData, recipe: Recipe) -> tuple[Tensor, Tensor, Tensor]:
    assert part.validation is not None  # noqa: S101 (the caller has looked)
    x, y = part.validation
    counts = part.y[part.labelled_rows].bincount(minlength=part.n_classes).double() + 1
    shares = (counts / counts.sum()).log()
    plain, mirrored = (
        cross_entropy(predicted_logits(model, rows, transform=recipe.transform).double(), y)
        for rows in (x, x.flip(-1))
    )
    return -shares[y].cpu(), plain.cpu(), mirrored.cpu()


def _measured(losses: list[tuple[Tensor, Tensor, Tensor]]) -> Mirrors:
    shares, plain, mirrored = (torch.cat(part).double() for part in zip(*losses, strict=True))
    cost = mirrored - plain
    error = float(cost.std()) / math.sqrt(len(cost))
    return Mirrors(len(cost), float((shares - plain).mean()), float(cost.mean()), error)

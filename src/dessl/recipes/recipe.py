"""Recipe: a model, a surrogate, a plan and what else fit needs besides the data."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from dessl.augment import Symmetries
from dessl.augment.symmetries import NO_SYMMETRIES
from dessl.recipes.scaling import Scaling
from dessl.risk import RISKS
from dessl.surrogates import Surrogate
from dessl.training import TrainPlan

Lam = float | Literal["auto"]

DEFAULT_SURROGATE = "pseudo_label"
STRONG_SURROGATE = "softmatch"  # for images on a GPU
EVALUATIONS = 20  # of each network


@dataclass(frozen=True)
class Recipe:
    """All that :func:`dessl.recipes.fit` needs besides the data.

    Attributes:
        model: Builds one network from standardised rows to logits.
        surrogate: The unlabelled term H; its views standardise images.
        plan: Training plan of each network. Its λ is the one tried if ``lam`` is ``"auto"``.
        scaling: Mean and deviation used to standardise the inputs of ``model``.
        lam: λ as a number, or ``"auto"``: estimated on held-out labels, 0 if it does not help.
        networks: Number of networks, each with a different fifth of the labels held out; one if
            :func:`fit` holds none out.
        teachers: Teachers to pool with the networks, see :func:`dessl.teachers.pooled`; () for no
            pool.
        strong: Whether this is the recipe for images on a GPU: λ is tried as given in the plan.
        safe: Whether to drop whatever held-out labels show to be worse than the complete case.
        reduced_to: Longest side of the images that networks and teachers see; None for all pixels.
        symmetries: Flips and turns of images that networks and patches of the pool see; None for
            those that a probe finds safe (:mod:`dessl.recipes.symmetries`).
        otherwise: What to fit instead if held-out labels do not show that the unlabelled term
            helps; None for the complete case.
        no_pool: Why there are no teachers although none were ruled out; "" otherwise.
    """

    model: Callable[[], nn.Module]
    surrogate: Surrogate
    plan: TrainPlan
    scaling: Scaling
    lam: Lam
    networks: int
    teachers: tuple[object, ...] = ()
    strong: bool = False
    safe: bool = True
    reduced_to: int | None = None
    symmetries: Symmetries | None = NO_SYMMETRIES
    otherwise: "Recipe | None" = None
    no_pool: str = ""

    @property
    def default_surrogate(self) -> str:
        """The name of its surrogate, if the user gave none."""
        return STRONG_SURROGATE if self.strong else DEFAULT_SURROGATE

    @property
    def trains_unlabelled(self) -> bool:
        """Whether to train networks with unlabelled rows, unless held-out labels are against it."""
        return RISKS[self.plan.risk].unlabelled and self.lam != 0

    @property
    def transform(self) -> Callable[[Tensor], Tensor]:
        """Applied to rows in evaluation: uint8 images are standardised, floats stay unchanged."""
        return lambda x: self.scaling.standardised(x) if x.dtype == torch.uint8 else x

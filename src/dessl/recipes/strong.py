"""strong_recipe: debiased SoftMatch for images on a GPU."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from dessl.data import SemiData
from dessl.recipes.architecture import Architecture, architecture_for
from dessl.recipes.recipe import EVALUATIONS, STRONG_SURROGATE, Recipe
from dessl.recipes.scaling import scaling_of, standardising_views
from dessl.recipes.which_teachers import why_no_pool
from dessl.surrogates import named_surrogate
from dessl.teachers import DEFAULT
from dessl.training import TrainPlan

LAM = 0.5  # largest λ with a debiased risk bounded below
STEPS = 8_000  # about a minute on an H200 for 32 × 32 pixels
ROWS, SIDE = 448, 32  # unlabelled rows per step, for images with this side
WIDTH = 64
MOMENTUM = 0.99  # of SoftMatch's running means: 8,000 steps are few for the published 0.999
LEAST_SIDE = 8


def suits_strong(data: SemiData) -> bool:
    """Whether images are on a GPU, have strong views, and some have no label to use them on.

    Strong views are not used with propensities.
    """
    shape = data.x.shape[1:]
    return (
        data.device.type == "cuda"
        and data.propensity is None
        and data.is_image
        and data.n_unlabelled > 0
        and shape[0] in (1, 3)
        and min(shape[1:]) >= LEAST_SIDE
    )


def strong_recipe(
    data: SemiData,
    *,
    term: str = STRONG_SURROGATE,
    steps: int | None = None,
    seed: int = 0,
    model: str | Callable[[], nn.Module] | None = None,
    networks: int | None = None,
) -> Recipe:
    """Return debiased SoftMatch for images on a GPU; works on any device, but slowly.

    λ = ½ is the largest for which the risk is bounded below. No step is selected: the averaged
    weights of the last step are kept, so that held-out labels give an unbiased evaluation. Teachers
    use the features of the network's last layer, and are pooled with it.

    Args:
        data: uint8 images with one or three channels, with unlabelled rows.
        term: ``"softmatch"``, aligned to the class frequencies of the labels, or ``"fixmatch"``.
        steps: Training steps; 8,000 by default.
        seed: Same as in :func:`recipe_for`.
        model: Same as in :func:`recipe_for`; FastCifar of width 64 by default.
        networks: Same as in :func:`recipe_for`; one by default.
    """
    length = STEPS if steps is None else steps
    area = data.x.shape[2] * data.x.shape[3] / SIDE**2
    rows = max(64, round(ROWS / max(1.0, area)))  # fewer larger images fit
    rows = min(rows, data.n_unlabelled)
    cuda, pooled = data.device.type == "cuda", model is None and networks in (None, 1)
    no_pool = why_no_pool(data) if pooled else ""
    scaling = scaling_of(data.x)
    options = {"n_classes": data.n_classes, "in_channels": data.x.shape[1], "width": WIDTH}
    own = Architecture("fast_cifar", options)
    return Recipe(
        model=own if model is None else architecture_for(data, model, tuple(data.x.shape[1:])),
        surrogate=named_surrogate(
            term,
            views=standardising_views(scaling),
            seed=seed,
            targets="apart",
            **(_aligned(data) if term == "softmatch" else {}),
        ),
        plan=TrainPlan(
            steps=length,
            labelled_batch=64,
            unlabelled_batch=rows,
            include_labelled=True,
            optimiser="muon",
            learning_rate=5e-3,
            weight_decay=0.2,
            schedule={
                "name": "warm_up",
                "warm_up": min(500, max(1, length // 16)),
                "then": "cosine",
            },
            ema=0.999 if length >= STEPS // 4 else 0.9,
            precision="bf16" if cuda and torch.cuda.is_bf16_supported() else "float32",
            lam=LAM,
            risk="debiased",
            evaluate_every=max(1, length // EVALUATIONS),
            seed=seed,
        ),
        scaling=scaling,
        lam="auto",
        networks=networks or 1,
        # With several networks, features depend on labels that another network is evaluated on.
        teachers=DEFAULT if pooled and not no_pool else (),
        strong=True,
        symmetries=None,
        no_pool=no_pool,
    )


def _aligned(data: SemiData) -> dict[str, Any]:
    """Settings of SoftMatch: class frequencies of the labels, plus one label for each class."""
    counts = torch.bincount(data.y[data.labelled_rows].cpu(), minlength=data.n_classes) + 1.0
    return {"prior": (counts / counts.sum()).tolist(), "momentum": MOMENTUM}

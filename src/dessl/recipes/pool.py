"""A pool of the networks and teachers, judged on the labels held out of each of them."""

import dataclasses
from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from dessl.data import SemiData
from dessl.recipes.defaults import Recipe
from dessl.recipes.held_out import HeldOutParts
from dessl.recipes.predictor import PooledPredictor, Predictor
from dessl.teachers import pooled, selected_by_others
from dessl.teachers.pooling import as_columns
from dessl.training.ranks import from_first


def with_teachers(
    networks: Predictor,
    logits: Sequence[Tensor],
    data: SemiData,
    parts: HeldOutParts,
    recipe: Recipe,
) -> Predictor | PooledPredictor:
    """Return the pool of networks and teachers, or the networks alone if labels are too few.

    Args:
        networks: Trained, each with the labels of one part held out.
        logits: Of those labels' rows, as in :class:`dessl.recipes.networks.Networks`.
        data: As it was given.
        parts: What the networks were trained on.
        recipe: With the teachers to try.
    """
    fit_pool = partial(
        pooled,
        data,
        parts.folds,
        networks.doubted(_out_of_fold(logits, data, parts)),
        networks,
        teachers=recipe.teachers,
        columns=networks.features if recipe.strong else None,
        groups=parts.all_groups,
        seed=recipe.plan.seed,
    )
    # Every rank has the networks: what is sent is the rest.
    rest = from_first(
        lambda: dataclasses.replace(fit_pool(), anchor_predict=as_columns, columns=as_columns)
    )
    pool = dataclasses.replace(rest, anchor_predict=networks, on_features=recipe.strong)
    return networks if pool.report is None else PooledPredictor(networks, pool)


def _out_of_fold(logits: Sequence[Tensor], data: SemiData, parts: HeldOutParts) -> Tensor:
    """Each held-out row's log-probabilities by the network that held it out; NaN for the others."""
    if data.validation is not None:
        return selected_by_others(logits[0], data.validation.y.cpu())
    y, folds = data.y[data.labelled_rows].cpu(), parts.folds
    found = torch.full((len(y), data.n_classes), torch.nan, dtype=torch.float64)
    for fold, own in enumerate(logits):
        held = folds == fold
        found[held] = selected_by_others(own, y[held], parts.all_groups[held])
    return found

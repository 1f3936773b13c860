"""A pool of the networks and teachers, judged on the labels held out of each of them.

The step that a network keeps is the one with the lowest loss on its held-out rows, so its
predictions of them are optimistic. With their logits at every step, each row's step can be chosen
by the other rows instead (:mod:`dessl.teachers.crossfit`).
"""

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from dessl._files import write_whole
from dessl.data import SemiData
from dessl.evaluation.metrics import predicted_logits
from dessl.recipes.defaults import Recipe
from dessl.recipes.held_out import HeldOutParts
from dessl.recipes.predictor import PooledPredictor, Predictor
from dessl.teachers import pooled, selected_by_others
from dessl.teachers.pooling import as_columns
from dessl.training import Event, TrainResult
from dessl.training.ranks import from_first

FILE = "held_out.safetensors"


class Networks(NamedTuple):
    """Trained networks, and the logits of their held-out rows at every evaluation.

    Attributes:
        results: One for each network.
        logits: (evaluations, n, classes) of each; () if nothing was held out or is needed.
    """

    results: tuple[TrainResult, ...]
    logits: tuple[Tensor, ...]


class StepLogits:
    """A callback of :func:`dessl.train` that stores the logits of one network's held-out rows.

    Args:
        build: Builds the network.
        data: Its validation part has the held-out rows.
        transform: Applied to rows before the network.
        folder: Of the run; the logits are stored there so that it can be resumed. None to keep
            them in memory.
    """

    def __init__(
        self,
        build: Callable[[], nn.Module],
        data: SemiData,
        transform: Callable[[Tensor], Tensor],
        folder: Path | None,
    ) -> None:
        if data.validation is None:
            raise ValueError("data must have held-out rows; got no validation part.")
        self._build = build
        self._x = data.validation.x
        self._transform = transform
        self._place = None if folder is None else folder / FILE
        self._model: nn.Module | None = None
        self._found: dict[int, Tensor] | None = None

    def build(self) -> nn.Module:
        """Build the network whose logits are stored from now on."""
        self._model = self._build()
        return self._model

    def __call__(self, event: Event) -> None:
        """Store the logits of this step; those of later steps, from a killed run, are dropped."""
        if self._model is None:
            raise RuntimeError("train with build= this object's .build.")
        logits = predicted_logits(self._model, self._x, transform=self._transform).float().cpu()
        earlier = {step: kept for step, kept in self._kept().items() if step < event.step}
        self._found = earlier | {event.step: logits}
        if self._place is not None:
            from safetensors.torch import save

            tensors = {str(step): kept.contiguous() for step, kept in self._found.items()}
            write_whole(self._place, save(tensors))

    def of(self, result: TrainResult) -> Tensor | None:
        """Return the logits (evaluations, n, classes) of a run; None where some are missing.

        Some are missing if the run was killed between a checkpoint and the callback after it. A
        run that selects no step by its held-out rows has one evaluation, that of its model.
        """
        if result.plan.select == "last" or result.plan.ema:
            logits = predicted_logits(result.model, self._x, transform=self._transform)
            return logits.float().cpu()[None]
        found = self._kept()
        steps = [event.step for event in result.history]
        if not steps or any(step not in found for step in steps):
            return None
        return torch.stack([found[step] for step in steps])

    def _kept(self) -> dict[int, Tensor]:
        if self._found is None:
            self._found = {} if self._place is None else _read(self._place, len(self._x))
        return self._found


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
        logits: Of those labels' rows, as in :class:`Networks`.
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


def _read(place: Path, n: int) -> dict[int, Tensor]:
    """Logits by step; none if the file is missing or damaged, since they can be computed again."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        found = {int(step): logits for step, logits in load(place.read_bytes()).items()}
    except (OSError, ValueError, SafetensorError):
        return {}
    return found if all(len(logits) == n for logits in found.values()) else {}

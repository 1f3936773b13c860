"""The networks of a recipe, trained one for each part of the data, and their pool with teachers.

A network keeps the step with the lowest loss on its held-out rows, so its
predictions of them are optimistic. With their logits at every step, each row's step can be chosen
from the other rows instead (:mod:`dessl.teachers.crossfit`).
"""

import copy
import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from dessl._files import write_whole
from dessl.augment.symmetries import NO_SYMMETRIES
from dessl.data import SemiData
from dessl.evaluation.metrics import predicted_logits
from dessl.objective import RiskKind
from dessl.recipes.held_out import HeldOutParts
from dessl.recipes.predictor import PooledPredictor, Predictor
from dessl.recipes.recipe import Recipe
from dessl.risk import RISKS
from dessl.teachers import Pooled, pooled, selected_by_others
from dessl.teachers.evaluated import label_weights
from dessl.teachers.rows import as_columns
from dessl.training import Event, TrainPlan, TrainResult, train
from dessl.training.checkpoint import has_checkpoint
from dessl.training.folder import RunFolder
from dessl.training.progress import doing
from dessl.training.ranks import from_first
from dessl.training.spreading import Trained, spread_trainings

FILE = "held_out.safetensors"
CHECKPOINT_SECONDS = 5.0  # lost at most if a fit is killed; most networks of tables take less


class Networks(NamedTuple):
    """Trained networks, and the logits of their held-out rows at every evaluation.

    Attributes:
        results: Training result of each network.
        logits: Logits (evaluations, n, classes) of each; () if not needed or nothing was held out.
    """

    results: tuple[TrainResult, ...]
    logits: tuple[Tensor, ...]


class StepLogits:
    """A callback of :func:`dessl.train` that stores the logits of one network's held-out rows.

    Args:
        build: Builds the network.
        data: The data; its validation part has the held-out rows.
        transform: Function applied to rows before the network.
        folder: Folder of the run; the logits are stored there with each checkpoint, so that it can
            be resumed. None keeps them in memory.
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
        self._kept = {} if self._place is None else _read(self._place, len(self._x))

    def build(self) -> nn.Module:
        """Build the network whose logits are stored from now on."""
        self._model = self._build()
        return self._model

    def __call__(self, event: Event) -> None:
        """Store the logits of this step; those of later steps, from a killed run, are dropped."""
        if self._model is None:
            raise RuntimeError(
                "StepLogits has no network: train must build it. Pass .build of this object to "
                "train as its model."
            )
        logits = predicted_logits(self._model, self._x, transform=self._transform).float().cpu()
        earlier = {step: kept for step, kept in self._kept.items() if step < event.step}
        self._kept = earlier | {event.step: logits}
        if self._place and has_checkpoint(RunFolder(self._place.parent).checkpoints, event.step):
            from safetensors.torch import save

            tensors = {str(step): kept.contiguous() for step, kept in self._kept.items()}
            write_whole(self._place, save(tensors))

    def of(self, result: TrainResult) -> Tensor | None:
        """Return the logits (evaluations, n, classes) of a run; None if some are missing.

        They are missing if the run was killed between a checkpoint and the callback after it. A
        run that selects no step by its held-out rows has one evaluation, that of the final model.
        """
        if result.plan.select == "last" or result.plan.ema:
            logits = predicted_logits(result.model, self._x, transform=self._transform)
            return logits.float().cpu()[None]
        steps = [event.step for event in result.history]
        if not steps or any(step not in self._kept for step in steps):
            return None
        return torch.stack([self._kept[step] for step in steps])


@dataclass(frozen=True)
class Training:
    """Train the networks of a recipe, one for each part of the data.

    Attributes:
        recipe: The recipe to train.
        parts: The data of each network, with its held-out rows.
        callbacks: Same as in :func:`dessl.train`, called for each network.
        out: Folder for resumable runs, one subfolder for each network; None to keep nothing.
        progress: Whether to show progress on a terminal.
    """

    recipe: Recipe
    parts: tuple[SemiData, ...]
    callbacks: tuple[Callable[[Event], None], ...]
    out: str | Path | None
    progress: bool

    def members(self, risk: RiskKind, lam: float) -> Networks:
        """Train one network for each part, and keep what a pool needs of its held-out rows."""
        jobs = [partial(self._network, risk, lam, number) for number in range(len(self.parts))]
        if len(jobs) == 1:  # by all ranks together
            found = [jobs[0]()]
        else:
            found = spread_trainings(jobs, self.recipe.model, self.parts[0].device)
        logits = tuple(one.extra for one in found if one.extra is not None)
        return Networks(tuple(result for one in found for result in one.results), logits)

    def _network(self, risk: RiskKind, lam: float, number: int) -> Trained[Tensor | None]:
        """Train a network; return it with the logits of its held-out rows if a pool needs them."""
        part = self.parts[number]
        folder = None if self.out is None else Path(self.out) / f"{risk}-{number}"
        if part.propensity is not None and self.recipe.plan.risk == "debiased":
            risk = "debiased"  # labels count by 1/π in the complete case too: λ = 0
        seed = self.recipe.plan.seed + number
        plan = dataclasses.replace(self.recipe.plan, risk=risk, lam=lam, seed=seed)
        if part.validation is None:
            plan = dataclasses.replace(plan, select="last", patience=None, patience_after=0)
        if not self.recipe.teachers or self.parts[0].validation is None:
            return Trained((self._train(self.recipe.model, part, plan, (), folder),), None)
        steps = StepLogits(self.recipe.model, part, self.recipe.transform, folder)
        result = self._train(steps.build, part, plan, (steps,), folder)
        found = from_first(partial(steps.of, result))  # only rank 0 ran the callbacks
        if found is None:  # a resumed run lost some: repeat it from the start
            steps = StepLogits(self.recipe.model, part, self.recipe.transform, None)
            again = self._train(steps.build, part, plan, (steps,), None)
            found = from_first(partial(steps.of, again))
        return Trained((result,), found)

    def _train(
        self,
        build: Callable[[], nn.Module],
        part: SemiData,
        plan: TrainPlan,
        watch: tuple[Callable[[Event], None], ...],
        folder: Path | None,
    ) -> TrainResult:
        number = plan.seed - self.recipe.plan.seed + 1
        method = RISKS[plan.risk].titled(type(self.recipe.surrogate).__name__)
        with doing(f"{method}, network {number} of {len(self.parts)}"):
            return train(
                build,
                copy.deepcopy(self.recipe.surrogate),
                part,
                plan,
                callbacks=(*watch, *self.callbacks),
                out=folder,
                transform=self.recipe.transform,
                progress=self.progress,
                checkpoint_seconds=CHECKPOINT_SECONDS,
            )


def with_teachers(
    networks: Predictor,
    logits: Sequence[Tensor],
    data: SemiData,
    parts: HeldOutParts,
    recipe: Recipe,
) -> Predictor | PooledPredictor:
    """Return the pool of networks and teachers, or the networks alone if labels are too few.

    Args:
        networks: Trained networks, each with the labels of one part held out.
        logits: Logits of the held-out rows, see :class:`Networks`.
        data: The data as given.
        parts: The data of each network, with its held-out rows.
        recipe: The recipe with the teachers to try.
    """
    if data.validation is not None:
        log_p = selected_by_others(logits[0], data.validation.y.cpu())
    else:  # of each held-out row by the network that held it out; NaN for the others
        y = data.y[data.labelled_rows].cpu()
        weights = label_weights(data)
        log_p = torch.full((len(y), data.n_classes), torch.nan, dtype=torch.float64)
        for fold, own in enumerate(logits):
            held = parts.folds == fold
            counts = None if weights is None else weights[held]
            log_p[held] = selected_by_others(own, y[held], parts.all_groups[held], counts)
    fit_pool = partial(
        pooled,
        data,
        parts.folds,
        networks.doubted(log_p),
        networks,
        teachers=recipe.teachers,
        columns=networks.features if recipe.strong else None,
        groups=parts.all_groups,
        each_anchor=networks.each,
        symmetries=recipe.symmetries or NO_SYMMETRIES,
        seed=recipe.plan.seed,
    )
    # Every rank already has the networks: send only the rest.
    rest = from_first(lambda: _without_networks(fit_pool(), on_features=recipe.strong))
    pool = dataclasses.replace(rest, anchor_predict=networks, on_features=recipe.strong)
    return networks if pool.report is None else PooledPredictor(networks, pool)


def _without_networks(pool: Pooled, *, on_features: bool) -> Pooled:
    columns = as_columns if on_features else pool.columns
    return dataclasses.replace(pool, anchor_predict=as_columns, columns=columns)


def _read(place: Path, n: int) -> dict[int, Tensor]:
    """Logits by step; empty if the file is missing or damaged, as they can be recomputed."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        found = {int(step): logits for step, logits in load(place.read_bytes()).items()}
    except (OSError, ValueError, SafetensorError):
        return {}
    return found if all(len(logits) == n for logits in found.values()) else {}

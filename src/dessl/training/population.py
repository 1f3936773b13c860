"""Many runs of one architecture as one computation: the way to train a λ-sweep over splits.

Runs may differ in their label draw, seed, λ and risk. Each has the streams, the selection and the
early stopping that it would have alone, and ends with the same weights up to rounding. Two
exceptions: dropout draws other numbers from the same distribution, and training may magnify
rounding, above all AdamW if a bias before a normalisation layer has no other gradient. Events have
less about validation rows: no correlation, no best λ, and only accuracy and cross-entropy unless
runs are selected by another metric. Complete-case runs are a population of their own: they never
see an unlabelled row.
"""

import copy
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn

from dessl.data import SemiData
from dessl.surrogates import Surrogate, as_surrogate
from dessl.surrogates.base import forked, seed_generators
from dessl.training.checkpoint import save_checkpoint
from dessl.training.division import divided, part_of
from dessl.training.folder import RunFolder, locked_folder
from dessl.training.identity import data_identity
from dessl.training.loop import drive
from dessl.training.member import TrainResult
from dessl.training.model_state import begin_training
from dessl.training.plan import TrainPlan
from dessl.training.ranks import check_same_on_ranks, from_first, rank, ranks
from dessl.training.spreading import Trained, spread_trainings
from dessl.training.stacked_model import check_stackable
from dessl.training.stacked_runs import Population, PopulationRun
from dessl.training.step import check_propensity, plan_for
from dessl.training.watch import levels


def train_population(
    model: Callable[[], nn.Module],
    surrogate: str | Surrogate | Callable[..., Tensor],
    data: SemiData,
    runs: Sequence[PopulationRun],
    plan: TrainPlan,
    *,
    device: torch.device | str | None = None,
    transform: Callable[[Tensor], Tensor] | None = None,
    chunk: int | None = None,
    out: str | Path | None = None,
    resume: bool = True,
    progress: bool = True,
    keep_logits: bool = False,
) -> list[TrainResult]:
    """Train many runs at once and return one result for each, in their order.

    A result has the weights of the run alone in :func:`dessl.train`, up to rounding and, with
    dropout, its draws. AdamW magnifies rounding if a bias comes before a normalisation layer: a
    bias that the layer cancels has no other gradient, and evaluated predictions differ visibly. So
    does :func:`dessl.train` after a tiny change of the initial weights. To avoid it, pass
    ``bias=False`` to layers before a normalisation layer, or use SGD.

    Under ``torchrun``, within :func:`dessl.training.process_group`, each rank trains its share of
    the runs, and every rank gets all results.

    Args:
        model: Builds a model; called once for each run, with the run's seed set.
        surrogate: A term without state or random draws, such as ``"entropy"``; others are refused:
            train their runs one at a time with :func:`dessl.train`.
        data: Data with all labels that any draw uses; all runs share its rows.
        runs: What differs between runs. All draws must have the same number of labelled rows,
            and of validation rows.
        plan: The plan they share; its seed, λ, risk and ``guard_every`` are not used. A run that
            diverges is ended at the next evaluation, with a warning; the others continue.
        device: Device to train on; by default the data's.
        transform: Transform of rows in evaluation, same as in :func:`dessl.train`.
        chunk: Largest number of runs at a time, if all of them do not fit in the device's memory.
        out: Folder for checkpoints, one a minute; None to keep nothing. They can be resumed on any
            number of ranks, and with another ``chunk``.
        resume: Whether to resume from the checkpoints in ``out``.
        progress: Whether to show a progress bar on a terminal.
        keep_logits: Whether results have ``validation_logits``.

    >>> from dessl.data import draw_labels
    >>> from dessl.models import MLP
    >>> from dessl.surrogates import Entropy
    >>> g = torch.Generator().manual_seed(0)
    >>> x = torch.randn(60, 2, generator=g)
    >>> data = SemiData(x, (x[:, 0] > 0).long())
    >>> draw = draw_labels(data.y, 20, n_validation=8, generator=g)
    >>> runs = [PopulationRun(0, draw, lam, "ssl") for lam in (0.1, 1.0)]
    >>> plan = TrainPlan(steps=20, labelled_batch=6, unlabelled_batch=12)
    >>> results = train_population(lambda: MLP(2, 2, dropout=0.0), Entropy(), data, runs, plan)
    >>> [(result.plan.lam, result.steps, len(result.history)) for result in results]
    [(0.1, 20, 20), (1.0, 20, 20)]
    """
    surrogate = as_surrogate(surrogate)
    _check(data, runs, plan)
    risks = {run.risk: plan_for(run.plan(plan), data).risk for run in runs}
    runs = [dataclasses.replace(run, risk=risks[run.risk]) for run in runs]
    data = data if device is None else data.to(device)
    if transform is None and data.is_image:
        transform = levels
    if ranks() > 1:
        check_same_on_ranks(data_identity(data), "the data")

    place = None if out is None else Path(out)
    training = _Training(model, surrogate, data, runs, plan, transform, place, resume, keep_logits)
    groups = from_first(
        partial(
            divided,
            place,
            [run.risk for run in runs],
            training.cut,
            chunk=chunk,
            shares=ranks(),
            resume=resume,
        )
    )
    shown = progress and rank() == 0
    jobs = [partial(training.trained, *group, shown) for group in groups.items()]
    found = spread_trainings(jobs, model, data.device)
    results = {i: result for one in found for i, result in zip(one.extra, one.results, strict=True)}
    return [results[i] for i in range(len(runs))]


def _check(data: SemiData, runs: Sequence[PopulationRun], plan: TrainPlan) -> None:
    if isinstance(runs, PopulationRun):
        raise TypeError("runs must be a list of PopulationRun; got one. Put it in a list.")
    if not runs:
        raise ValueError("runs must have at least one PopulationRun; got none.")
    members: list[tuple[str, object, type]] = [("each of runs", run, PopulationRun) for run in runs]
    for name, value, kind in [("data", data, SemiData), ("plan", plan, TrainPlan), *members]:
        if not isinstance(value, kind):
            raise TypeError(f"{name} must be a {kind.__name__}; got {type(value).__name__}.")
    for run in runs:
        check_propensity(run.risk, data)
    for name, part in (("labelled", 0), ("validation", 1)):
        sizes = sorted({len(run.draw[part]) for run in runs})
        if len(sizes) > 1:
            raise ValueError(
                f"all draws of a population must have the same number of {name} rows; got "
                f"{', '.join(map(str, sizes))}. Train a population for each size."
            )
    if data.stored is not None:
        raise ValueError(
            "the runs of a population draw rows from memory, but data has unlabelled rows in "
            f"{data.stored.source}. Train the runs one by one with dessl.train."
        )
    if plan.online:
        raise ValueError(
            "online=True uses the gradients of a single model. Pass each run a fixed lam, or train "
            "the runs one by one with dessl.train."
        )
    if plan.optimiser == "muon":
        raise ValueError(
            "Muon works on whole matrices, so it cannot train stacked models. Use optimiser='sgd' "
            "or 'adamw', or train the runs one by one with dessl.train."
        )


@dataclasses.dataclass(frozen=True)
class _Training:
    """Train groups of runs, each group as one population; arguments of :func:`train_population`.

    A group is given by the numbers of its runs.
    """

    model: Callable[[], nn.Module]
    surrogate: Surrogate
    data: SemiData
    runs: Sequence[PopulationRun]
    plan: TrainPlan
    transform: Callable[[Tensor], Tensor] | None
    out: Path | None
    resume: bool
    keep_logits: bool

    def trained(self, name: str, members: list[int], shown: bool) -> Trained[list[int]]:
        """Train a group in the folder of this name, and return the results with its runs."""
        folder = None if self.out is None else self.out / name
        with forked(self.data.device):
            population = self._built(members)
            with locked_folder(folder) as held, _advice(len(members)):
                drive(population, held, resume=self.resume, progress=shown)
        return Trained(tuple(population.results()), members)

    def cut(self, folder: Path, members: list[int], parts: Mapping[Path, slice]) -> None:
        """Cut the checkpoint of a group into those of its parts, for :func:`divided`."""
        if not RunFolder(folder).checkpoints.is_dir():
            return
        with forked(self.data.device), locked_folder(folder) as held:
            population = self._built(members)
            if held:
                held.begin(population.identity(), population.restore, resume=True)
            saved = population.checkpoint()
            for place, its in parts.items():
                checkpoints = RunFolder(place).checkpoints
                save_checkpoint(checkpoints, population.done, *part_of(saved, its))

    def _built(self, members: list[int]) -> Population:
        its = [self.runs[i] for i in members]
        population = built_population(
            self.model, self.surrogate, self.data, its, self.plan, self.transform
        )
        population.keep_logits = self.keep_logits
        return population


def built_population(
    factory: Callable[[], nn.Module],
    surrogate: Surrogate,
    data: SemiData,
    runs: Sequence[PopulationRun],
    plan: TrainPlan,
    transform: Callable[[Tensor], Tensor] | None,
) -> Population:
    """Return runs of one batch shape before their first step, sorted by risk."""
    models = [begin_training(_built(factory, run.seed, data.device)) for run in runs]
    check_stackable(surrogate, models, data, fast=data.device.type == "cuda")
    return Population(models, surrogate, data, runs, plan, transform)


def _built(factory: Callable[[], nn.Module], seed: int, device: torch.device) -> nn.Module:
    """A run's own model, copied since a function may return the same module every time."""
    seed_generators(seed, device)
    built = factory if isinstance(factory, nn.Module) else factory()
    if built is factory or not isinstance(built, nn.Module):
        raise TypeError(
            "model must be a function that builds an nn.Module, for each run its own; got "
            f"{type(built).__name__}. Pass a function, such as lambda: MLP(4, 2)."
        )
    return copy.deepcopy(built).to(device)


@contextmanager
def _advice(runs: int) -> Iterator[None]:
    """Explain what to do if the runs do not fit in the device's memory."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        error.add_note(
            f"{runs} runs at a time do not fit in memory: pass chunk={max(1, runs // 2)}."
        )
        raise

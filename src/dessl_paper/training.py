"""A cell's training: its network, unlabelled term and views, the run itself, and its record."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, get_type_hints

import torch
from torch import Tensor, nn

from dessl._entries import EntryError, check_call, check_name, read_as
from dessl.augment import Strong, Weak, noisy
from dessl.data import SemiData
from dessl.data.labels import MISSING
from dessl.data.parts import Part
from dessl.data.publishers import DATASETS
from dessl.evaluation import Metrics, evaluate
from dessl.models import MODELS
from dessl.results.machine import commit, machine_facts
from dessl.results.record import Record, thinned
from dessl.surrogates import SURROGATES, Surrogate, named_surrogate
from dessl.training import (
    DivergenceError,
    PopulationRun,
    TrainPlan,
    TrainResult,
    train,
    train_population,
)
from dessl.training.ranks import processes
from dessl_paper.specification import Cell, Experiment, check_metrics

Transform: TypeAlias = Callable[[Tensor], Tensor]
Measured: TypeAlias = tuple[dict[str, Any], dict[str, Any]]
Measure: TypeAlias = Callable[[Experiment, nn.Module, SemiData], Measured]

GIVEN = ("n_features", "n_classes", "in_channels")  # arguments of networks, from the data
VIEWS = ("view", "weak", "strong")  # arguments of surrogates that the table ``views`` describes


class Diverged(NamedTuple):
    """The end of a run that diverged: the reason, and how long it took."""

    reason: str
    seconds: float


Ended: TypeAlias = TrainResult | Diverged


def network(settings: Mapping[str, Any], data: SemiData) -> Callable[[], nn.Module]:
    """Return a function that builds the network for the data's images and classes.

    >>> from dessl_paper.sources import generated
    >>> network({"name": "lenet"}, generated("mnist", 4))()(torch.zeros(1, 1, 28, 28)).shape
    torch.Size([1, 10])
    """
    own = dict(settings)
    name = own.pop("name")
    check_name(name, MODELS, at="model.name")
    if name == "mlp":
        features = data.x[0].numel()
        return lambda: nn.Sequential(nn.Flatten(), MODELS[name](features, data.n_classes, **own))
    return partial(MODELS[name], n_classes=data.n_classes, in_channels=data.x.shape[1], **own)


def unlabelled_term(
    settings: Mapping[str, Any], views: Mapping[str, Any], *, seed: int = 0
) -> Surrogate:
    """The unlabelled term, with the experiment's settings for each of its views.

    Args:
        settings: Its name and settings.
        views: The experiment's settings of the views.
        seed: Seed of the random draws of its views.

    >>> views = {"mean": 0.5, "std": 1.0, "view": {"flip": False, "shift": 0}}
    >>> type(unlabelled_term({"name": "pseudo_label", "threshold": 0.9}, views)).__name__
    'PseudoLabel'
    """
    made = {which: _view(which, views) for which in VIEWS}
    return named_surrogate(**settings, views=made, seed=seed)


class NoisyView:
    """A weak view with Gaussian noise after normalisation: Oliver et al.'s for CIFAR-10.

    Args:
        noise: Standard deviation.
        weak: Settings of :class:`dessl.augment.Weak`.
    """

    def __init__(self, noise: float, **weak: Any) -> None:
        self.noise = noise
        self.weak = Weak(**weak)

    def __call__(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Return the view of uint8 images, as floats."""
        return noisy(self.weak(x, generator), self.noise, generator)


def shown(views: Mapping[str, Any]) -> Transform:
    """The input of a model at evaluation: normalised rows, without randomness."""
    plain = Weak(flip=False, shift=0, **_normalisation(views))
    return lambda x: plain(x, torch.Generator(x.device))


def _view(which: str, views: Mapping[str, Any]) -> Callable[..., Tensor]:
    settings = {**views.get(which, {}), **_normalisation(views)}
    if which == "strong":
        return Strong(**settings)
    return NoisyView(**settings) if "noise" in settings else Weak(**settings)


def _normalisation(views: Mapping[str, Any]) -> dict[str, Any]:
    return {key: views[key] for key in ("mean", "std") if key in views}


def trained_cells(
    experiment: Experiment,
    cells: list[Cell],
    left: set[str],
    data: SemiData | None,
    folder: Path,
    *,
    progress: bool,
    measured: Measure | None = None,
) -> Iterator[Record]:
    """Train some cells, as a population if the experiment has one, and yield their records.

    Args:
        experiment: What to run.
        cells: The cells to train together.
        left: Keys of the cells that have no record yet.
        data: Rows, on the device.
        folder: Folder of the checkpoints.
        progress: Whether to show a bar.
        measured: What to measure on a trained model; by default the metrics on the test rows.
    """
    assert data is not None  # noqa: S101 (only the toy example has none)
    if experiment.population or len(cells) > 1:  # started as a population, it resumes as one
        results = _population(experiment, cells, data, folder, progress=progress)
    else:
        results = [trained_alone(experiment, cells[0], data, folder, progress=progress)]
    for cell, result in zip(cells, results, strict=True):
        if cell.key in left:
            yield training_record(
                experiment, cell, data, result, len(cells), measured or metrics_on_test
            )


def trained_alone(
    experiment: Experiment,
    cell: Cell,
    data: SemiData,
    folder: Path,
    *,
    progress: bool,
    build: Callable[[], nn.Module] | None = None,
) -> Ended:
    """Train one run by itself.

    Args:
        experiment: What to run.
        cell: The run.
        data: Rows, on the device.
        folder: Folder of the checkpoints.
        progress: Whether to show a bar.
        build: Builds the network with other initial weights; the experiment's by default.
    """
    began = time.perf_counter()
    try:
        return train(
            build or network(experiment.model, data),
            unlabelled_term(cell.method.surrogate, experiment.views, seed=cell.seed),
            data.with_labels(cell.draw(data.y.cpu())),
            cell.plan(experiment),
            transform=shown(experiment.views),
            out=folder,
            progress=progress,
        )
    except DivergenceError as error:
        return Diverged(str(error), time.perf_counter() - began)


def _population(
    experiment: Experiment, cells: list[Cell], data: SemiData, folder: Path, *, progress: bool
) -> list[Ended]:
    """Train several runs at once."""
    y = data.y.cpu()
    first = cells[0]
    results = train_population(
        network(experiment.model, data),
        unlabelled_term(first.method.surrogate, experiment.views),
        data,
        [PopulationRun(c.seed, c.draw(y), c.lam, c.method.risk) for c in cells],
        first.plan(experiment),
        transform=shown(experiment.views),
        out=folder,
        progress=progress,
    )
    return [_unless_diverged(result) for result in results]


def _unless_diverged(result: TrainResult) -> Ended:
    if not result.diverged:
        return result
    lam = result.plan.lam
    reason = f"the run diverged at step {result.steps}, with λ = {lam:g}."
    return Diverged(reason, result.seconds)


def metrics_on_test(experiment: Experiment, model: nn.Module, data: SemiData) -> Measured:
    """Metrics of a trained model on the test rows, and no curves."""
    assert data.test is not None  # noqa: S101 (experiment_data refuses data without)
    return exact_metrics(model, data.test, experiment.views).as_dict(), {}


def exact_metrics(model: nn.Module, part: Part, views: Mapping[str, Any]) -> Metrics:
    """Metrics of an image model on a part, with convolutions in full float32 on every device."""
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        return evaluate(model, part.x, part.y, transform=shown(views))


def training_record(
    experiment: Experiment,
    cell: Cell,
    data: SemiData,
    result: Ended,
    runs_at_once: int,
    measured: Measure = metrics_on_test,
) -> Record:
    """The record of a run that has finished or diverged."""
    training: dict[str, Any] = {
        "diverged": None,
        "seconds": round(result.seconds, 3),
        "runs_at_once": runs_at_once,
    }
    metrics: dict[str, Any] = {}
    arrays: dict[str, Any] = {}
    history: list[dict[str, Any]] = []
    if isinstance(result, Diverged):
        training["diverged"] = result.reason
    else:
        training |= {"selected_step": result.step, "steps": result.steps, "mode": result.mode}
        history = thinned(result.history)
        split = data.with_labels(cell.draw(data.y.cpu()))
        metrics, arrays = measured(experiment, result.model, split)
    settings = {
        "data": asdict(cell.data),
        "model": dict(experiment.model),
        "views": dict(experiment.views),
        "surrogate": dict(cell.method.surrogate),
        "plan": cell.plan(experiment).as_dict(),
        "curve": experiment.curve,
    }
    return Record(
        **identity(experiment, cell),
        data=data.name,
        labels=int((data.y != MISSING).sum()) if cell.method.every_label else cell.data.labels,
        settings=settings,
        metrics=metrics,
        arrays=arrays,
        history=history,
        training=training,
        made_with=machine_and_commit(data.device),
    )


def identity(experiment: Experiment, cell: Cell) -> dict[str, Any]:
    """The entries of a record that identify its run and experiment."""
    return {
        "experiment": experiment.name,
        "profile": experiment.profile,
        "key": cell.key,
        "method": cell.method.name,
        "title": cell.method.title,
        "risk": cell.method.risk,
        "lam": cell.lam,
        "seed": cell.seed,
    }


def machine_and_commit(device: torch.device) -> dict[str, Any]:
    """Versions, machine and commit, with the device and the number of processes."""
    facts = machine_facts() | {"commit": commit(), "processes": processes()}
    return facts | ({} if device.type == "cuda" else {"device": device.type})


@dataclass(frozen=True)
class _Views:
    """The table ``views`` of an experiment."""

    mean: float | tuple[float, ...] = 0.0
    std: float | tuple[float, ...] = 1.0
    view: Mapping[str, Any] = field(default_factory=dict)
    weak: Mapping[str, Any] = field(default_factory=dict)
    strong: Mapping[str, Any] = field(default_factory=dict)


def check_training(experiment: Experiment, source: str) -> None:
    """Reject an experiment whose network, views, terms or plans cannot be built.

    Raises:
        EntryError: It names the file and the path of the entry.
    """
    for number, data in enumerate(experiment.data):
        check_name(data.name, DATASETS, source=source, at=f"data[{number}].name")
    check_part("model", experiment.model, MODELS, GIVEN, source)
    _check_views(experiment.views, source)
    own = ("lam", "risk", "seed")
    check_call(TrainPlan, experiment.plan, given=own, source=source, at="plan")
    for method in experiment.methods:
        at = f"methods.{method.name}"
        check_part(f"{at}.surrogate", method.surrogate, SURROGATES, (*VIEWS, "seed"), source)
        check_call(TrainPlan, method.plan, given=own, source=source, at=f"{at}.plan")
        try:
            unlabelled_term(method.surrogate, experiment.views)
            plan = TrainPlan.from_dict({**experiment.plan, **method.plan, "risk": method.risk})
        except (TypeError, ValueError) as error:  # types are right: a number is out of range
            raise EntryError(f"{source}: {at}: {error}") from error
        if experiment.curve == "test" and plan.select != "last":
            raise EntryError(
                f"{source}: {at}: curve = 'test' monitors the test set, so nothing may be selected "
                f"on it; got select = {plan.select!r}. Use curve = 'validation'."
            )
    if experiment.curve == "test" and any(data.validation for data in experiment.data):
        raise EntryError(
            f"{source}: curve = 'test' monitors the test set, but the data holds out labels for "
            "validation, which would be monitored instead. Use validation = 0."
        )


def check_trained(experiment: Experiment, source: str) -> None:
    """Reject an experiment that cannot be trained and then measured on the test rows.

    Raises:
        EntryError: It names the file and the path of the entry.
    """
    check_training(experiment, source)
    check_metrics(experiment, metric_names(), source)
    for name in experiment.settings:
        raise EntryError(f"{source}: settings has no entry {name!r}; this kind has no settings")


def check_part(
    at: str,
    table: Mapping[str, Any],
    family: Mapping[str, Callable[..., object]],
    given: tuple[str, ...],
    source: str,
) -> None:
    """Reject a table that does not name a member of a family with valid arguments."""
    if "name" not in table:
        raise EntryError(f"{source}: {at} is missing name")
    check_name(table["name"], family, source=source, at=f"{at}.name")
    own = {key: value for key, value in table.items() if key != "name"}
    check_call(family[table["name"]], own, given=given, source=source, at=at)


def _check_views(views: Mapping[str, Any], source: str) -> None:
    tables = read_as(_Views, views, source=source, at="views")
    given = ("mean", "std", "dtype")
    for which in VIEWS:
        own, at = dict(getattr(tables, which)), f"views.{which}"
        if which == "strong":
            check_call(Strong, own, given=given, source=source, at=at)
            continue
        if "noise" in own:
            check_call(NoisyView, {"noise": own.pop("noise")}, source=source, at=at)
        check_call(Weak, own, given=given, source=source, at=at)


def metric_names() -> list[str]:
    """Every metric of a trained model that is one number.

    >>> metric_names()[:2]
    ['accuracy', 'balanced_accuracy']
    """
    return [name for name, hint in get_type_hints(Metrics).items() if hint is float]

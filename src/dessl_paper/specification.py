"""Experiment: one TOML file of the paper's experiments, read for one profile and checked.

A file says what the paper did, or which other file it is ``like`` and what it does otherwise. Its
profiles (``smoke``, ``fast``, ``paper``) are tables of what they do otherwise. Either is laid over
the rest: tables are merged, anything else is replaced.
"""

import dataclasses
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Any, Literal, TypeVar

from dessl import _checks
from dessl.objective import RiskKind
from dessl.training import TrainPlan

PROFILES = ("smoke", "fast", "paper")
Kind = Literal["training", "probe", "toy"]
T = TypeVar("T")


@dataclass(frozen=True)
class DataSetting:
    """A data set and which of its labels are used.

    Attributes:
        name: In the catalogue of :mod:`dessl.data`.
        labels: How many labels a split draws, validation included.
        validation: How many of them are held out.
        draw: ``"mcar"`` or ``"balanced"``.
        label_noise: Share of all labels that are redrawn, the test set's too.
        rows: Most rows of training and of test that are used; 0 for all.
        generated: Whether rows are made up where the set is not on disk.
    """

    name: str
    labels: int
    validation: int = 0
    draw: str = "mcar"
    label_noise: float = 0.0
    rows: int = 0
    generated: bool = False


@dataclass(frozen=True)
class Method:
    """One row or curve: a risk with its unlabelled term.

    Attributes:
        name: In files and in ``targets.toml``.
        title: In tables and figures.
        risk: What is minimised.
        lams: Every λ it is run at; 0 alone in the complete case.
        surrogate: The unlabelled term: its ``name`` and settings.
        plan: What its plan has of its own.
        every_label: Whether it is given all labels, for comparison.
    """

    name: str
    title: str
    risk: RiskKind
    lams: tuple[float, ...]
    surrogate: Mapping[str, Any] = field(default_factory=dict)
    plan: Mapping[str, Any] = field(default_factory=dict)
    every_label: bool = False


@dataclass(frozen=True)
class Experiment:
    """One experiment at one profile.

    Attributes:
        name: Of the file.
        profile: One of ``PROFILES``.
        kind: ``"training"``, ``"probe"`` (a trained model is looked at), or ``"toy"``.
        title: What it is, in a few words.
        paper: Where in the paper it stands.
        targets: Path of the paper's numbers in ``targets.toml``; empty where it prints none.
        metrics: The metrics that tables and figures show.
        notes: What no source gives and is a setting of ours, and what differs from the paper.
        data: The data sets.
        seeds: How many splits.
        population: Most runs that are trained at once; 0 for one after another.
        curve: ``"validation"``, or ``"test"`` to watch the test set over a run from which
            nothing is selected.
        model: Its ``name`` and settings.
        views: ``mean`` and ``std`` of the normalisation, and what each view of a term does.
        plan: Of the training, but for λ, risk and seed.
        methods: Rows and curves.
        settings: What the experiment's own kind needs besides.
    """

    name: str
    profile: str
    kind: Kind
    title: str
    paper: str
    targets: str
    metrics: tuple[str, ...]
    notes: tuple[str, ...]
    data: tuple[DataSetting, ...]
    seeds: int
    population: int
    curve: str
    model: Mapping[str, Any]
    views: Mapping[str, Any]
    plan: Mapping[str, Any]
    methods: tuple[Method, ...]
    settings: Mapping[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """Give everything as JSON takes it."""
        return dataclasses.asdict(self)

    def method(self, name: str) -> Method:
        """The method of a name."""
        known = {method.name: method for method in self.methods}
        _checks.one_of("method", name, tuple(known))
        return known[name]


def experiment_names() -> list[str]:
    """Every experiment there is, in alphabetical order.

    >>> experiment_names()[-1]
    'toy'
    """
    files = (resources.files("dessl_paper") / "experiments").iterdir()
    names = [file.name.removesuffix(".toml") for file in files if file.name.endswith(".toml")]
    return sorted(name for name in names if name != "targets")


def load_experiment(name: str, profile: str = "fast") -> Experiment:
    """Read an experiment as a profile has it.

    >>> load_experiment("mnist", "paper").seeds
    10
    """
    _checks.one_of("experiment", name, tuple(experiment_names()))
    _checks.one_of("profile", profile, PROFILES)
    entries = _entries(name)
    profiles = entries.pop("profiles", {})
    for key in profiles:
        _checks.one_of(f"a profile of {name}", key, PROFILES)
    return experiment_from(name, profile, laid_over(entries, profiles.get(profile, {})))


def _entries(name: str) -> dict[str, Any]:
    """What a file says, laid over the file that it is ``like``, if it names one."""
    file = resources.files("dessl_paper") / "experiments" / f"{name}.toml"
    entries = tomllib.loads(file.read_text(encoding="utf-8"))
    like = entries.pop("like", None)
    return laid_over(_entries(like), entries) if like else entries


def laid_over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return the entries of one table with another's laid over them, table by table.

    A table of another ``name`` (a model, a schedule) is another thing, and replaces the one below.

    >>> laid_over({"a": 1, "b": {"c": 2, "d": 3}}, {"b": {"c": 4}})
    {'a': 1, 'b': {'c': 4, 'd': 3}}
    >>> laid_over({"model": {"name": "cnn13", "dropout": 0.2}}, {"model": {"name": "lenet"}})
    {'model': {'name': 'lenet'}}
    """
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        alike = isinstance(value, Mapping) and isinstance(old, Mapping) and _alike(old, value)
        merged[key] = laid_over(merged[key], value) if alike else value
    return merged


def _alike(below: Mapping[str, Any], above: Mapping[str, Any]) -> bool:
    return "name" not in above or above["name"] == below.get("name")


def experiment_from(name: str, profile: str, entries: Mapping[str, Any]) -> Experiment:
    """Build and check an experiment from the entries of its file, the profile's laid over."""
    own = dict(entries)
    lams = tuple(float(lam) for lam in own.pop("lams", ()))
    surrogate = own.pop("surrogate", {})
    methods = tuple(
        _method(key, value, lams, surrogate) for key, value in own.pop("methods", {}).items()
    )
    data = tuple(_built(DataSetting, "data", part) for part in own.pop("data", ()))
    defaults: dict[str, Any] = {"kind": "training", "targets": "", "population": 0, "seeds": 1}
    defaults |= {"curve": "validation", "model": {}, "views": {}, "plan": {}, "settings": {}}
    listed = {key: tuple(own.pop(key, ())) for key in ("metrics", "notes")}
    built = defaults | own | listed
    built |= {"name": name, "profile": profile, "data": data, "methods": methods}
    experiment = _built(Experiment, name, built)
    _check(experiment)
    return experiment


def _method(
    name: str, entries: Mapping[str, Any], lams: tuple[float, ...], surrogate: Mapping[str, Any]
) -> Method:
    own = dict(entries)
    lam = own.pop("lam", 0.0 if own.get("risk") == "complete_case" else lams)
    own["lams"] = (float(lam),) if isinstance(lam, int | float) else tuple(lam)
    return _built(Method, f"methods.{name}", {"name": name, "surrogate": surrogate} | own)


def _built(kind: type[T], where: str, entries: Mapping[str, Any]) -> T:
    known = [one.name for one in dataclasses.fields(kind)]  # type: ignore[arg-type]
    for key in entries:
        if key not in known:
            raise ValueError(f"{where} has no setting {key!r}; it has {', '.join(known)}.")
    try:
        return kind(**entries)
    except TypeError as error:  # says which are missing
        raise ValueError(f"{where} is not whole: {error}.") from error


def _check(experiment: Experiment) -> None:
    _checks.one_of("kind", experiment.kind, ("training", "probe", "toy"))
    _checks.one_of("curve", experiment.curve, ("validation", "test"))
    _checks.whole_number("seeds", experiment.seeds, low=1)
    _checks.whole_number("population", experiment.population)
    if not experiment.data or not experiment.methods:
        raise ValueError(f"{experiment.name} needs one entry at least in data and in methods.")
    if experiment.kind == "toy":
        return
    if experiment.curve == "test" and any(data.validation for data in experiment.data):
        raise ValueError(
            f"{experiment.name}: curve='test' watches the test set, but its data holds labels out "
            "for validation, which would be watched instead. Use validation = 0."
        )
    for method in experiment.methods:
        plan = TrainPlan.from_dict({**experiment.plan, **method.plan, "risk": method.risk})
        if experiment.curve == "test" and plan.select != "last":
            raise ValueError(
                f"{experiment.name}: a run that is watched on the test set selects nothing; got "
                f"select={plan.select!r} in {method.name}. Use curve='validation'."
            )

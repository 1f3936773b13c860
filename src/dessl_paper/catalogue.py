"""The paper's experiments: TOML files, read for one profile and checked at every depth.

A file describes what the paper did, or names another file with ``like`` and contains only the
differences. Its profiles (``smoke``, ``fast``, ``paper``) are also tables of differences. When
differences are applied, tables are merged and other values are replaced.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Any, get_args

from dessl import _checks
from dessl._entries import EntryError, check_name, read_as, read_toml
from dessl.objective import RiskKind
from dessl.risk import RISKS
from dessl.surrogates import SURROGATES
from dessl_paper.kinds import KINDS
from dessl_paper.sources import NOISE_SEED
from dessl_paper.specification import Curve, DataSetting, Experiment, Method, Profile, cells_of
from dessl_paper.targets import targets_at
from dessl_paper.training import VIEWS, check_part

OTHERS = {"targets", "demo"}  # not experiments: the paper's numbers, and dessl demo
PROFILES: tuple[Profile, ...] = get_args(Profile)


@dataclass(frozen=True)
class _MethodEntries:
    """One table of ``methods``; ``lam`` if it is not run at the file's ``lams``."""

    title: str
    risk: RiskKind
    lam: float | tuple[float, ...] | None = None
    surrogate: Mapping[str, Any] | None = None
    plan: Mapping[str, Any] = field(default_factory=dict)
    every_label: bool = False


@dataclass(frozen=True)
class _Entries:
    """The entries of a file at a profile; ``surrogate`` and ``lams`` are defaults for methods."""

    kind: str
    title: str
    paper: str
    metrics: tuple[str, ...]
    data: tuple[DataSetting, ...]
    methods: Mapping[str, _MethodEntries]
    notes: tuple[str, ...] = ()
    targets: str = ""
    seeds: int = 1
    population: int = 0
    first_seed: int = 0
    curve: Curve = "validation"
    lams: tuple[float, ...] = ()
    model: Mapping[str, Any] = field(default_factory=dict)
    views: Mapping[str, Any] = field(default_factory=dict)
    surrogate: Mapping[str, Any] = field(default_factory=dict)
    plan: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class _Profiles:
    """The differences that each profile applies to a file."""

    smoke: Mapping[str, Any] = field(default_factory=dict)
    fast: Mapping[str, Any] = field(default_factory=dict)
    paper: Mapping[str, Any] = field(default_factory=dict)


def experiment_names() -> list[str]:
    """Every experiment, in alphabetical order.

    >>> experiment_names()[-1]
    'toy'
    """
    files = (resources.files("dessl_paper") / "experiments").iterdir()
    names = [file.name.removesuffix(".toml") for file in files if file.name.endswith(".toml")]
    return sorted(set(names) - OTHERS)


def load_experiment(name: str, profile: Profile = "fast") -> Experiment:
    """Read an experiment at a profile.

    >>> load_experiment("mnist", "paper").seeds
    10
    """
    _checks.one_of("experiment", name, experiment_names())
    _checks.one_of("profile", profile, PROFILES)
    return experiment_from(name, profile, at_profile(name, profile, file_entries(name)))


def at_profile(name: str, profile: Profile, entries: Mapping[str, Any]) -> dict[str, Any]:
    """The entries of a file with the differences of a profile applied."""
    own = dict(entries)
    profiles = read_as(_Profiles, own.pop("profiles", {}), source=f"{name}.toml", at="profiles")
    return laid_over(own, getattr(profiles, profile))


def file_entries(name: str) -> dict[str, Any]:
    """The entries of a file, merged into those of the file that it names with ``like``, if any."""
    folder = resources.files("dessl_paper") / "experiments"
    entries = read_toml(folder / f"{name}.toml")
    like = entries.pop("like", None)
    if like is None:
        return entries
    if not isinstance(like, str) or not (folder / f"{like}.toml").is_file():
        raise EntryError(f"{name}.toml: like must be the name of another file; got {like!r}")
    return laid_over(file_entries(like), entries)


def laid_over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table with the entries of another merged into it, recursively.

    A table with a different ``name`` (a model, a schedule) replaces the old one entirely.

    >>> laid_over({"a": 1, "b": {"c": 2, "d": 3}}, {"b": {"c": 4}})
    {'a': 1, 'b': {'c': 4, 'd': 3}}
    >>> laid_over({"model": {"name": "cnn13", "dropout": 0.2}}, {"model": {"name": "lenet"}})
    {'model': {'name': 'lenet'}}
    """
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        mergeable = (
            isinstance(value, Mapping) and isinstance(old, Mapping) and _same_kind(old, value)
        )
        merged[key] = laid_over(merged[key], value) if mergeable else value
    return merged


def _same_kind(below: Mapping[str, Any], above: Mapping[str, Any]) -> bool:
    return "name" not in above or above["name"] == below.get("name")


def experiment_from(name: str, profile: Profile, entries: Mapping[str, Any]) -> Experiment:
    """Build and check an experiment from the entries of its file at a profile.

    Raises:
        EntryError: An entry is unknown, missing, of the wrong type, or cannot be run. It names the
            file, the profile and the path of the entry.
    """
    source = f"{name}.toml at profile {profile}"
    own = read_as(_Entries, entries, source=source)
    check_name(own.kind, KINDS, source=source, at="kind")
    if own.surrogate:
        check_part("surrogate", own.surrogate, SURROGATES, (*VIEWS, "seed"), source)
    experiment = Experiment(
        name=name,
        profile=profile,
        kind=own.kind,
        title=own.title,
        paper=own.paper,
        targets=own.targets,
        metrics=own.metrics,
        notes=own.notes,
        data=own.data,
        seeds=own.seeds,
        first_seed=own.first_seed,
        population=own.population,
        curve=own.curve,
        model=own.model,
        views=own.views,
        plan=own.plan,
        methods=tuple(_method(key, method, own, source) for key, method in own.methods.items()),
        settings=own.settings,
    )
    _check(experiment, source)
    return experiment


def _method(name: str, own: _MethodEntries, file: _Entries, source: str) -> Method:
    check_name(own.risk, RISKS, source=source, at=f"methods.{name}.risk")
    default = file.lams if RISKS[own.risk].unlabelled else (0.0,)
    lams = (own.lam,) if isinstance(own.lam, float) else own.lam
    return Method(
        name=name,
        title=own.title,
        risk=own.risk,
        lams=default if lams is None else lams,
        surrogate=file.surrogate if own.surrogate is None else own.surrogate,
        plan=own.plan,
        every_label=own.every_label,
    )


def _check(experiment: Experiment, source: str) -> None:
    """Reject numbers out of range, missing targets, and settings that the kind cannot run."""
    try:
        _checks.whole_number("seeds", experiment.seeds, low=1)
        _checks.whole_number("first_seed", experiment.first_seed)
        _checks.whole_number("population", experiment.population)
        for number, data in enumerate(experiment.data):
            at = f"data[{number}]"
            _checks.whole_number(f"{at}.labels", data.labels, low=1)
            _checks.whole_number(f"{at}.validation", data.validation)
            _checks.whole_number(f"{at}.rows", data.rows)
            _checks.number(f"{at}.label_noise", data.label_noise, low=0, high=1)
            if data.label_noise and experiment.first_seed <= NOISE_SEED:
                raise ValueError(
                    f"first_seed must be above {NOISE_SEED} if {at} has label_noise: a split with "
                    "the noise's seed would draw exactly the rows whose labels are redrawn"
                )
        targets_at(experiment.targets)
    except (KeyError, ValueError) as error:
        raise EntryError(f"{source}: {error.args[0]}") from error
    for part in ("data", "methods", "metrics"):
        if not getattr(experiment, part):
            raise EntryError(f"{source}: {part} must have at least one entry")
    for method in experiment.methods:
        if not method.lams:
            raise EntryError(f"{source}: methods.{method.name} has no λ. Give it lam, or set lams.")
    try:
        cells_of(experiment)  # rejects two runs with the same name
    except ValueError as error:
        raise EntryError(f"{source}: {error}") from error
    KINDS[experiment.kind].check(experiment, source)

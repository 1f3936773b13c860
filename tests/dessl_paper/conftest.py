"""Tiny experiments, smoke runs made once, and results from numbers of one's own."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from dessl.results.machine import machine_facts
from dessl.results.record import Record, write_record
from dessl_paper.catalogue import experiment_from, laid_over, load_experiment
from dessl_paper.results import Results
from dessl_paper.run import begin, run_experiment
from dessl_paper.specification import Experiment

DATA = {
    "name": "mnist",
    "labels": 30,
    "validation": 10,
    "draw": "balanced",
    "rows": 60,
    "generated": True,
}


@pytest.fixture(autouse=True, scope="module")
def _made_up_rows(no_public_sets: Callable[[], AbstractContextManager[None]]) -> Iterator[None]:
    with no_public_sets():
        yield


@pytest.fixture
def tiny() -> Callable[..., Experiment]:
    """An experiment of four runs in a second; what is given is laid over its entries."""

    def build(**other: Any) -> Experiment:
        entries: dict[str, Any] = {
            "kind": "methods",
            "title": "tiny",
            "paper": "nowhere",
            "metrics": ["accuracy"],
            "data": [DATA],
            "seeds": 2,
            "lams": [0.5],
            "model": {"name": "lenet"},
            "views": {"mean": 0.5, "std": 1.0, "view": {"flip": False, "shift": 0}},
            "surrogate": {"name": "entropy"},
            "plan": {
                "steps": 6,
                "labelled_batch": 10,
                "unlabelled_batch": 10,
                "evaluate_every": 2,
                "learning_rate": 0.01,
                "select": "accuracy",
            },
            "methods": {
                "complete_case": {"title": "complete case", "risk": "complete_case"},
                "de_entropy": {"title": "DeEntMin", "risk": "debiased"},
            },
        }
        return experiment_from("tiny", "smoke", laid_over(entries, other))

    return build


Values = Mapping[tuple[str, float], Sequence[Mapping[str, Any]]]


@pytest.fixture(scope="session")
def smoke(
    tmp_path_factory: pytest.TempPathFactory,
    no_public_sets: Callable[[], AbstractContextManager[None]],
) -> Callable[[str], Path]:
    """The folder of an experiment's smoke run; each is run once."""
    made: dict[str, Path] = {}

    def folder(name: str) -> Path:
        if name not in made:
            made[name] = tmp_path_factory.mktemp(name)
            with (
                no_public_sets(),
                warnings.catch_warnings(),
            ):  # so few labels that a class may have none
                warnings.filterwarnings("ignore", message="no label of class")
                run_experiment(load_experiment(name, "smoke"), made[name], progress=False)
        return made[name]

    return folder


@pytest.fixture(scope="session")
def record_of() -> Callable[..., Record]:
    """A record of one cell with metrics of one's own."""

    def made(
        experiment: Experiment,
        method: str,
        lam: float,
        seed: int,
        metrics: Mapping[str, Any],
        data: int = 0,
        **other: Any,
    ) -> Record:
        setting, own = experiment.data[data], experiment.method(method)
        given: dict[str, Any] = {
            "data": setting.name,
            "training": {"diverged": None, "seconds": 1.5, "steps": 20},
            "made_with": machine_facts() | {"commit": "0123456789abcdef"},
        }
        return Record(
            experiment=experiment.name,
            profile=experiment.profile,
            key=f"{setting.name}-{setting.labels}-{method}-lam{lam:.4g}-seed{seed}",
            labels=setting.labels,
            method=method,
            title=own.title,
            risk=own.risk,
            lam=lam,
            seed=seed,
            settings={"data": {"name": setting.name, "labels": setting.labels}},
            metrics=dict(metrics),
            **(given | other),
        )

    return made


@pytest.fixture(scope="session")
def results_of(record_of: Callable[..., Record]) -> Callable[..., Results]:
    """Results from metrics by (method, λ), one entry for each split, of one data set."""

    def made(experiment: Experiment, values: Values, data: int = 0) -> Results:
        records = [
            record_of(experiment, method, lam, seed, metrics, data)
            for (method, lam), splits in values.items()
            for seed, metrics in enumerate(splits)
        ]
        return Results(experiment, tuple(records))

    return made


@pytest.fixture(scope="session")
def folder_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Experiment, Results], Path]:
    """A folder on disk that holds given results."""

    def made(experiment: Experiment, results: Results) -> Path:
        folder = tmp_path_factory.mktemp(experiment.name)
        begin(folder, experiment, resume=True)
        for record in results.records:
            write_record(folder, record)
        return folder

    return made


@pytest.fixture(scope="session")
def fixmatch(results_of: Callable[..., Results]) -> Results:
    """FixMatch on CIFAR-10 in three splits, with classes and histories, off the paper's numbers."""
    experiment = load_experiment("fixmatch-cifar10", "fast")
    levels = {
        ("complete_case", 0.0): 0.80,
        ("fixmatch", 0.5): 0.90,
        ("de_fixmatch", 0.5): 0.92,
        ("fixmatch_star", 1.0): 0.91,
        ("supervised", 0.0): 0.96,
    }

    def metrics(level: float, split: int) -> dict[str, Any]:
        moved = level + 0.002 * split * (1 + level)
        return {
            "accuracy": moved,
            "worst_class_accuracy": moved - 0.1,
            "cross_entropy": 1 - moved,
            "brier": 1.2 * (1 - moved),
            "per_class_accuracy": [moved - 0.01 * k * (1 - level) for k in range(10)],
        }

    values = {cell: [metrics(level, split) for split in range(3)] for cell, level in levels.items()}
    made = results_of(experiment, values)
    for record in made.records:
        record.history.extend(
            {"step": 10 * k, "validation": {"accuracy": record.metrics["accuracy"] * k / 4}}
            for k in (1, 2, 3, 4)
        )
    return made

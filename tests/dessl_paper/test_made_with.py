"""The settings of training at a table's foot: all that matter, and who has others."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dessl.results.record import Record
from dessl.schedules import SCHEDULES as EVERY_SCHEDULE
from dessl.training import TrainPlan
from dessl_paper.catalogue import experiment_names, load_experiment
from dessl_paper.made_with import (
    OPTIMISERS,
    SCHEDULES,
    foot_lines,
    made_with,
    repeats_note,
    run_count,
    training_line,
)
from dessl_paper.results import Results, read_results
from dessl_paper.specification import Experiment, cells_of


def planned(experiment: Experiment, record_of: Callable[..., Record]) -> Results:
    """Records of an experiment with the settings that its runs would have."""
    records = []
    for cell in cells_of(experiment):
        settings = {
            "data": dataclasses.asdict(cell.data),
            "surrogate": dict(cell.method.surrogate),
            "plan": cell.plan(experiment).as_dict(),
        }
        plan = cell.plan(experiment)
        training = {"diverged": None, "seconds": 1.0, "steps": plan.total_steps(4000)}
        found = record_of(experiment, cell.method.name, cell.lam, cell.seed, {}, training=training)
        records.append(dataclasses.replace(found, settings=settings))
    return Results(experiment, tuple(records))


def test_every_setting_and_who_has_another_is_said(record_of: Callable[..., Record]) -> None:
    results = planned(load_experiment("fixmatch-cifar10", "fast"), record_of)
    assert training_line(results) == (
        "Training: Muon with Nesterov's momentum 0.9; learning rate 0.005; schedule: 500 steps of "
        "warm-up, then cosine to 0; weight decay 0.2; batches of 64 labelled + 448 unlabelled "
        "rows, the latter drawn from all rows (complete case: 64 labelled rows; all labels: 512 "
        "labelled rows); EMA of the weights with decay 0.999; in bf16; unlabelled terms: fixmatch "
        "and fixmatch star with threshold 0.95 and targets apart."
    )
    assert training_line(results) in foot_lines(results)
    assert "8,000 steps (all labels: 3,000 steps)" in made_with(results)
    assert "network fast_cifar with residuals 1, 1 and 1 and width 64;" in made_with(results)


def test_methods_with_options_of_their_own_are_told_apart(
    record_of: Callable[..., Record],
) -> None:
    line = training_line(planned(load_experiment("consistency-cifar10", "fast"), record_of))
    assert "AdamW; learning rate 0.003 (Π-model and DeΠ-model: 0.0003; Mean Teacher and " in line
    assert "schedule: times 0.2 after 0.8 of the run; weight decay 0; " in line
    assert "; λ rising over the first 0.4 of the run; " in line
    assert "EMA" not in line
    assert "terms: mean teacher with decay 0.95; vat entropy with epsilon 6, xi 1 and" in line


def test_a_probe_names_the_terms_that_it_looks_at(smoke: Callable[[str], Path]) -> None:
    line = training_line(read_results(smoke("risk-quality")))
    assert "unlabelled rows" not in line
    assert line.endswith("unlabelled term examined: pseudo label with threshold 0.3.")


def test_the_toy_example_has_its_own_plan(smoke: Callable[[str], Path]) -> None:
    line = training_line(read_results(smoke("toy")))
    assert line.startswith("Training: SGD; learning rate 0.1; schedule: linear to 0; batches of ")
    assert line.endswith("unlabelled term: pseudo label with threshold 0.7.")


@pytest.mark.parametrize("profile", ["fast", "paper"])
def test_every_experiment_has_a_line(record_of: Callable[..., Record], profile: str) -> None:
    for name in experiment_names():
        experiment = load_experiment(name, profile)
        if experiment.kind != "toy":
            line = training_line(planned(experiment, record_of))
            assert "; learning rate " in line
            assert "None" not in line


@pytest.mark.parametrize("settings", [{}, {"plan": {}}, {"plan": {"learning_rate": 0.1}}])
def test_records_that_lack_settings_have_a_shorter_line_or_none(
    record_of: Callable[..., Record], settings: dict[str, Any]
) -> None:
    experiment = load_experiment("mnist", "fast")
    record = dataclasses.replace(record_of(experiment, "pl", 1.0, 0, {}), settings=settings)
    results = Results(experiment, (record,))
    assert training_line(results) == (
        "Training: learning rate 0.1." if settings.get("plan") else ""
    )
    assert "" not in foot_lines(results)


def test_every_optimiser_and_schedule_has_words() -> None:
    assert set(SCHEDULES) == set(EVERY_SCHEDULE)
    for name in OPTIMISERS:
        assert TrainPlan(steps=1, optimiser=name).optimiser == name


def test_splits_of_a_probe_are_not_taken_for_those_of_training(
    smoke: Callable[[str], Path],
) -> None:
    one, several = (
        repeats_note(read_results(smoke(name)), "models") for name in ("risk-quality", "lambda-opt")
    )
    assert "no interval over models" in one
    assert "means over models" in several
    assert repeats_note(read_results(smoke("toy")), "splits").startswith("Only one split")


def test_one_run_is_one_run(smoke: Callable[[str], Path]) -> None:
    assert run_count(read_results(smoke("risk-quality"))) == "1 run"

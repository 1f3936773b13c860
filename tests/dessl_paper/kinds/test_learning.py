"""Learning curves: what is averaged, and what is seen of them."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from matplotlib.figure import Figure

from dessl.results.record import Record
from dessl_paper.catalogue import load_experiment
from dessl_paper.kinds.learning import learning_figure, mean_curve
from dessl_paper.results import Results

ENDS = {
    ("complete_case", 0.0): 0.3,
    ("fixmatch", 0.5): 0.7,
    ("de_fixmatch", 0.5): 0.8,
    ("fixmatch_star", 1.0): 0.9,
}


def watched(results_of: Callable[..., Results], steps: int) -> Results:
    """Accuracies that rise to their ends, the complete case's far below the others'."""
    experiment = load_experiment("fixmatch-cifar10", "fast")
    experiment = dataclasses.replace(experiment, metrics=("accuracy", "cross_entropy"), targets="")
    results = results_of(experiment, {cell: [{"accuracy": end}] for cell, end in ENDS.items()})
    for record in results.records:
        for step in range(1, steps + 1):
            level = record.metrics["accuracy"] - 0.01 * (steps - step)
            seen = {"accuracy": level, "cross_entropy": 2 - level}
            record.history.append({"step": step, "validation": seen})
    return results


def test_every_learning_curve_is_seen_to_its_end(
    results_of: Callable[..., Results], shown: list[Figure]
) -> None:
    results = watched(results_of, steps=10)
    learning_figure(results, results.blocks[0])
    accuracy, loss = (panel.get_ylim() for panel in shown[0].axes)
    for end in ENDS.values():
        assert accuracy[0] < 100 * end < accuracy[1]
        assert loss[0] < 2 - end < loss[1]


def test_steps_are_whole_numbers_each_once(
    results_of: Callable[..., Results], shown: list[Figure]
) -> None:
    results = watched(results_of, steps=2)
    learning_figure(results, results.blocks[0])
    assert all(tick == int(tick) for tick in shown[0].axes[0].get_xticks())


def test_the_mean_is_over_the_steps_that_every_split_reached(
    record_of: Callable[..., Record],
) -> None:
    experiment = load_experiment("fixmatch-cifar10", "fast")
    first, second = (record_of(experiment, "fixmatch", 0.5, seed, {}) for seed in (0, 1))
    seen: list[tuple[Record, int, Any]] = [
        (first, 10, {"accuracy": 0.5}),
        (first, 20, {"accuracy": 0.6}),
        (first, 30, {"accuracy": 0.9}),
        (second, 10, {"accuracy": 0.7}),
        (second, 20, {"accuracy": 0.8}),
    ]
    for record, step, values in seen:
        record.history.append({"step": step, "validation": values})
    found = mean_curve([first, second], "accuracy")
    assert found == {10: pytest.approx(0.6), 20: pytest.approx(0.7)}
    assert mean_curve([first, second], "brier") == {}


def test_nothing_watched_is_no_figure(results_of: Callable[..., Results]) -> None:
    for steps in (0, 1):
        results = watched(results_of, steps=steps)
        assert learning_figure(results, results.blocks[0]) is None

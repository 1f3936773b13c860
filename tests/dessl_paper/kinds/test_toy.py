"""The toy example: its records, its table, and what is said beside the paper."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from dessl.data.toy import two_uniforms
from dessl.objective import RiskKind
from dessl.report.tables import Table
from dessl.results.record import Record, read_records
from dessl_paper.catalogue import load_experiment
from dessl_paper.kinds import toy
from dessl_paper.kinds.toy import toy_plan
from dessl_paper.results import Results, read_results
from dessl_paper.run import run_experiment
from dessl_paper.specification import cells_of
from dessl_paper.toy_training import ToyPlan, ToyRun, trained_toy, warm_start
from dessl_paper.writing import findings_of

METHODS: dict[str, tuple[RiskKind, str]] = {
    "complete_case": ("complete_case", ""),
    "pseudo_label": ("ssl", "pseudo_label"),
    "de_pseudo_label": ("debiased", "pseudo_label"),
    "entropy": ("ssl", "entropy"),
    "de_entropy": ("debiased", "entropy"),
}


def runs(plan: ToyPlan) -> dict[str, ToyRun]:
    start = warm_start(plan)
    return {name: trained_toy(start, *method) for name, method in METHODS.items()}


def test_the_file_is_the_plan_of_the_paper() -> None:
    for profile in ("fast", "paper"):
        experiment = load_experiment("toy", profile)
        cell = experiment.data[0]
        assert (cell.labels, experiment.settings["n_unlabelled"]) == (25_000, 25_000)
        given = {(method.name, method.risk, method.surrogate.get("name", "")) for method in
                 experiment.methods}  # fmt: skip
        assert given == {(name, *method) for name, method in METHODS.items()}
        assert all(method.lams in ((0.0,), (1.0,)) for method in experiment.methods)


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int], Record]:
    folder = tmp_path_factory.mktemp("toy")
    run_experiment(dataclasses.replace(load_experiment("toy", "smoke"), seeds=2), folder)
    return {(record.method, record.seed): record for record in read_records(folder)}


def test_records_hold_the_curves_of_the_runs(records: dict[tuple[str, int], Record]) -> None:
    plan = ToyPlan(
        n_labelled=500, n_unlabelled=500, warm_steps=40, steps=60, record_every=20, seed=1
    )
    assert len(records) == 2 * len(METHODS)
    for name, run in runs(plan).items():
        record = records[name, 1]
        assert record.metrics["overlap_posterior"] == run.overlap_posterior
        assert record.metrics["training_cross_entropy"] == run.training_cross_entropy[60]
        arrays = record.arrays
        np.testing.assert_allclose(arrays["posterior"], run.posterior, atol=6e-6)
        np.testing.assert_allclose(arrays["truth"], run.truth, atol=6e-6)
        x = np.array(arrays["grid"])
        inside = np.array(arrays["posterior"])[(x > 1.195) & (x < 2.805)]
        assert len(inside) == 161  # 1.20, 1.21, ..., 2.80
        assert run.overlap_posterior == pytest.approx(inside.mean(), abs=1e-5)
        assert arrays["steps"] == [0, 20, 40, 60]
        losses = list(run.training_cross_entropy.values())
        np.testing.assert_allclose(arrays["training_cross_entropy"], losses, atol=6e-6)
        assert record.settings["toy"]["seed"] == 1
    assert records["entropy", 0].arrays["posterior"] != records["entropy", 1].arrays["posterior"]


def test_the_histogram_counts_the_labelled_points(records: dict[tuple[str, int], Record]) -> None:
    arrays = records["entropy", 0].arrays
    data = two_uniforms(500, 500, generator=torch.Generator().manual_seed(0))
    x, y = data.x[data.labelled_rows, 0].double().numpy(), data.y[data.labelled_rows].numpy()
    for label in (0, 1):
        counts, edges = np.histogram(x[y == label], bins=50, range=(0, 10))
        assert arrays[f"histogram_class{label}"] == counts.tolist()
        np.testing.assert_allclose(arrays["histogram_edges"], edges, atol=6e-6)


def test_a_plan_refuses_settings_it_does_not_have() -> None:
    experiment = load_experiment("toy", "smoke")
    wrong = dataclasses.replace(experiment, settings={**experiment.settings, "stpes": 3})
    with pytest.raises(ValueError, match="settings has no entry 'stpes'; did you mean 'steps'"):
        toy_plan(wrong, cells_of(wrong)[0])


def cell(table: Table, row: str, heading: str, nth: int = 0) -> str:
    (found,) = [cells for cells in table.rows if cells[0] == row]
    places = [k for k, name in enumerate(table.headings) if name == heading]
    return found[places[nth]]


def test_the_toy_example_stands_beside_truth_and_paper(smoke: Callable[[str], Path]) -> None:
    results = read_results(smoke("toy"))
    (table,) = toy.tables(results)
    (record,) = [r for r in results.records if r.method == "entropy"]
    value = record.metrics["overlap_posterior"]
    assert cell(table, "EntMin", "mean p(1|x) on [1.2, 2.8]") == f"{value:.3f} (1)"
    assert cell(table, "EntMin", "off the truth by") == f"{value - 0.25:+.3f}".replace("-", "−")
    assert cell(table, "EntMin", "paper's") == "0.090"


@pytest.mark.parametrize(("ours", "outcome"), [(0.14, "agrees"), (0.16, "differs")])
def test_the_toy_example_agrees_as_far_as_a_figure_can_be_read(
    results_of: Callable[..., Results], ours: float, outcome: str
) -> None:
    cells = {("pseudo_label", 1.0): [{"overlap_posterior": ours}]}  # the paper's is 0.12
    (found,) = findings_of(results_of(load_experiment("toy", "paper"), cells))
    assert found.outcome == outcome
    assert f"{ours:.3f}, {0.25 - ours:.3f} below the truth" in found.text

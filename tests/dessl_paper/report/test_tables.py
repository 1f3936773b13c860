import dataclasses
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from dessl.report.tables import Table
from dessl_paper.report.results import Results, read_results
from dessl_paper.report.tables.all import tables_of
from dessl_paper.specification import load_experiment

SHARED_RANGE = "λ at which every model's variance is below the complete case's"


def cell(table: Table, row: str, heading: str, nth: int = 0) -> str:
    (found,) = [cells for cells in table.rows if cells[0] == row]
    places = [k for k, name in enumerate(table.headings) if name == heading]
    return found[places[nth]]


def test_a_sweep_has_means_intervals_and_tests_at_each_lambda(smoke: Callable[[str], Path]) -> None:
    results = read_results(smoke("mnist"))
    tables = tables_of(results)
    assert len(tables) == 6  # a metric each: the twins, and both against the complete case
    table = tables[1]
    assert "cross-entropy over λ" in table.caption
    assert "200 rows" in table.caption
    values = [
        record.metrics["cross_entropy"]
        for record in results.records
        if record.method == "pl" and record.lam == 0.1
    ]
    half = stats.t.ppf(0.975, 1) * np.std(values, ddof=1) / np.sqrt(2)
    assert cell(table, "0.1", "PseudoLabel") == f"{np.mean(values):.3f} ± {half:.3f} (2)"
    assert cell(table, "0.1", "paper's") == "0.297"
    off = f"{np.mean(values) - 0.2969:+.3f}".replace("-", "−")
    assert cell(table, "0.1", "off by") == off
    assert cell(table, "1", "paper's") == "–"


def test_each_p_value_of_a_sweep_stands_beside_its_own_correction(
    results_of: Callable[..., Results],
) -> None:
    experiment = dataclasses.replace(load_experiment("mnist", "paper"), metrics=("accuracy",))
    splits = {
        ("pl", 0.1): [0.90, 0.91, 0.93],
        ("de_pl", 0.1): [0.91, 0.93, 0.94],
        ("pl", 10.0): [0.90, 0.91, 0.93],
        ("de_pl", 10.0): [0.88, 0.90, 0.90],
    }
    cells = {cell: [{"accuracy": value} for value in row] for cell, row in splits.items()}
    (table,) = tables_of(results_of(experiment, cells))
    for side, name in (("greater", "DePseudoLabel"), ("less", "PseudoLabel")):
        p = {
            lam: stats.ttest_rel(splits["de_pl", lam], splits["pl", lam], alternative=side).pvalue
            for lam in (0.1, 10.0)
        }
        least = min(p, key=p.__getitem__)
        for lam, value in p.items():
            holm = min(1.0, 2 * p[least] if lam == least else max(2 * p[least], value))
            shown = cell(table, f"{lam:g}", f"p, {name} better (Holm)")
            assert shown == f"{value:.3f} ({holm:.3f})"


def test_methods_stand_beside_the_paper(fixmatch: Results) -> None:
    levels, differences, classes, ratios = tables_of(fixmatch)
    assert cell(levels, "FixMatch", "paper's") == "93.87 ± 0.13"
    assert cell(levels, "all labels", "paper's") == "–"
    ours = np.mean([0.90 + 0.002 * split * 1.9 for split in range(3)])
    assert cell(levels, "FixMatch", "accuracy, %").startswith(f"{100 * ours:.2f} ± ")
    assert cell(levels, "FixMatch", "off by") == f"{100 * ours - 93.87:+.2f}".replace("-", "−")
    first = differences.rows[0]
    assert first[0] == "DeFixMatch − FixMatch"
    a, b = ([r.metrics["accuracy"] for r in fixmatch.records if r.method == name]
            for name in ("de_fixmatch", "fixmatch"))  # fmt: skip
    p = stats.ttest_rel(a, b, alternative="greater").pvalue
    assert float(first[differences.headings.index("p, better")]) == pytest.approx(p, rel=0.06)
    assert first[differences.headings.index("paper's p, better")] == "6.5e-05"
    others = [row for row in differences.rows if not row[0].endswith(" − FixMatch")]
    assert {row[differences.headings.index("paper's p, better")] for row in others} == {"–"}
    assert cell(classes, "cat", "paper's", 2) == "87.16"
    rows = {
        name: np.mean([r.metrics["per_class_accuracy"] for r in runs], axis=0)
        for name in ("complete_case", "fixmatch", "supervised")
        if (runs := [r for r in fixmatch.records if r.method == name])
    }
    ratio = (rows["fixmatch"] - rows["complete_case"]) / (
        rows["supervised"] - rows["complete_case"]
    )
    assert cell(ratios, "ship", "FixMatch") == f"{ratio[8]:.3f}"
    assert cell(ratios, "standard deviation", "FixMatch") == f"{ratio.std(ddof=1):.3f}"
    assert cell(ratios, "standard deviation", "paper's") == "0.120"


def test_one_split_has_neither_interval_nor_p_value(fixmatch: Results) -> None:
    one = Results(fixmatch.experiment, tuple(r for r in fixmatch.records if r.seed == 0))
    levels, differences, *_ = tables_of(one)
    assert cell(levels, "FixMatch", "accuracy, %") == "90.00 (1)"
    assert not [name for name in differences.headings if name in ("p, better", "95 % interval")]


def test_the_toy_example_stands_beside_truth_and_paper(smoke: Callable[[str], Path]) -> None:
    results = read_results(smoke("toy"))
    (table,) = tables_of(results)
    (record,) = [r for r in results.records if r.method == "entropy"]
    value = record.metrics["overlap_posterior"]
    assert cell(table, "EntMin", "mean p(1|x) on [1.2, 2.8]") == f"{value:.3f} (1)"
    assert cell(table, "EntMin", "off the truth by") == f"{value - 0.25:+.3f}".replace("-", "−")
    assert cell(table, "EntMin", "paper's") == "0.090"


def test_probes_have_their_numbers(smoke: Callable[[str], Path]) -> None:
    results = read_results(smoke("lambda-opt"))
    _, terms = tables_of(results)
    values = [record.metrics["lam_opt.entropy"] for record in results.records]
    mean = f"{np.mean(values):.3f}".replace("-", "−")
    assert cell(terms, "entropy", "λ_opt").startswith(f"{mean} ± ")
    assert cell(terms, "entropy", "paper's") == "1.670"
    assert cell(terms, "entropy", SHARED_RANGE)
    (risk,) = tables_of(read_results(smoke("risk-quality")))
    (record,) = read_results(smoke("risk-quality")).records
    shown = cell(risk, "risk on all test rows (oracle)", "ours")
    assert shown == f"{record.metrics['oracle']:.3f} (1)"


@pytest.mark.parametrize(
    ("ranges", "shown"),
    [
        ([(0.0, 0.188), (-1.948, 0.0)], "none"),
        ([(0.0, 0.0)], "none"),
        ([(0.0, 2.22), (0.0, 1.692), (0.0, 1.899)], "0.000 to 1.692"),
        ([(-3.0, 0.0), (-1.5, 0.0)], "−1.500 to 0.000"),
        ([(0.0, 2.0), (None, None)], "0.000 to 2.000"),
    ],
)
def test_variance_is_below_where_it_is_so_in_every_model(
    results_of: Callable[..., Results],
    ranges: list[tuple[float | None, float | None]],
    shown: str,
) -> None:
    splits = [
        {"lam_opt.entropy": 1.0, "regime_low.entropy": low, "regime_high.entropy": high}
        for low, high in ranges
    ]
    results = results_of(load_experiment("lambda-opt", "paper"), {("complete_case", 0.0): splits})
    (terms,) = tables_of(results)
    assert cell(terms, "entropy", SHARED_RANGE) == shown


def test_more_labels_make_more_tables(fixmatch: Results, smoke: Callable[[str], Path]) -> None:
    captions = [table.caption for table in tables_of(read_results(smoke("medmnist")))]
    assert sum(bool(re.match("dermamnist", caption)) for caption in captions) == 3
    assert sum(bool(re.match("breastmnist", caption)) for caption in captions) == 3

"""A comparison of methods: its tables, its figures, and what is said beside the paper."""

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy import stats

from dessl.report.tables import Table
from dessl_paper.catalogue import load_experiment
from dessl_paper.findings import Finding
from dessl_paper.kinds import methods
from dessl_paper.kinds.learning import learning_figure
from dessl_paper.kinds.methods import dots_figure, labels_figure
from dessl_paper.kinds.per_class import classes_figure
from dessl_paper.kinds.sweep import sweep_figure
from dessl_paper.results import Results, read_results
from dessl_paper.writing import findings_of


def cell(table: Table, row: str, heading: str, nth: int = 0) -> str:
    (found,) = [cells for cells in table.rows if cells[0] == row]
    places = [k for k, name in enumerate(table.headings) if name == heading]
    return found[places[nth]]


def test_methods_stand_beside_the_paper(fixmatch: Results) -> None:
    levels, differences, classes, ratios = methods.tables(fixmatch)
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
    levels, differences, *_ = methods.tables(one)
    assert cell(levels, "FixMatch", "accuracy, %") == "90.00 (1)"
    assert not [name for name in differences.headings if name in ("p, better", "95 % interval")]


def test_more_labels_make_more_tables(fixmatch: Results, smoke: Callable[[str], Path]) -> None:
    captions = [table.caption for table in methods.tables(read_results(smoke("medmnist")))]
    assert sum(bool(re.match("dermamnist", caption)) for caption in captions) == 3
    assert sum(bool(re.match("breastmnist", caption)) for caption in captions) == 3


def test_last_weights_are_compared_with_last_and_with_selected_ones(
    results_of: Callable[..., Results],
) -> None:
    experiment = load_experiment("medmnist-long", "paper")
    splits = [{"accuracy": 0.7}, {"accuracy": 0.8}]
    cells = {(one.name, lam): splits for one in experiment.methods for lam in one.lams}
    results = results_of(experiment, cells)
    found = methods.comparisons(results, results.blocks[0])
    pairs = [(one.method, one.against) for one in found if one.metric == "accuracy"]
    assert pairs == [
        ("de_pl", "pl"),
        ("de_pl_last", "pl_last"),
        ("pl", "complete_case"),
        ("de_pl", "complete_case"),
        ("pl_last", "complete_case_last"),
        ("de_pl_last", "complete_case_last"),
        ("complete_case_last", "complete_case"),
        ("pl_last", "pl"),
        ("de_pl_last", "de_pl"),
    ]


def texts(pictures: dict[str, bytes] | None) -> list[str]:
    """Every text of a figure: its SVG names each before drawing it."""
    assert pictures is not None
    return re.findall(r"<!-- (.*?) -->", pictures["svg"].decode())


@pytest.mark.slow
def test_a_title_is_drawn_as_it_is(fixmatch: Results) -> None:
    odd = "costs $x^2$ or $5\nin \\foo"
    records = tuple(
        dataclasses.replace(record, title=odd) if record.method == "fixmatch" else record
        for record in fixmatch.records
    )
    experiment = dataclasses.replace(fixmatch.experiment, title="from $1 to $2")
    results = Results(experiment, records)
    block = results.blocks[0]
    figures = [dots_figure(results), classes_figure(results), learning_figure(results, block)]
    for drawn in [*figures, labels_figure(results, block.data), sweep_figure(results, block)]:
        assert "costs $x^2$ or $5 in \\foo" in texts(drawn)
        assert any("from $1 to $2" in text for text in texts(drawn))


@pytest.mark.slow
def test_intervals_of_two_splits_do_not_stretch_an_axis_past_the_possible(
    results_of: Callable[..., Results], shown: list[Figure]
) -> None:
    experiment = load_experiment("medmnist", "fast")
    splits = [
        {"accuracy": level, "cross_entropy": level, "per_class_accuracy": [level] * 7}
        for level in (0.1, 0.9)
    ]
    results = results_of(experiment, {("pl", 1.0): splits, ("complete_case", 0.0): splits})
    classes_figure(results)
    dots_figure(results)
    sweep_figure(results, results.blocks[0])
    classes, dots, sweep = shown[::3]  # each is saved as PNG, as SVG and for the page
    for low, high in (
        classes.axes[0].get_ylim(),
        dots.axes[0].get_xlim(),
        sweep.axes[0].get_ylim(),
    ):
        assert -6 < low < 0
        assert 100 < high < 106
    assert -1 < dots.axes[1].get_xlim()[0] < 0  # a loss has no upper end
    assert dots.axes[1].get_xlim()[1] > 5


def about(findings: list[Finding], *words: str) -> Finding:
    (found,) = [one for one in findings if all(word in one.text for word in words)]
    return found


def test_the_gap_to_the_headline_is_said(fixmatch: Results) -> None:
    findings = findings_of(fixmatch)
    ours = sum(0.92 + 0.002 * split * 1.92 for split in range(3)) / 3
    headline = about(findings, "headline")
    assert f"accuracy {100 * ours:.2f} against 95.44" in headline.text
    assert f"({95.44 - 100 * ours:.2f} points below)" in headline.text
    assert about(findings, "FixMatch* minus the complete case: the sign").outcome == "direction"


def test_signs_over_several_data_sets_are_counted(record_of: Callable[..., object]) -> None:
    experiment = load_experiment("medmnist", "paper")
    experiment = dataclasses.replace(experiment, metrics=("cross_entropy",))
    records = [
        record_of(experiment, method, lam, seed, {"cross_entropy": value + 0.01 * seed}, place)
        for place in range(5)
        for method, lam, value in (
            ("complete_case", 0.0, 1.5),
            ("pl", 1.0, 2.0 + 0.05 * place),
            ("de_pl", 1.0, 1.7 if place < 4 else 2.5),
        )
        for seed in range(3)
    ]
    jittered = [
        dataclasses.replace(r, metrics={"cross_entropy": r.metrics["cross_entropy"] + 0.001 * k})
        for k, r in enumerate(records)
    ]
    findings = findings_of(Results(experiment, tuple(jittered)))
    found = about(findings, "DePseudoLabel minus PseudoLabel")
    assert found.outcome == "differs"
    assert "in 4 of 5 data sets, and in 4 of the 5 where ours is significant" in found.text
    assert found.text.endswith("differs on bloodmnist.")

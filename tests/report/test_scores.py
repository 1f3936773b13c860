"""Differences and metrics of a page, against SciPy."""

import dataclasses
import math
import re

import numpy as np
import pytest
from scipy import stats

from dessl.report.chart import SERIES
from dessl.report.page import report_html
from dessl.report.scores import best_text, differences, looks, metrics_section
from dessl.results.facts import Estimate, MethodFacts, RunFacts


def test_the_table_marks_the_best_mean_and_shows_its_t_interval(facts: RunFacts) -> None:
    brier = {
        "complete case": [0.30, 0.34],
        "PseudoLabel": [0.28, 0.31],
        "DePseudoLabel": [0.3, 0.3],
    }
    changed = [
        dataclasses.replace(run, metrics=run.metrics | {"brier": brier[run.method][run.seed]})
        for run in facts.runs
    ]
    page = report_html([dataclasses.replace(facts, runs=tuple(changed))])
    row = re.search(r'<tr><th scope="row">Brier score</th>(.*?)</tr>', page)
    assert row
    cells = row[1].split("</td>")[:-1]
    assert ["★" in cell for cell in cells] == [False, True, False]
    for cell, values in zip(cells, brier.values(), strict=True):
        half = stats.t.ppf(0.975, 1) * np.std(values, ddof=1) / np.sqrt(2)
        assert f">{np.mean(values):.3f}<" in cell
        assert f">± {half:.3f}<" in cell


def test_all_labels_are_no_rival_of_the_others(facts: RunFacts) -> None:
    brier = {"complete case": 0.3, "PseudoLabel": 0.2, "DePseudoLabel": 0.25}
    runs = [dataclasses.replace(run, metrics={"brier": brier[run.method]}) for run in facts.runs]
    full = MethodFacts("all labels", "supervised", "pseudo_label", 0.0)
    perfect = [
        dataclasses.replace(run, method="all labels", metrics={"brier": 0.0}) for run in runs[:2]
    ]
    page = report_html(
        [dataclasses.replace(facts, methods=(*facts.methods, full), runs=(*runs, *perfect))]
    )
    row = re.search(r'<tr><th scope="row">Brier score</th>(.*?)</tr>', page)
    assert row
    cells = row[1].split("</td>")[:-1]
    assert ["★" in cell for cell in cells] == [False, True, False, False]
    assert "not counting all labels, unless an interval above leaves it open." in page


def test_a_star_is_never_more_than_what_was_found(facts: RunFacts) -> None:
    def stars(shown: RunFacts) -> list[str]:
        rows = re.findall(r'<tr><th scope="row">(.*?)</th>(.*?)</tr>', metrics_section(shown))
        return [name for name, cells in rows if "★" in cells]

    values = {"complete case": 0.3, "PseudoLabel": 0.4, "DePseudoLabel": 0.5}
    runs = tuple(
        dataclasses.replace(run, metrics=dict.fromkeys(("accuracy", "ece"), values[run.method]))
        for run in facts.runs
    )
    first = facts.comparisons[0]
    clear = dataclasses.replace(first, metric="accuracy", low=0.01, high=0.2)
    shown = dataclasses.replace(facts, runs=runs, comparisons=(clear,), estimates=())
    assert len(stars(shown)) == 2
    open_ = dataclasses.replace(clear, low=-0.01)
    assert len(stars(dataclasses.replace(shown, comparisons=(open_,)))) == 1
    estimate = Estimate("DePseudoLabel", "accuracy", 0.8, 0.712, 0.9, 0.95, 60, 940)
    assert len(stars(dataclasses.replace(shown, estimates=(estimate,)))) == 1
    single = dataclasses.replace(shown, runs=tuple(run for run in runs if run.seed == 0))
    assert stars(single) == []
    assert "★" not in metrics_section(single)


def test_one_run_has_no_interval_and_estimates_have_theirs(facts: RunFacts) -> None:
    single = dataclasses.replace(
        facts,
        runs=tuple(run for run in facts.runs if run.seed == 0),
        estimates=(Estimate("DePseudoLabel", "accuracy", 0.8, 0.712, 0.9, 0.95, 60, 940),),
        comparisons=(),
        warnings=(),
    )
    page = report_html([single])
    assert "± " not in page
    assert "71 to 90" in page
    assert "60 labelled and 940 unlabelled held-out rows" in page
    assert "Where these plain values differ from the estimates above, use the estimates." in page
    for absent in ("Choice of λ", "Warnings", "Difference from the complete case"):
        assert absent not in page


def test_separate_estimates_are_not_for_comparing(facts: RunFacts) -> None:
    estimate = Estimate("DePseudoLabel", "accuracy", 0.8, 0.712, 0.9, 0.95, 60, 940)
    shown = dataclasses.replace(facts, estimates=(estimate,))
    warned = "To compare methods, use the difference above"
    assert warned in report_html([shown])
    assert warned not in report_html([dataclasses.replace(shown, comparisons=())])
    alone = dataclasses.replace(estimate, n_unlabelled=0)  # then both are plain means
    assert warned not in report_html([dataclasses.replace(shown, estimates=(alone,))])


@pytest.mark.parametrize(
    ("metric", "values", "best"),
    [
        ("accuracy", [0.5, 0.9, 0.7], "90.0"),
        ("brier", [0.5, 0.9, 0.7], "0.500"),
        ("cross_entropy", [math.nan, 0.25, 0.5], "0.250"),
        ("accuracy", [0.9, math.nan], None),
        ("accuracy", [0.90001, 0.90002], None),
        ("accuracy", [], None),
    ],
)
def test_the_best_of_a_row(metric: str, values: list[float], best: str | None) -> None:
    assert best_text(metric, values) == best


def test_each_method_has_a_look_of_its_own(facts: RunFacts) -> None:
    found = looks(facts)
    assert list(found) == ["complete case", "PseudoLabel", "DePseudoLabel"]
    assert list(found.values()) == list(SERIES[:3])


def test_without_comparisons_there_is_no_chart_of_differences(facts: RunFacts) -> None:
    assert differences(dataclasses.replace(facts, comparisons=())) is None


def test_each_difference_is_in_the_table_with_its_interval(facts: RunFacts) -> None:
    one = dataclasses.replace(
        facts.comparisons[0], metric="accuracy", difference=0.05, low=0.02, high=0.08,
        confidence=0.9, p_value=0.03,
    )  # fmt: skip
    made = differences(dataclasses.replace(facts, comparisons=(one,)))
    assert made is not None
    cells = re.findall(r"<td>(.*?)</td>", made)
    assert cells[0] == f"<bdi>{one.method}</bdi> − <bdi>{one.against}</bdi>"
    assert cells[1].startswith("+5")
    assert re.fullmatch(r"90% interval \[\+2(\.0)?, \+8(\.0)?\]", cells[2])
    assert "0.03" in cells[3]
    assert f"{one.test}, n = {one.n}" in made


def test_a_metric_that_no_method_has_is_left_out(facts: RunFacts) -> None:
    runs = tuple(dataclasses.replace(run, metrics={"accuracy": 0.5}) for run in facts.runs)
    made = metrics_section(dataclasses.replace(facts, runs=runs, estimates=()))
    heads = re.findall(r'<th scope="row">(.*?)</th>', made)
    assert len(heads) == 1
    assert heads[0].startswith("accuracy")
    assert "★</span>" not in made  # all the same
    assert "Means over 2 seeds" in made

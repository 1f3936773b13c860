import dataclasses
import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from scipy import stats

from dessl.results.record import Record
from dessl_paper.report.averages import Average
from dessl_paper.report.comparison import Comparison
from dessl_paper.report.figures.classes import classes_figure
from dessl_paper.report.findings.all import findings_of, summary
from dessl_paper.report.findings.directions import agreement, direction_finding, with_sign
from dessl_paper.report.findings.finding import Finding, counted
from dessl_paper.report.findings.levels import Level
from dessl_paper.report.paper import Printed
from dessl_paper.report.results import Results
from dessl_paper.report.tables.all import tables_of
from dessl_paper.specification import load_experiment


def swept(
    results_of: Callable[..., Results], usual: Sequence[float], debiased: Sequence[float]
) -> Results:
    """Cross-entropies at λ = 10, where the paper has 0.8914 and 0.2706."""
    experiment = load_experiment("mnist", "paper")
    experiment = dataclasses.replace(experiment, metrics=("cross_entropy",))
    cells = {
        (method, 10.0): [{"cross_entropy": value} for value in values]
        for method, values in (("pl", usual), ("de_pl", debiased))
    }
    return results_of(experiment, cells)


def about(findings: list[Finding], *words: str) -> Finding:
    (found,) = [one for one in findings if all(word in one.text for word in words)]
    return found


def test_a_clear_difference_with_the_papers_sign_agrees(results_of: Callable[..., Results]) -> None:
    usual, debiased = [0.9, 1.0, 0.8], [0.3, 0.35, 0.36]
    found = about(findings_of(swept(results_of, usual, debiased)), "At λ = 10")
    p = stats.ttest_rel(debiased, usual).pvalue
    assert found.outcome == "agrees"
    assert "0.563 below PseudoLabel's" in found.text
    assert f"p = {p:.3f}, 3 splits" in found.text
    assert "the paper has 0.621 below: the same direction" in found.text


def test_a_clear_difference_of_the_other_sign_differs(results_of: Callable[..., Results]) -> None:
    results = swept(results_of, [0.3, 0.35, 0.36], [0.9, 1.0, 0.95])
    found = about(findings_of(results), "At λ = 10")
    assert found.outcome == "differs"
    assert "not the same direction" in found.text


@pytest.mark.parametrize(
    ("usual", "debiased"), [([0.9], [0.2]), ([0.9, 0.2, 0.5], [0.3, 0.4, 0.45])]
)
def test_one_split_or_noise_decides_nothing(
    results_of: Callable[..., Results], usual: list[float], debiased: list[float]
) -> None:
    found = about(findings_of(swept(results_of, usual, debiased)), "At λ = 10")
    assert found.outcome == "open"
    assert "may be chance" in found.text


def test_levels_agree_where_the_interval_holds_the_papers_mean(
    results_of: Callable[..., Results],
) -> None:
    results = swept(results_of, [0.85, 0.93, 0.88], [0.40, 0.41, 0.405])
    findings = findings_of(results)
    assert about(findings, "PseudoLabel: ", "1 of 1 cells", "λ = 10").outcome == "agrees"
    off = about(findings, "DePseudoLabel: ", "0 of 1 cells")
    assert off.outcome == "differs"
    assert "0.405 against 0.271 (0.134 above)" in off.text


@pytest.mark.parametrize(
    ("ours", "paper", "meets"),
    [
        (Average(0.90, 0.02, 3), Printed(0.915), True),
        (Average(0.90, 0.02, 3), Printed(0.925), False),
        (Average(0.90, 0.02, 3), Printed(0.925, 0.01), True),
        (Average(0.90, 0.02, 3), Printed(0.935, 0.01), False),
        (Average(0.90, 0.02, 3), Printed(0.865, 0.01), False),
        (Average(0.90, None, 1), Printed(0.905, 0.01), True),
    ],
)
def test_levels_meet_where_the_intervals_do(ours: Average, paper: Printed, meets: bool) -> None:
    assert Level("a", ours, paper).meets == meets


@pytest.mark.parametrize(
    ("signs", "clear", "outcome"),
    [
        ([1, 1], [True, True], "agrees"),
        ([1, -1], [True, False], "agrees"),
        ([1, -1], [True, True], "in part"),
        ([-1, 1], [True, False], "differs"),
        ([-1, -1], [False, False], "open"),
        ([1, -1, -1], [True, False, False], "in part"),  # against most of them
        ([-1, 1, 1], [True, False, False], "in part"),
    ],
)
def test_what_may_be_chance_has_no_say(signs: list[int], clear: list[bool], outcome: str) -> None:
    found = [
        Comparison("ece", "de_pl", "pl", 1.0, 3, sign, p_two_sided=0.01 if sure else 0.5, paper=0.1)
        for sign, sure in zip(signs, clear, strict=True)
    ]
    assert agreement(found) == outcome


def test_where_the_papers_numbers_are_equal_there_is_no_sign_to_share(
    results_of: Callable[..., Results],
) -> None:
    equal, other = (
        Comparison("auc", "de_pl", "pl", 1.0, 3, -0.02, p_two_sided=0.01, paper=paper)
        for paper in (0.0, -0.01)
    )
    assert with_sign([equal, other]) == [other]
    results = swept(results_of, [0.9], [0.3])
    found = direction_finding(results, equal)
    assert found is not None
    assert found.outcome == "open"
    assert found.text.endswith("the paper's numbers do not differ.")


@pytest.mark.parametrize(("ours", "outcome"), [(0.14, "agrees"), (0.16, "differs")])
def test_the_toy_example_agrees_as_far_as_a_figure_can_be_read(
    results_of: Callable[..., Results], ours: float, outcome: str
) -> None:
    cells = {("pseudo_label", 1.0): [{"overlap_posterior": ours}]}  # the paper's is 0.12
    (found,) = findings_of(results_of(load_experiment("toy", "paper"), cells))
    assert found.outcome == outcome
    assert f"{ours:.3f}, {0.25 - ours:.3f} below the truth" in found.text


def test_the_gap_to_the_headline_is_said(fixmatch: Results) -> None:
    findings = findings_of(fixmatch)
    ours = sum(0.92 + 0.002 * split * 1.92 for split in range(3)) / 3
    headline = about(findings, "headline")
    assert f"accuracy {100 * ours:.2f} against 95.44" in headline.text
    assert f"({95.44 - 100 * ours:.2f} points below)" in headline.text
    assert about(findings, "FixMatch* less the complete case: the sign").outcome == "agrees"


def test_a_diverged_run_is_named_and_left_out(fixmatch: Results) -> None:
    first = fixmatch.records[3]
    dead = dataclasses.replace(first, metrics={}, training={"diverged": "risk is NaN"})
    results = Results(fixmatch.experiment, (*fixmatch.records[:3], dead, *fixmatch.records[4:]))
    text = about(findings_of(results), "Diverged").text
    assert text.endswith("FixMatch at λ = 0.5, split 0.")


def test_an_infinite_loss_is_named_and_decides_nothing(
    fixmatch: Results, results_of: Callable[..., Results]
) -> None:
    first = fixmatch.records[3]
    lost = dataclasses.replace(first, metrics=first.metrics | {"cross_entropy": "Infinity"})
    results = Results(fixmatch.experiment, (*fixmatch.records[:3], lost, *fixmatch.records[4:]))
    found = findings_of(results)
    assert about(found, "Infinite").text.endswith(
        "difference or p-value: cross-entropy of FixMatch at λ = 0.5 (1 of 3 splits)."
    )
    assert about(found, "ross-entropy of DeFixMatch and FixMatch cannot be compared")
    table = next(one for one in tables_of(results) if "paired" in one.caption)
    row = next(row for row in table.rows if row[:2] == ("DeFixMatch − FixMatch", "cross-entropy"))
    assert row[2:7] == ("–",) * 5

    sweep = swept(results_of, [math.inf, 0.88, 0.9], [0.27, 0.27, 0.28])
    assert about(findings_of(sweep), "cannot be compared").outcome == "open"
    assert not any(" − " in heading for heading in tables_of(sweep)[0].headings)


def test_diverged_runs_of_several_data_sets_are_told_apart(
    record_of: Callable[..., Record],
) -> None:
    experiment = load_experiment("medmnist", "paper")
    dead = {"training": {"diverged": "risk is NaN"}}
    records = [record_of(experiment, "pl", 1.0, 0, {}, place, **dead) for place in (0, 3)]
    (found,) = findings_of(Results(experiment.as_dict(), tuple(records)))
    assert found.text.endswith(
        "breastmnist, 78 labels: PseudoLabel at λ = 1, split 0 and "
        "dermamnist, 1,000 labels: PseudoLabel at λ = 1, split 0."
    )


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
    findings = findings_of(Results(experiment.as_dict(), tuple(jittered)))
    found = about(findings, "DePseudoLabel less PseudoLabel")
    assert found.outcome == "in part"
    assert "at 4 of 5 data sets, and at 4 of the 5 where ours is clear" in found.text
    assert found.text.endswith("not on bloodmnist.")


def test_a_smoke_run_says_that_it_is_one(fixmatch: Results) -> None:
    smoke = Results({**fixmatch.experiment, "profile": "smoke"}, fixmatch.records)
    assert "smoke run" in summary(smoke, findings_of(smoke))
    assert "smoke run" not in summary(fixmatch, findings_of(fixmatch))


def test_counts_are_said_in_words() -> None:
    findings = [Finding("agrees", ""), Finding("in part", ""), Finding("open", "")]
    assert counted(findings) == (
        "Of 3 comparisons with the paper, 1 agrees, 1 agrees in part and 1 cannot be told."
    )


@pytest.mark.parametrize(
    ("evener", "splits", "outcome"),
    [("de_fixmatch", 2, "agrees"), ("fixmatch", 2, "differs"), ("de_fixmatch", 1, "open")],
)
def test_the_evenness_of_benefits_is_the_papers_or_not(
    results_of: Callable[..., Results], evener: str, splits: int, outcome: str
) -> None:
    low, high = [0.5] * 10, [0.9] * 10
    even, uneven = [0.8] * 9 + [0.7], [0.8] * 5 + [0.6] * 5
    rows = {("complete_case", 0.0): low, ("supervised", 0.0): high}
    rows |= {(m, 0.5): even if m == evener else uneven for m in ("fixmatch", "de_fixmatch")}
    cells = {cell: [{"per_class_accuracy": row}] * splits for cell, row in rows.items()}
    results = results_of(load_experiment("fixmatch-cifar10", "fast"), cells)
    found = about(findings_of(results), "benefit ratio over classes")
    assert found.outcome == outcome
    ratios = [(np.array(row) - 0.5) / 0.4 for row in (even, uneven)]
    for ratio in ratios:
        assert f"{ratio.std(ddof=1):.3f}" in found.text


def test_classes_without_a_ratio_have_no_spread(fixmatch: Results) -> None:
    def hurt(record: Record) -> Record:
        rows = record.metrics["per_class_accuracy"]
        rows = [0.1] * len(rows) if record.method == "supervised" else rows
        return dataclasses.replace(record, metrics=record.metrics | {"per_class_accuracy": rows})

    results = Results(fixmatch.experiment, tuple(map(hurt, fixmatch.records)))
    found = about(findings_of(results), "benefit ratio")
    assert found.outcome == "open"
    assert "in fewer than two classes" in found.text
    assert classes_figure(results)

import dataclasses
import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from scipy import stats

from dessl.experiments.record import Record
from dessl.experiments.specification import load_experiment
from dessl.report.reproduction.findings.all import findings_of, summary
from dessl.report.reproduction.findings.finding import Finding, counted
from dessl.report.reproduction.findings.probe import probe_findings, ratio_error
from dessl.report.reproduction.results import Results


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


def test_the_error_of_a_variance_ratio_is_that_of_simulated_splits() -> None:
    generator = np.random.default_rng(0)
    ratio, splits = 0.8, 100
    best = generator.normal(size=(4000, splits)) * math.sqrt(ratio)  # the least variable estimate
    other = best + generator.normal(size=best.shape) * math.sqrt(1 - ratio)  # a = best − λb
    seen = np.log(best.var(axis=1) / other.var(axis=1))
    assert seen.std() == pytest.approx(ratio_error(ratio, splits), rel=0.05)


@pytest.mark.parametrize(
    ("lam", "exact", "seen", "outcome"),
    [
        (24.2, 0.993, 1.017, "agrees"),
        (24.2, 0.75, 0.77, "agrees"),
        (24.2, 0.75, 1.2, "in part"),
        (-10.5, 0.951, 0.945, "differs"),
    ],
)
def test_variance_is_judged_by_the_theorem_and_by_the_sign_of_lambda(
    results_of: Callable[..., Results], lam: float, exact: float, seen: float, outcome: str
) -> None:
    metrics = {"lam_opt": lam, "least_ratio": exact, "least_ratio_empirical": seen}
    results = results_of(
        load_experiment("gradient-variance", "paper"), {("complete_case", 0.0): [metrics]}
    )
    record = dataclasses.replace(results.records[0], arrays={"ratio_theory": [1.0]})
    found = probe_findings(dataclasses.replace(results, records=(record,)))
    assert [one.outcome for one in found] == [outcome]


def test_a_term_that_never_speaks_decides_nothing(results_of: Callable[..., Results]) -> None:
    metrics = {"lam_opt": 0.0, "least_ratio": 1.0, "least_ratio_empirical": 1.0}
    results = results_of(
        load_experiment("gradient-variance", "paper"), {("complete_case", 0.0): [metrics]}
    )
    flat = dataclasses.replace(results.records[0], arrays={"ratio_theory": [1.0, 1.0, 1.0]})
    (found,) = probe_findings(dataclasses.replace(results, records=(flat,)))
    assert found.outcome == "open"
    assert "the complete case's at every λ" in found.text

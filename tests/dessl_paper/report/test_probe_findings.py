"""What is said of bias, variance and λ_opt: by chance, by the theorem, and beside the paper."""

import dataclasses
import math
from collections.abc import Callable

import numpy as np
import pytest

from dessl_paper.report.findings.finding import Finding
from dessl_paper.report.findings.probe import probe_findings, ratio_error
from dessl_paper.report.results import Results
from dessl_paper.specification import load_experiment


def test_the_error_of_a_variance_ratio_is_that_of_simulated_splits() -> None:
    generator = np.random.default_rng(0)
    ratio, splits = 0.8, 100
    best = generator.normal(size=(4000, splits)) * math.sqrt(ratio)  # the least variable estimate
    other = best + generator.normal(size=best.shape) * math.sqrt(1 - ratio)  # a = best − λb
    seen = np.log(best.var(axis=1) / other.var(axis=1))
    assert seen.std() == pytest.approx(ratio_error(ratio, splits), rel=0.05)


def variance_found(
    results_of: Callable[..., Results], lam: float, exact: float, seen: float
) -> Finding:
    """What is said of a variance with these ratios at λ_opt, and curves through them."""
    lams = np.linspace(-2.5 * abs(lam) if lam < 0 else 0.0, 2.5 * abs(lam), 51)
    bend = lams / lam * (lams / lam - 2)  # 0 at λ = 0 and 2 λ_opt, −1 at λ_opt
    metrics = {"lam_opt": lam, "least_ratio": exact, "least_ratio_empirical": seen}
    arrays = {
        "lams": [*lams],
        "ratio_theory": [*(1 + (1 - exact) * bend)],
        "ratio_empirical": [*(1 + (1 - seen) * bend)],
    }
    results = results_of(
        load_experiment("gradient-variance", "paper"), {("complete_case", 0.0): [metrics]}
    )
    record = dataclasses.replace(results.records[0], arrays=arrays)
    (found,) = probe_findings(dataclasses.replace(results, records=(record,)))
    return found


@pytest.mark.parametrize(
    ("lam", "exact", "seen", "outcome"),
    [
        (24.2, 0.993, 1.017, "open"),  # what the splits show is above, and may be chance
        (24.2, 0.75, 0.77, "agrees"),
        (24.2, 0.75, 0.40, "in part"),
        (24.2, 0.75, 1.2, "in part"),
        (-10.5, 0.951, 0.945, "differs"),
        (-10.5, 0.993, 1.017, "open"),
        (-10.5, 0.75, 1.2, "in part"),
    ],
)
def test_variance_is_judged_by_the_theorem_and_by_the_splits(
    results_of: Callable[..., Results], lam: float, exact: float, seen: float, outcome: str
) -> None:
    found = variance_found(results_of, lam, exact, seen)
    assert found.outcome == outcome
    assert f"{exact:.3f} of the complete case's by theorem 3.1" in found.text
    assert f"{seen:.3f} over 100 splits" in found.text


def test_the_splits_are_counted_by_their_side_of_the_complete_case(
    results_of: Callable[..., Results],
) -> None:
    found = variance_found(results_of, 24.2, 0.993, 1.017)
    assert "for λ from 0 to 48.4" in found.text
    assert "over the splits at 0 of 39 λ between, so that they do not show it to fall" in found.text
    found = variance_found(results_of, 24.2, 0.75, 0.77)
    assert found.text.endswith("over the splits at 39 of 39 λ between.")
    found = variance_found(results_of, -10.5, 0.951, 0.945)
    assert "over the splits at 25 of 25 λ; the paper has it below" in found.text


def test_a_term_that_never_speaks_decides_nothing(results_of: Callable[..., Results]) -> None:
    metrics = {"lam_opt": 0.0, "least_ratio": 1.0, "least_ratio_empirical": 1.0}
    results = results_of(
        load_experiment("gradient-variance", "paper"), {("complete_case", 0.0): [metrics]}
    )
    flat = dataclasses.replace(results.records[0], arrays={"ratio_theory": [1.0, 1.0, 1.0]})
    (found,) = probe_findings(dataclasses.replace(results, records=(flat,)))
    assert found.outcome == "open"
    assert "the complete case's at every λ" in found.text


@pytest.mark.parametrize(
    ("debiased", "ssl", "outcome"),
    [(0.9, 5.4, "agrees"), (0.9, 1.2, "in part"), (3.1, 5.4, "in part"), (3.1, 1.2, "differs")],
)
def test_bias_is_what_chance_does_not_explain(
    results_of: Callable[..., Results], debiased: float, ssl: float, outcome: str
) -> None:
    metrics = {
        "oracle": 1.0,
        "debiased_largest_bias_in_errors": debiased,
        "ssl_largest_bias_in_errors": ssl,
    }
    results = results_of(
        load_experiment("risk-quality", "paper"), {("complete_case", 0.0): [metrics]}
    )
    bands = {"ssl_low": [0.8, 1.1], "ssl_high": [1.2, 1.5], "debiased_low": [0.8, 0.7]}
    arrays = {"lams": [0.0, 1.0], "ssl_mean": [1.0, 1.3], "debiased_high": [1.2, 1.3], **bands}
    record = dataclasses.replace(results.records[0], arrays=arrays)
    (found,) = probe_findings(dataclasses.replace(results, records=(record,)))
    assert found.outcome == outcome
    assert (
        "debiased estimate's band at 2 of 2 λ and in the semi-supervised one's at 1" in found.text
    )


@pytest.mark.parametrize(
    ("fixmatch_lam", "models", "outcome"),
    [(0.3, 3, "agrees"), (1.2, 3, "differs"), (0.3, 1, "open")],
)
def test_the_order_of_lambdas_is_the_papers_or_not(
    results_of: Callable[..., Results], fixmatch_lam: float, models: int, outcome: str
) -> None:
    lams = {"entropy": 1.0, "pseudo_label": 18.0, "fixmatch": fixmatch_lam}
    splits = [
        {f"lam_opt.{name}": lam + 0.01 * split for name, lam in lams.items()}
        for split in range(models)
    ]
    results = results_of(load_experiment("lambda-opt", "paper"), {("complete_case", 0.0): splits})
    found = probe_findings(results)[-1]
    assert found.outcome == outcome
    assert found.text.endswith("in the paper fixmatch, entropy and pseudo label.")

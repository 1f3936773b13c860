"""The risk over λ: pictures, bias and variance, by chance and by the theorem."""

import dataclasses
import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from dessl.evaluation.risk_quality import risk_over_lambda, variance_ratio_over_lambda
from dessl_paper.catalogue import load_experiment
from dessl_paper.findings import Finding
from dessl_paper.kinds.probe import findings as probe_findings
from dessl_paper.kinds.risk_curves import (
    DEBIASED,
    SSL,
    draw_risk,
    draw_variance_ratio,
    ratio_error,
)
from dessl_paper.results import Results

LAMS = torch.linspace(0, 2, 9)


def population() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    h = torch.rand(200, generator=generator)
    return h + 0.3 * torch.rand(200, generator=generator), h


def test_both_estimates_are_drawn() -> None:
    axes, result = Figure().subplots(), risk_over_lambda(*population(), LAMS)
    curves = {name: np.asarray(value).tolist() for name, value in result._asdict().items()}
    draw_risk(axes, curves, result.oracle)
    lines = {line.get_color(): line.get_ydata() for line in axes.lines}
    assert lines[SSL] == pytest.approx(curves["ssl_mean"])
    assert lines[DEBIASED] == pytest.approx(curves["debiased_mean"])


def test_the_ratio_and_the_best_lambda_are_drawn() -> None:
    axes, result = Figure().subplots(), variance_ratio_over_lambda(*population(), LAMS)
    theory, empirical = result.theory.tolist(), result.empirical.tolist()
    curves = {"lams": LAMS.tolist(), "ratio_theory": theory, "ratio_empirical": empirical}
    draw_variance_ratio(axes, curves, (result.lam, result.least), of="gradient")
    drawn = [list(map(float, line.get_ydata())) for line in axes.lines]
    assert pytest.approx(theory) in drawn
    assert [pytest.approx(result.least)] in drawn or any(
        pytest.approx([result.lam, result.least]) == list(map(float, place))
        for marks in axes.collections
        for place in marks.get_offsets()
    )


def test_no_point_is_cut_by_the_upper_edge() -> None:
    axes = Figure().subplots()
    curves = {"lams": [0, 1, 2], "ratio_theory": [1, 1, 1], "ratio_empirical": [1, None, 1.1]}
    draw_variance_ratio(axes, curves, (0.5, 0.9), of="risk")
    assert axes.get_ylim()[0] == 0
    assert axes.get_ylim()[1] > 1.1 * 1.04


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
        (24.2, 0.75, 0.40, "open"),  # a larger gap to the theorem than chance explains
        (24.2, 0.75, 1.2, "open"),
        (-10.5, 0.951, 0.945, "differs"),
        (-10.5, 0.993, 1.017, "open"),
        (-10.5, 0.75, 1.2, "open"),
    ],
)
def test_variance_is_judged_by_the_theorem_and_by_the_splits(
    results_of: Callable[..., Results], lam: float, exact: float, seen: float, outcome: str
) -> None:
    found = variance_found(results_of, lam, exact, seen)
    assert found.outcome == outcome
    assert f"{exact:.3f} times the complete case's by theorem 3.1" in found.text
    assert f"{seen:.3f} times over 100 splits" in found.text


def test_the_splits_are_counted_by_their_side_of_the_complete_case(
    results_of: Callable[..., Results],
) -> None:
    found = variance_found(results_of, 24.2, 0.993, 1.017)
    assert "for λ from 0 to 48.4" in found.text
    assert "at 0 of the 39 λ in between, so they do not show a decrease" in found.text
    found = variance_found(results_of, 24.2, 0.75, 0.77)
    assert found.text.endswith("at 39 of the 39 λ in between.")
    found = variance_found(results_of, -10.5, 0.951, 0.945)
    assert "over the splits at 25 of 25 λ; in the paper it is below" in found.text


def test_a_term_that_never_speaks_decides_nothing(results_of: Callable[..., Results]) -> None:
    metrics = {"lam_opt": 0.0, "least_ratio": 1.0, "least_ratio_empirical": 1.0}
    results = results_of(
        load_experiment("gradient-variance", "paper"), {("complete_case", 0.0): [metrics]}
    )
    flat = dataclasses.replace(results.records[0], arrays={"ratio_theory": [1.0, 1.0, 1.0]})
    (found,) = probe_findings(dataclasses.replace(results, records=(flat,)))
    assert found.outcome == "open"
    assert "the complete case's at all λ" in found.text


@pytest.mark.parametrize(
    ("debiased", "ssl", "outcome"),
    [(0.9, 5.4, "agrees"), (0.9, 1.2, "open"), (3.1, 5.4, "differs"), (3.1, 1.2, "differs")],
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
    assert "debiased estimate at 2 of 2 λ" in found.text
    assert "SSL estimate at 1." in found.text

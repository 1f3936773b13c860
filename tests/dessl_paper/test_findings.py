"""What is said of differences and levels, and what decides nothing."""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from scipy import stats

from dessl.evaluation.verdict import OVER_SEEDS
from dessl.results.averages import Average
from dessl_paper.catalogue import load_experiment
from dessl_paper.comparison import Comparison
from dessl_paper.findings import (
    Finding,
    Level,
    agreement,
    counted,
    direction_finding,
    level_findings,
    with_sign,
)
from dessl_paper.results import Results
from dessl_paper.targets import Printed


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


def comparison(metric: str, difference: float, p_value: float, paper: float) -> Comparison:
    ends = (float("nan"), float("nan"))
    return Comparison(
        metric, "de_pl", "pl", difference, *ends, p_value, 0.95, OVER_SEEDS, 3, 1.0, paper=paper
    )


@pytest.mark.parametrize(
    ("ours", "paper", "outcome"),
    [
        (Average(0.900, 0.005, 3), Printed(0.902, 0.004), "agrees"),
        (Average(0.900, 0.005, 3), Printed(0.902), "agrees"),  # as uncertain as ours
        (Average(0.900, 0.008, 3), Printed(0.902), "open"),  # equal, but the interval is wide
        (Average(0.900, 0.005, 3), Printed(0.908, 0.004), "differs"),  # beyond the margin, clearly
        (Average(0.900, 0.001, 3), Printed(0.905, 0.001), "agrees"),  # clear, and within the margin
        (Average(0.90, 0.02, 3), Printed(0.925, 0.01), "differs"),
        (Average(0.90, None, 1), Printed(0.90, 0.01), "open"),
    ],
)
def test_levels_agree_only_within_the_margin(ours: Average, paper: Printed, outcome: str) -> None:
    assert Level("a", ours, paper).outcome("accuracy") == outcome


def test_the_interval_of_a_difference_is_scipys_for_as_many_runs_of_equal_spread() -> None:
    source = np.random.default_rng(0)
    ours, theirs = source.normal(0.9, 0.01, (2, 200))
    halves = [stats.t.ppf(0.975, 199) * np.std(x, ddof=1) / np.sqrt(200) for x in (ours, theirs)]
    one = Level("a", Average(ours.mean(), halves[0], 200), Printed(theirs.mean(), halves[1]))
    wanted = stats.ttest_ind(ours, theirs, equal_var=False).confidence_interval(0.95)
    assert (one.off - one.reach, one.off + one.reach) == pytest.approx(tuple(wanted), rel=0.01)


def test_one_of_many_cells_must_be_farther_off_to_differ() -> None:
    one = Level("a", Average(0.90, 0.02, 5), Printed(0.925, 0.01))
    assert one.outcome("accuracy") == "differs"
    assert one.outcome("accuracy", cells=10) == "open"
    others = [Level(str(k), Average(0.9, 0.02, 5), Printed(0.9, 0.01)) for k in range(9)]
    (found,) = level_findings("accuracy", [one, *others])
    assert found.outcome == "open"
    assert "in 10 of 10 cells" in found.text


def test_each_outcome_has_its_own_sentence() -> None:
    near = Level("near", Average(0.90, 0.002, 5), Printed(0.901, 0.001))
    far = Level("far", Average(0.80, 0.002, 5), Printed(0.9, 0.001))
    alone = Level("alone", Average(0.80, None, 1), Printed(0.9, 0.001))
    found = {one.outcome: one.text for one in level_findings("accuracy", [near, far, alone])}
    assert set(found) == {"agrees", "differs", "open"}
    assert "in 1 of 3 cells: near." in found["agrees"]
    assert "far, 80.00 against 90.00" in found["differs"]
    assert "interval" not in found["open"]


@pytest.mark.parametrize(
    ("signs", "clear", "outcome"),
    [
        ([1, 1], [True, True], "direction"),
        ([1, -1], [True, False], "direction"),
        ([1, -1], [True, True], "differs"),
        ([-1, 1], [True, False], "differs"),
        ([-1, -1], [False, False], "open"),
        ([1, -1, -1], [True, False, False], "open"),  # against most of them
        ([-1, 1, 1], [True, False, False], "differs"),
    ],
)
def test_what_may_be_chance_has_no_say(signs: list[int], clear: list[bool], outcome: str) -> None:
    found = [
        comparison("ece", sign, 0.01 if sure else 0.5, paper=0.1)
        for sign, sure in zip(signs, clear, strict=True)
    ]
    assert agreement(found) == outcome


@pytest.mark.parametrize(
    ("difference", "half", "outcome"),
    [  # the paper's is −0.070, of which the margin is a tenth
        (-0.071, 0.002, "agrees"),
        (-0.030, 0.008, "direction"),  # significant, but less than half of the paper's
        (-0.060, 0.050, "direction"),  # significant, and too wide to know its size
        (-0.010, 0.020, "differs"),  # may be chance, but is not the paper's size
        (-0.030, 0.060, "open"),
        (+0.030, 0.008, "differs"),
    ],
)
def test_a_difference_agrees_only_within_the_margin(
    difference: float, half: float, outcome: str
) -> None:
    one = comparison("cross_entropy", difference, 0.5 if half > abs(difference) else 0.01, -0.07)
    one = dataclasses.replace(one, low=difference - half, high=difference + half)
    assert agreement([one]) == outcome


def test_where_the_papers_numbers_are_equal_there_is_no_sign_to_share(
    results_of: Callable[..., Results],
) -> None:
    equal, other = (comparison("auc", -0.02, 0.01, paper=paper) for paper in (0.0, -0.01))
    assert with_sign([equal, other]) == [other]
    results = swept(results_of, [0.9], [0.3])
    found = direction_finding(results, equal)
    assert found is not None
    assert found.outcome == "open"
    assert found.text.endswith("the paper's numbers do not differ.")


def test_counts_are_said_in_words() -> None:
    findings = [Finding(kind, "") for kind in ("agrees", "direction", "differs", "open")]
    assert counted(findings) == (
        "Of 4 comparisons with the paper, 1 agrees, 1 agrees in direction only, 1 does not agree "
        "and 1 is inconclusive."
    )

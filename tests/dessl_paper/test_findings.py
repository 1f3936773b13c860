"""What is said of differences and levels, and what decides nothing."""

import dataclasses
from collections.abc import Callable, Sequence

import pytest

from dessl.evaluation.verdict import OVER_SEEDS
from dessl.results.averages import Average
from dessl_paper.catalogue import load_experiment
from dessl_paper.comparison import Comparison
from dessl_paper.findings import Finding, Level, agreement, counted, direction_finding, with_sign
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
        comparison("ece", sign, 0.01 if sure else 0.5, paper=0.1)
        for sign, sure in zip(signs, clear, strict=True)
    ]
    assert agreement(found) == outcome


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
    findings = [Finding("agrees", ""), Finding("in part", ""), Finding("open", "")]
    assert counted(findings) == (
        "Of 3 comparisons with the paper, 1 agrees, 1 partly agrees and 1 is not clear."
    )

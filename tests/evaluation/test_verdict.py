"""Five outcomes that the interval and the margin decide, and the labels that would decide more."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from dessl.evaluation.verdict import (
    MANY,
    MARGIN,
    OUTCOMES,
    OVER_GROUPS,
    OVER_ROWS,
    OVER_SEEDS,
    Comparison,
    decided,
    not_used,
    short_p,
    verdict,
)

BILLIONTHS = (
    st.integers(-5, 5) | st.integers(-(10**6), 10**6) | st.integers(-(5 * 10**8), 5 * 10**8)
)


def comparison(
    metric: str, low: float, high: float, *, n: int = 50, test: str = OVER_ROWS
) -> Comparison:
    middle = (low + high) / 2
    return Comparison(metric, "Ours", "complete case", middle, low, high, 0.01, 0.95, test, n)


@pytest.mark.parametrize(
    ("metric", "low", "high", "outcome"),
    [
        ("accuracy", 0.01, 0.03, "better"),
        ("accuracy", -0.03, -0.01, "worse"),
        ("brier", 0.01, 0.03, "worse"),
        ("cross_entropy", -0.03, -0.01, "better"),
        ("brier", -0.01, 0.03, "cannot tell yet"),
        ("accuracy", 0.0, 0.03, "cannot tell yet"),
        ("accuracy", math.nan, math.nan, "cannot tell yet"),
        ("brier", 0.0001, 0.002, "no practical difference"),
        ("brier", -0.002, 0.009, "no practical difference"),
        ("brier", 0.0, 0.0, "no practical difference"),
    ],
)
def test_the_interval_and_the_margin_decide(
    metric: str, low: float, high: float, outcome: str
) -> None:
    found = verdict(comparison(metric, low, high))
    assert (found.outcome, found.margin) == (outcome, MARGIN)
    assert found.sentence.startswith(OUTCOMES[found.outcome])
    assert "p = 0.010" in found.sentence


def test_the_user_sets_what_matters() -> None:
    small = comparison("brier", -0.004, -0.001)
    assert small.outcome(margin=0.0) == "better"
    assert small.outcome(margin=0.004) == "no practical difference"
    assert "within the margin of ±0.004" in verdict(small, margin=0.004).sentence
    assert "±2 points" in verdict(comparison("accuracy", 0.001, 0.01), margin=0.02).sentence
    with pytest.raises(ValueError, match="margin must lie in"):
        small.outcome(margin=-0.1)


@given(BILLIONTHS, BILLIONTHS, st.sampled_from(["accuracy", "brier"]))
def test_words_never_contradict_the_numbers_beside_them(
    first: int, second: int, metric: str
) -> None:
    low, high = (end / 1e9 for end in sorted((first, second)))
    one = comparison(metric, low, high)
    words = verdict(one).sentence.split(" changed ")[1]
    shown = words.split(" interval ")[1].split(",")[0].split(" to ")
    unit = 100 if metric == "accuracy" else 1
    ends = [float(end.replace("−", "-")) / unit for end in shown]
    again = Comparison(metric, "a", "b", sum(ends) / 2, *ends, 0.1, 0.95, OVER_ROWS, 50)
    assert again.outcome() == one.outcome()


def test_so_many_labels_decide_in_four_of_five_experiments() -> None:
    """Simulated with the true difference and deviation: 0.8, with an error of 0.013."""
    random = np.random.default_rng(0)
    for difference, deviation in ((-0.02, 0.2), (0.0, 0.08), (0.03, 0.15)):
        n = 40
        half = stats.t.ppf(0.975, n - 1) * deviation / math.sqrt(n)
        first = comparison("brier", difference - half, difference + half, n=n)
        assert first.outcome() == "cannot tell yet"
        more = first.needed()
        assert more is not None
        for total, least, most in ((n + more, 0.77, 0.86), (n + more // 2, 0.0, 0.75)):
            means = random.normal(difference, deviation / math.sqrt(total), 1000)
            squares = random.chisquare(total - 1, 1000) / (total - 1)
            halves = stats.t.ppf(0.975, total - 1) * deviation * np.sqrt(squares / total)
            outcomes = [
                comparison("brier", mean - half, mean + half, n=total).outcome()
                for mean, half in zip(means, halves, strict=True)
            ]
            share = np.mean([one != "cannot tell yet" for one in outcomes])
            assert least <= share <= most, (difference, total, share)


def test_the_probability_to_decide_is_that_of_an_integral() -> None:
    error, margin, n = 0.004, 0.012, 200.0
    half = stats.t.ppf(0.975, n - 1) * error
    for difference in (-0.006, 0.0, 0.003, 0.02):
        grid = np.linspace(difference - 8 * error, difference + 8 * error, 400_001)
        settled = (abs(grid) > half) | (abs(grid) + half < margin)
        density = stats.norm.pdf(grid, difference, error)
        wanted = np.trapezoid(settled * density, grid)
        found = decided(difference, np.array([error]), np.array([n]), margin, 0.975)
        assert found[0] == pytest.approx(wanted, abs=1e-4)


def test_what_is_needed_is_in_labels_or_seeds_and_counts_those_held_out() -> None:
    rows, seeds = (comparison("brier", -0.1, 0.05, test=test) for test in (OVER_ROWS, OVER_SEEDS))
    alone = verdict(rows)
    assert alone.needed is not None
    assert f"About {alone.needed:,} more labels would settle it" in alone.sentence
    assert "more seeds would settle it" in verdict(seeds).sentence
    fifth = verdict(rows, share=0.2)
    assert fifth.needed is not None
    assert 5 * alone.needed <= fifth.needed < 5.6 * alone.needed
    assert f"{alone.needed:,} of them held out" in fifth.sentence
    assert verdict(comparison("brier", 0.02, 0.03)).needed is None
    total = 50 + fifth.needed
    assert "collect more" not in verdict(rows, share=0.2, labelled=50, rows=total).sentence
    short = verdict(rows, share=0.2, labelled=50, rows=total - 1)
    assert short.sentence == f"{fifth.sentence} The data has only {total - 1:,} rows: collect more."


def test_with_groups_what_is_needed_is_new_groups() -> None:
    error, n_groups = 0.03, 9
    half = float(stats.t.ppf(0.975, n_groups - 1)) * error  # that of 9 groups, not of 72 labels
    one = Comparison(
        "brier", "Ours", "complete case", -0.02, -0.02 - half, -0.02 + half, 0.4, 0.95,
        OVER_GROUPS, 72, n_groups=n_groups,
    )  # fmt: skip
    as_labels = dataclasses.replace(one, n=n_groups, n_groups=None)
    assert one.needed() == as_labels.needed()
    more = one.needed()
    assert more is not None
    n = n_groups + more
    assert decided(-0.02, np.array([error * (9 / n) ** 0.5]), np.array([n]), MARGIN, 0.975) >= 0.8
    found = verdict(one)
    assert (found.needed_groups, found.needed) == (160, 1300)  # 8 labels each, rounded up
    assert more == 160
    assert "72 held-out labels of 9 groups; lower is better" in found.sentence
    assert "About 160 more groups (about 1,300 labels) would settle it" in found.sentence
    assert "more labels of the same groups would not." in found.sentence
    fifth = verdict(one, share=0.2)
    assert fifth.needed_groups == 5 * more
    assert f"labels), {more:,} of the groups held out, would settle it" in fifth.sentence


def test_where_no_number_of_labels_decides_it_is_said() -> None:
    nothing = comparison("brier", -0.1, 0.1)
    assert nothing.needed(margin=0.0) is None
    assert "use either model, or set a larger margin" in verdict(nothing, margin=0.0).sentence
    nearly = comparison("brier", -0.1, 0.1)
    assert nearly.needed() > MANY * nearly.n
    assert verdict(nearly).needed is None
    assert "No realistic number of labels" in verdict(nearly).sentence
    assert "no interval" in verdict(comparison("brier", math.nan, math.nan)).sentence


def test_what_was_not_used_says_what_one_gets() -> None:
    found = not_used("It did not help.")
    assert found.outcome == "not used"
    assert "this model is the complete case. It did not help." in found.sentence


def test_p_values_show_their_side_of_a_twentieth() -> None:
    assert [short_p(p) for p in (0.0496, 0.05, 0.0504, 0.2)] == [
        "0.0496",
        "0.050",
        "0.0504",
        "0.200",
    ]

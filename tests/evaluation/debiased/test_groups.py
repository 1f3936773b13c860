"""Rows that belong together: variances of group sums, coverage, limits and errors."""

import math
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from scipy import special

from dessl.evaluation import NarrowIntervalWarning, compare_models, estimate_metric
from dessl.evaluation.debiased.design import design_of, designed
from dessl.evaluation.debiased.groups import LEAST_GROUPS, groups_of
from dessl.evaluation.debiased.proxies import METRICS, sampled
from dessl.evaluation.debiased.shift import ShiftWarning

GROUPS = 40


def visits(
    rng: np.random.Generator, correlation: float, groups: int, size: int = 6
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Probabilities, labels and groups of rows; 1 makes all rows of a group copies of one."""
    group = np.repeat(np.arange(groups), rng.integers(1, 2 * size, groups))

    def latent() -> np.ndarray:
        shared, own = rng.normal(size=groups)[group], rng.normal(size=len(group))
        return np.sqrt(correlation) * shared + np.sqrt(1 - correlation) * own

    p = special.expit(3 * latent())
    y = (special.ndtr(latent()) < p).astype(int)
    return np.stack([1 - p, p], axis=1), y, group


def copies(times: int, n: int = GROUPS) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The same rows several times, and the row each is a copy of."""
    generator = torch.Generator().manual_seed(1)
    p = torch.rand(n, 1, generator=generator, dtype=torch.float64)
    y = (torch.rand(n, generator=generator) < p[:, 0]).long()
    rows = torch.cat([1 - p, p], dim=1).repeat_interleave(times, dim=0)
    return rows, y.repeat_interleave(times), torch.arange(n).repeat_interleave(times)


@pytest.mark.parametrize("metric", ["accuracy", "brier", "cross_entropy", "recall", "auc"])
def test_copies_of_rows_add_nothing(metric: Any) -> None:
    """One row of each group and five copies of it have the same information."""
    p, y, group = copies(5)
    whole = estimate_metric(metric, p, y, groups=group)
    once = estimate_metric(metric, p[::5], y[::5], propensity=[0.5] * GROUPS)
    assert whole.effective_labels == pytest.approx(GROUPS)
    assert (whole.n_groups, whole.n_labelled) == (GROUPS, 5 * GROUPS)
    assert whole.value == pytest.approx(once.value)
    width, expected = whole.high - whole.low, once.high - once.low
    assert width == pytest.approx(expected, rel=0.05)
    untold = estimate_metric(metric, p, y)
    assert untold.high - untold.low < 0.6 * width


def test_groups_of_one_row_change_nothing(predictions) -> None:
    p, y = predictions(n=60)
    others, _ = predictions(n=200, seed=1)
    own = estimate_metric("brier", p, y, others)
    told = estimate_metric(
        "brier", p, y, others, groups=np.arange(60), groups_unlabelled=np.arange(60, 260)
    )
    assert told == own


def test_the_variance_is_that_of_group_sums() -> None:
    """Linearisation by hand, with unlabelled rows in labelled groups and in others."""
    rng = np.random.default_rng(0)
    p, y, group = visits(rng, 0.5, 12)
    known = rng.random(len(y)) < 0.5
    known[np.flatnonzero(group < 4)[:4]] = True
    sample = sampled(METRICS["brier"], (p[known],), y[known], (p[~known],))
    design = design_of(
        int(known.sum()), int((~known).sum()), None, None, None, group[known], group[~known]
    )
    assert design is not None
    fit = designed(sample, design, lam=0.6)
    loss, h = sample.loss.numpy(), sample.labelled.h.numpy()
    every, m, n = sample.every_h.numpy(), int(known.sum()), len(y)
    rest = loss - 0.6 * h
    moved = 0.6 * (every - every.mean()) / n
    moved[:m] += (rest - rest.mean()) / m
    order = np.concatenate([group[known], group[~known]])
    sums = np.array([moved[order == g].sum() for g in range(12)])
    labelled = np.isin(np.arange(12), group[known])
    # Without the leverage, whose correction is tested as that of rows is.
    plain = fit._replace(leverage=torch.zeros_like(fit.leverage))
    variance = plain.leverage_variance / plain.labels
    assert variance == pytest.approx((sums[labelled] ** 2).sum())
    assert fit.unlabelled_variance == pytest.approx((sums[~labelled] ** 2).sum())


@pytest.mark.parametrize("correlation", [0.0, 0.4, 1.0])
def test_intervals_cover(correlation: float) -> None:
    """95 % intervals of accuracy and of a difference of Brier scores, 150 draws."""
    rng = np.random.default_rng(int(10 * correlation))
    p, y, _ = visits(rng, correlation, 30_000)
    truth = float((p.argmax(1) == y).mean())
    inside, untold, widths = [], [], []
    for _ in range(150):
        p, y, group = visits(rng, correlation, GROUPS + 60)
        known = group < GROUPS
        rows: Any = (p[known], y[known], p[~known])
        found = estimate_metric(
            "accuracy", *rows, groups=group[known], groups_unlabelled=group[~known],
            check_shift=False,
        )  # fmt: skip
        alone = estimate_metric("accuracy", *rows, check_shift=False)
        inside.append(found.low <= truth <= found.high)
        untold.append(alone.low <= truth <= alone.high)
        widths.append((found.high - found.low) / (alone.high - alone.low))
    assert np.mean(inside) >= 0.91
    if correlation == 0:
        assert 1 <= np.mean(widths) < 1.15
    if correlation == 1:
        assert np.mean(untold) < 0.75


def test_comparisons_cover_where_rows_are_copies() -> None:
    rng = np.random.default_rng(3)

    def both(groups: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        p, y, group = visits(rng, 1.0, groups)
        other = special.expit(special.logit(p[:, 1]) + 1.5 * rng.normal(size=groups)[group])
        return p, np.stack([1 - other, other], axis=1), y, group

    a, b, y, _ = both(30_000)
    rows = np.arange(len(y))
    truth = 2 * float(((1 - a[rows, y]) ** 2 - (1 - b[rows, y]) ** 2).mean())
    inside, untold = [], []
    for _ in range(100):
        a, b, y, group = both(GROUPS)
        found = compare_models("brier", a, b, y, groups=group)
        alone = compare_models("brier", a, b, y)
        inside.append(found.low <= truth <= found.high)
        untold.append(alone.low <= truth <= alone.high)
        assert found.p_value >= alone.p_value
        assert found.n_groups == GROUPS
        assert found.effective_labels < len(y)
    assert np.mean(inside) >= 0.9 > 0.75 > np.mean(untold)


def test_models_that_never_differ_may_differ_in_a_whole_group() -> None:
    p, y, group = copies(5)
    told = compare_models("accuracy", p, p, y, groups=group)
    untold = compare_models("accuracy", p, p, y)
    assert told.high == pytest.approx(5 * untold.high, rel=0.05)  # and fewer degrees of freedom


def test_copies_count_once_even_if_the_largest_errors_are_in_small_groups() -> None:
    sizes = torch.tensor([1] * 20 + [9] * 20)
    p, _, group = copies(1)
    p, group = p.repeat_interleave(sizes, dim=0), group.repeat_interleave(sizes)
    y = torch.where(group < 5, 1 - p.argmax(1), p.argmax(1))  # five groups of one row are wrong
    found = estimate_metric("brier", p, y, groups=group)
    assert found.effective_labels == pytest.approx(200**2 / (20 + 20 * 81))


def test_all_rows_right_is_the_exact_bound_for_groups() -> None:
    """Nothing is known about the correlation of errors: each group counts as one row."""
    p, _, group = copies(5)
    y = p.argmax(1)
    found = estimate_metric("accuracy", p, y, groups=group)
    assert found.low == pytest.approx(0.025 ** (1 / GROUPS), abs=1e-3)
    assert found.effective_labels == pytest.approx(GROUPS)


def test_groups_combine_with_propensities_and_strata() -> None:
    p, y, group = copies(3)
    strata = np.where(group.numpy() < 20, "a", "b")
    found = estimate_metric("brier", p, y, groups=group, strata=strata, propensity=[0.5] * len(y))
    assert found.effective_labels < len(y) / 2
    split = np.where(np.arange(len(y)) % 2, "a", "b")
    with pytest.raises(ValueError, match="each group must lie within one stratum"):
        estimate_metric("brier", p, y, groups=group, strata=split, propensity=[0.5] * len(y))
    alone = np.where(group.numpy() < 1, "a", "b")
    with pytest.raises(ValueError, match="at least 2 groups for a variance; 'a' has 1"):
        estimate_metric("brier", p, y, groups=group, strata=alone, propensity=[0.5] * len(y))


def test_few_groups_warn() -> None:
    p, y, group = copies(4, LEAST_GROUPS - 1)
    with pytest.warns(NarrowIntervalWarning, match=f"of {LEAST_GROUPS - 1} groups. From fewer"):
        estimate_metric("brier", p, y, groups=group)
    p, y, group = copies(4, 19)
    heavy = torch.where(group < 10, 0, group)  # one group has half of all rows
    with pytest.warns(NarrowIntervalWarning, match=r"of 10 groups, as uncertain as 3 of equal"):
        estimate_metric("brier", p, y, groups=heavy)
    p, y, group = copies(4, LEAST_GROUPS)
    estimate_metric("brier", p, y, groups=group)  # warnings are errors in tests


@pytest.mark.parametrize(
    ("groups", "groups_unlabelled", "message"),
    [
        (None, ["a"] * 20, "groups_unlabelled needs groups"),
        (np.arange(40) // 2, None, "pass groups_unlabelled"),
        (np.arange(39), np.arange(20), "one entry for each of the 40 rows"),
        (np.arange(40) // 2, np.arange(20) // 20.0 * math.nan, "20 missing values"),
        ([None, *"abc" * 13], ["a"] * 20, "1 missing values"),
        (np.arange(40) // 2, ["a"] * 20, "both be text or both be numbers"),
        (np.arange(40) // 20, [5] * 20, "at least 3 groups; got those of 2"),
    ],
)
def test_groups_are_checked(groups: Any, groups_unlabelled: Any, message: str, predictions) -> None:
    p, y = predictions(n=40)
    others, _ = predictions(n=20, seed=1)
    with pytest.raises(ValueError, match=message):
        estimate_metric(
            "accuracy", p, y, others, groups=groups, groups_unlabelled=groups_unlabelled
        )


def test_cross_fitting_has_no_groups() -> None:
    p, y, group = copies(2)
    with pytest.raises(ValueError, match="takes no propensity, strata or groups"):
        estimate_metric("brier", p, y, groups=group, method="cross_fit")


@pytest.mark.parametrize("method", ["leverage_t", "bootstrap"])
def test_other_methods_resample_groups(method: Any) -> None:
    p, y, group = copies(5)
    told = estimate_metric("brier", p, y, groups=group, method=method)
    untold = estimate_metric("brier", p, y, method=method)
    assert told.high - told.low > 1.8 * (untold.high - untold.low)


def test_a_shift_between_groups_of_rows_is_no_alarm() -> None:
    """Five labelled groups of many equal rows differ from the others by chance."""
    rng = np.random.default_rng(0)
    alarms = {"told": 0, "untold": 0}
    for _ in range(40):
        p, y, group = visits(rng, 1.0, 60, size=15)
        known = group < 25
        told = {"groups": group[known], "groups_unlabelled": group[~known]}
        for name, more in (("told", told), ("untold", {})):
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                estimate_metric("brier", p[known], y[known], p[~known], **more)  # type: ignore[arg-type]
            alarms[name] += any(one.category is ShiftWarning for one in seen)
    assert alarms["told"] <= 3 < 10 < alarms["untold"]


def test_groups_with_labels_come_first() -> None:
    groups = groups_of(4, 2, list("bcce"), list("ab"))
    assert groups is not None
    assert (groups.labelled, groups.every) == (3, 4)
    assert groups.number.tolist() == [0, 1, 1, 2, 3, 0]
    assert groups.totals(torch.ones(6)).tolist() == [2, 2, 1, 1]
    assert groups.totals(torch.ones(4)).tolist() == [1, 2, 1]
    assert groups.effective(torch.ones(4)) == pytest.approx(16 / 6)

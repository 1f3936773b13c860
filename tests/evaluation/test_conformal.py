"""Prediction sets from few labels."""

import math

import numpy as np
import pytest
import torch

from dessl.evaluation import prediction_sets
from dessl.evaluation.debiased.shift import ShiftWarning


def rows(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    y = rng.integers(4, size=n)
    logits = rng.normal(size=(n, 4)) + 1.5 * np.eye(4)[y]
    p = np.exp(1.5 * logits)
    return p / p.sum(1, keepdims=True), y


def test_without_unlabelled_rows_it_is_split_conformal_prediction() -> None:
    p, y = rows(np.random.default_rng(0), 50)
    scores = np.sort(1 - p[np.arange(50), y])
    rule = prediction_sets(p, y, coverage=0.9)
    assert rule.threshold == pytest.approx(scores[math.ceil(51 * 0.9) - 1])
    assert rule.lam == 0
    inside = rule.sets(p)
    assert (inside.numpy() == (1 - p <= rule.threshold + 1e-12)).mean() > 0.99
    assert inside.any(dim=1).all()


def test_coverage_holds_and_varies_less_with_unlabelled_rows() -> None:
    rng = np.random.default_rng(0)
    p, y = rows(rng, 20_000)
    scores = 1 - p[np.arange(20_000), y]
    found = np.empty((150, 2))
    for r in range(150):
        known, others = rng.integers(20_000, size=50), rng.integers(20_000, size=1000)
        for k, unlabelled in enumerate((None, p[others])):
            rule = prediction_sets(p[known], y[known], unlabelled, check_shift=False)
            found[r, k] = (scores <= rule.threshold).mean()
    split, debiased = found.mean(axis=0)
    assert split == pytest.approx(0.9, abs=0.02)  # three standard errors are 1 point
    assert debiased == pytest.approx(0.9, abs=0.02)
    assert found[:, 1].std() < found[:, 0].std()


def test_too_few_labels_give_whole_sets_and_say_so() -> None:
    p, y = rows(np.random.default_rng(0), 8)
    with pytest.warns(UserWarning, match="Label at least 9 rows"):
        rule = prediction_sets(p, y, coverage=0.9)
    assert bool(rule.sets(p).all())


def test_a_shift_is_noticed_and_bad_input_refused() -> None:
    p, y = rows(np.random.default_rng(0), 60)
    sure = torch.eye(4, dtype=torch.float64).repeat(100, 1)
    with pytest.warns(ShiftWarning):
        prediction_sets(p, y, sure)
    with pytest.raises(ValueError, match=r"Write 0\.95 for 95 %"):
        prediction_sets(p, y, coverage=95)
    with pytest.raises(ValueError, match="at least 3 labelled rows"):
        prediction_sets(p[:2], y[:2])


def test_groups_of_one_row_change_nothing_and_copies_count_once() -> None:
    p, y = rows(np.random.default_rng(0), 50)
    alone = prediction_sets(p, y)
    assert prediction_sets(p, y, groups=np.arange(50)) == alone
    copies = np.repeat(np.arange(50), np.arange(50) % 4 + 1)  # of different numbers
    found = prediction_sets(p[copies], y[copies], p, groups=[f"patient {g}" for g in copies])
    assert found.threshold == alone.threshold
    assert (found.n_labelled, found.n_unlabelled, found.n_groups) == (len(copies), 0, 50)


def test_the_threshold_of_groups_is_the_one_of_the_formula() -> None:
    p, y = rows(np.random.default_rng(1), 90)
    groups = np.arange(90) % 12 // np.array([1, 2] * 45)  # uneven
    own = 1 - p[np.arange(90), y]
    shares = [
        sum((own[groups == g] <= t).mean() for g in set(groups)) / (len(set(groups)) + 1)
        for t in np.sort(own)
    ]
    expected = np.sort(own)[np.argmax(np.array(shares) >= 0.8)]
    assert prediction_sets(p, y, groups=groups, coverage=0.8).threshold == expected


def test_sets_of_grouped_rows_cover_rows_of_new_groups() -> None:
    """Rows of a group share the noise that decides them: most of it, so that few count."""
    rng = np.random.default_rng(2)

    def patients(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        group = np.repeat(np.arange(n), rng.integers(1, 12, size=n))
        y = rng.integers(3, size=n)[group]
        logits = rng.normal(size=(n, 3))[group] + 0.3 * rng.normal(size=(len(group), 3))
        p = np.exp(1.5 * (logits + np.eye(3)[y]))
        return p / p.sum(1, keepdims=True), y, group

    p, y, group = patients(4_000)
    scores, sizes = 1 - p[np.arange(len(y)), y], np.bincount(group)
    covered = np.empty((300, 2))
    for r in range(300):
        own, labels, of = patients(12)
        for k, told in enumerate((of, None)):
            rule = prediction_sets(own, labels, groups=told)
            covered[r, k] = np.mean(np.bincount(group, scores <= rule.threshold) / sizes)
    error = covered.std(axis=0) / np.sqrt(300)
    assert covered[:, 0].mean() > 0.9 - 2 * error[0]
    assert covered[:, 1].mean() < 0.9 - 3 * error[1]


def test_too_few_groups_give_whole_sets_and_say_so() -> None:
    p, y = rows(np.random.default_rng(0), 40)
    with pytest.warns(UserWarning, match="8 labelled groups are too few.*at least 9 groups"):
        rule = prediction_sets(p, y, groups=np.arange(40) % 8)
    assert bool(rule.sets(p).all())
    with pytest.raises(ValueError, match="one entry for each of the 40 rows"):
        prediction_sets(p, y, groups=[1, 2])

"""The warning that unlabelled rows do not look like labelled ones."""

import math
import warnings

import numpy as np
import pytest
import torch
from scipy import stats

from dessl.evaluation import estimate_metric
from dessl.evaluation.debiased.proxies import Proxies
from dessl.evaluation.debiased.shift import ShiftWarning, shift_test


def rows(h: np.ndarray, classes: np.ndarray) -> Proxies:
    return Proxies(torch.as_tensor(h), torch.zeros(3, len(h)), torch.as_tensor(classes))


def test_the_mean_rank_is_that_of_scipy() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=40).round(1), rng.normal(0.5, size=300).round(1)  # with ties
    found = shift_test(rows(a, np.zeros(40, dtype=int)), rows(b, np.zeros(300, dtype=int)))
    wanted = stats.mannwhitneyu(a, b, use_continuity=False, method="asymptotic").pvalue
    assert math.erfc(abs(found.z) / math.sqrt(2)) == pytest.approx(wanted, rel=1e-6)


def test_its_size_is_controlled() -> None:
    """500 draws at 5 %: three standard errors are 2.9 points; a discrete test may have less."""
    rng = np.random.default_rng(0)
    small = 0
    for _ in range(500):
        h, classes = rng.beta(1, 8, 330), rng.integers(3, size=330)
        small += shift_test(rows(h[:30], classes[:30]), rows(h[30:], classes[30:])).p_value < 0.05
    assert 0.01 < small / 500 < 0.079


def test_a_shift_of_either_kind_is_noticed(predictions) -> None:
    p, y = predictions(n=80)
    surer, _ = predictions(n=800, sharpness=4.0, seed=1)
    others, classes = predictions(n=1600, seed=2)
    for shifted in (surer, others[classes != 0]):
        with pytest.warns(ShiftWarning, match=r"do not look like the labelled ones.*propensity="):
            estimate = estimate_metric("accuracy", p, y, shifted)
        assert estimate.shift_p_value < 0.01


def test_no_shift_no_warning_and_it_can_be_turned_off(predictions) -> None:
    p, y = predictions(n=80)
    alike, _ = predictions(n=800, seed=1)
    surer, _ = predictions(n=800, sharpness=4.0, seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert estimate_metric("accuracy", p, y, alike).shift_p_value > 0.01
        assert math.isnan(estimate_metric("accuracy", p, y, surer, check_shift=False).shift_p_value)
        assert math.isnan(estimate_metric("accuracy", p[:5], y[:5], surer).shift_p_value)

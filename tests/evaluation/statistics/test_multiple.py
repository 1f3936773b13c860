import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from dessl.evaluation.statistics import holm


def rejected_step_down(p_values, alpha):
    """Holm's procedure as it is defined: step down until the first p above α/(m − i)."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    rejected = set()
    for step, i in enumerate(order):
        if p_values[i] > alpha / (len(p_values) - step):
            break
        rejected.add(i)
    return rejected


@given(
    st.lists(st.integers(0, 1000).map(lambda i: i / 1000), min_size=1, max_size=12),
    st.sampled_from([0.0101, 0.0503, 0.2007]),
)
def test_adjusted_values_reject_what_the_procedure_rejects(p_values, alpha):
    adjusted = holm(p_values)
    assert set(np.flatnonzero(adjusted <= alpha)) == rejected_step_down(p_values, alpha)


def test_by_hand():
    assert holm([0.01, 0.04, 0.03, 0.005]).tolist() == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.6, 0.7]).tolist() == [1.0, 1.0]


def test_a_tensor_of_an_autograd_graph_is_taken():
    p_values = torch.tensor([0.01, 0.04], dtype=torch.float64, requires_grad=True)
    assert holm(p_values).tolist() == [0.02, 0.04]


def test_one_test_needs_no_correction():
    assert holm([0.037]).tolist() == [0.037]


def test_nan_stays_and_does_not_count():
    adjusted = holm([math.nan, 0.01, math.nan, 0.04])
    assert np.isnan(adjusted).tolist() == [True, False, True, False]
    assert adjusted[[1, 3]].tolist() == holm([0.01, 0.04]).tolist()
    assert np.isnan(holm([math.nan])).all()


def test_false_rejections_stay_below_the_level_where_uncorrected_ones_do_not():
    p_values = np.random.default_rng(0).uniform(size=(4000, 10))
    corrected = np.mean([(holm(row) <= 0.05).any() for row in p_values])
    assert corrected == pytest.approx(0.05, abs=0.011)  # three standard errors; sharp here
    assert (p_values <= 0.05).any(axis=1).mean() > 0.35


@pytest.mark.parametrize(
    ("p_values", "message"),
    [
        ([0.1, 1.2], r"must lie in \[0, 1\]; got 0.1 to 1.2"),
        ([-0.1, 0.2], r"must lie in \[0, 1\]; got -0.1 to 0.2"),
        ([], r"shape \(n,\), not empty"),
        ([[0.1]], r"shape \(n,\), not empty; got \(1, 1\)"),
    ],
)
def test_wrong_values_are_refused(p_values, message):
    with pytest.raises(ValueError, match=message):
        holm(p_values)


def test_what_is_no_number_is_refused():
    with pytest.raises(TypeError, match="p_values must be an array or a tensor of numbers"):
        holm(["a"])

import math

import numpy as np
import pytest
import torch
from scipy import stats

from dessl.evaluation.statistics import mcnemar


def hits(both, only_a, only_b, neither):
    a = [1] * both + [1] * only_a + [0] * only_b + [0] * neither
    b = [1] * both + [0] * only_a + [1] * only_b + [0] * neither
    return np.array(a, dtype=bool), np.array(b, dtype=bool)


@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])
@pytest.mark.parametrize("only", [(7, 2), (2, 7), (4, 4), (0, 5), (1, 0), (60, 35)])
def test_exact_against_scipy(only, alternative):
    a, b = hits(30, *only, 8)
    found = mcnemar(a, b, alternative=alternative)
    expected = stats.binomtest(only[0], sum(only), alternative=alternative).pvalue
    assert found.p_value == pytest.approx(expected, rel=1e-12)
    assert (found.both, found.only_a, found.only_b, found.neither) == (30, *only, 8)
    assert found.difference == pytest.approx(a.mean() - b.mean())


@pytest.mark.parametrize("only", [(7, 2), (2, 7), (4, 4), (0, 5), (1, 0)])
def test_mid_p_by_counting(only):
    """Half of the chance of what was seen, all of what is more extreme, out of 2ⁿ outcomes."""
    seen, n = only[0], sum(only)
    above = sum(math.comb(n, k) for k in range(seen + 1, n + 1)) + math.comb(n, seen) / 2
    below = sum(math.comb(n, k) for k in range(seen)) + math.comb(n, seen) / 2
    expected = {"greater": above / 2**n, "less": below / 2**n}
    expected["two-sided"] = 2 * min(expected.values())
    a, b = hits(3, *only, 2)
    for alternative, p_value in expected.items():
        found = mcnemar(a, b, alternative=alternative, mid_p=True)
        assert found.p_value == pytest.approx(p_value, rel=1e-12)
        assert found.mid_p


@pytest.mark.parametrize("mid_p", [False, True])
@pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])
def test_models_right_on_the_same_rows_do_not_differ(alternative, mid_p):
    a, b = hits(5, 0, 0, 3)
    assert mcnemar(a, b, alternative=alternative, mid_p=mid_p).p_value == 1.0


def test_tensors_and_swapped_models():
    a, b = hits(5, 6, 1, 3)
    one = mcnemar(torch.tensor(a), torch.tensor(b), alternative="greater")
    other = mcnemar(b, a, alternative="less")
    assert one.p_value == other.p_value
    assert one.difference == -other.difference


@pytest.mark.parametrize(
    ("a", "b", "settings", "message"),
    [
        ([1, 0], [1, 0, 1], {}, "rows; got 2 and 3"),
        ([1, 2], [1, 0], {}, "correct_a .*predicted == y"),
        ([], [], {}, "correct_a must not be empty"),
        ([1, 0], [1, 0], {"alternative": "larger"}, "alternative must be one of"),
    ],
)
def test_wrong_calls_are_refused(a, b, settings, message):
    with pytest.raises(ValueError, match=message):
        mcnemar(a, b, **settings)

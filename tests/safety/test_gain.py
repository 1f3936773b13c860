"""What can be gained: ρ with an interval that covers, and the theory's variance ratio."""

import numpy as np
import pytest
import torch
from scipy import stats

from dessl.safety.gain import correlated, gains, least_correlation
from dessl.theory import variance_ratio


def test_the_interval_covers_for_skewed_l_and_h() -> None:
    generator = np.random.default_rng(0)
    truth = np.corrcoef(*_skewed(generator, 400_000))[0, 1]
    hits = 0
    for _ in range(300):
        loss, h = (torch.from_numpy(part) for part in _skewed(generator, 200))
        found = correlated(loss, h)
        hits += found.low <= truth <= found.high
    assert 0.85 < hits / 300 < 0.99


def _skewed(generator: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    h = generator.exponential(size=n)
    return h * generator.exponential(size=n), h


def test_rho_is_pearson_s_and_the_ratio_is_the_theory_s() -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(300, 3, generator=generator)
    y = (x[:, 0] + torch.randn(300, generator=generator) > 0).long()
    found = gains(x[:100], y[:100], x[100:], 2, teachers=("kernel",))
    for one in found:
        assert one.low < one.correlation < one.high
        assert one.variance_ratio == pytest.approx(variance_ratio(one.correlation, 100, 200))
        assert one.equivalent_labels == pytest.approx(100 / one.variance_ratio)
        assert one.worth_it == (abs(one.correlation) > 1 / 98**0.5)
    assert found[0].variance_ratio <= found[-1].variance_ratio
    assert least_correlation(2) == np.inf
    a, b = np.array([1.0, 2.0, 4.0, 3.0]), np.array([0.5, 1.5, 2.5, 2.0])
    rho = correlated(torch.from_numpy(a), torch.from_numpy(b)).value
    assert rho == pytest.approx(stats.pearsonr(a, b).statistic)


def test_copies_of_rows_in_one_group_tell_no_more_than_one_row() -> None:
    generator = torch.Generator().manual_seed(0)
    loss = torch.rand(60, generator=generator)
    h = loss + torch.rand(60, generator=generator)
    once = correlated(loss, h)
    units = np.arange(60).repeat(4)
    found = correlated(loss.repeat_interleave(4), h.repeat_interleave(4), units)
    assert tuple(found) == pytest.approx(tuple(once), abs=1e-5)


def test_whole_groups_are_predicted_and_counted() -> None:
    generator = torch.Generator().manual_seed(0)
    groups = torch.arange(20).repeat_interleave(5)
    x = torch.randn(20, 3, generator=generator)[groups]  # five equal rows each
    y = torch.randint(2, (20,), generator=generator)[groups]  # nothing to learn
    found = gains(x, y, x[:0], 2, teachers=("trees",), groups=groups.numpy(), n_unlabelled=100)
    for one in found:
        assert one.worth_it == (abs(one.correlation) > 1 / 18**0.5)
    assert {one.term for one in found} == {"entropy", "pseudo-label", "teacher trees"}

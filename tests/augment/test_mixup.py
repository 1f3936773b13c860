"""Mixup: the Beta law against scipy, the permutation, and the mixing itself."""

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor
from torch.nn.functional import one_hot

from dessl.augment import mixup
from dessl.augment.mixup import symmetric_beta

CPU = torch.device("cpu")


@pytest.mark.parametrize("alpha", [0.1, 0.2, 0.5, 0.75, 1.0, 2.0, 16.0])
def test_weights_follow_the_beta_law(alpha: float, generator: torch.Generator) -> None:
    weights = symmetric_beta(20_000, alpha, generator, CPU)
    assert weights.dtype == torch.float32
    assert 0 <= float(weights.min()) <= float(weights.max()) <= 1
    # Compared in the middle: float32 cannot tell weights closer to 1 than 1e-7 from 1.
    law = stats.beta(alpha, alpha)
    middle = weights[(weights > 1e-3) & (weights < 1 - 1e-3)].double().numpy()
    share = law.cdf(1 - 1e-3) - law.cdf(1e-3)
    assert stats.binomtest(len(middle), len(weights), share).pvalue > 1e-3
    truncated = (law.cdf(middle) - law.cdf(1e-3)) / share
    assert stats.kstest(truncated, "uniform").pvalue > 1e-3


def test_rows_are_mixed_with_their_partners(generator: torch.Generator) -> None:
    x = torch.randn(40, 2, 3, dtype=torch.float64, generator=generator)
    y = torch.randn(40, 5, generator=generator)
    mixed = mixup(x, 0.75, generator)
    assert sorted(mixed.partner.tolist()) == list(range(40))
    assert len(set(mixed.lam.tolist())) == 40
    for row in range(40):
        lam, other = float(mixed.lam[row]), int(mixed.partner[row])
        np.testing.assert_allclose(mixed.x[row], lam * x[row] + (1 - lam) * x[other], atol=1e-12)
        expected = lam * y[row] + (1 - lam) * y[other]
        np.testing.assert_allclose(mixed.mix(y)[row], expected, atol=1e-6)


def test_every_permutation_is_as_likely(generator: torch.Generator) -> None:
    codes = [mixup(torch.zeros(3), 1.0, generator).partner.tolist() for _ in range(1_200)]
    counts = np.unique(codes, axis=0, return_counts=True)[1]
    assert len(counts) == 6
    assert stats.chisquare(counts).pvalue > 1e-3


def test_refusals(small: Tensor, generator: torch.Generator) -> None:
    with pytest.raises(TypeError, match=r"got torch.uint8 \(16, 3, 12, 10\). Normalise first"):
        mixup(small, 1.0, generator)
    mixed = mixup(small.float(), 1.0, generator)
    with pytest.raises(TypeError, match=r"values must be floats; got torch.int64. Mix one-hot"):
        mixed.mix(one_hot(torch.arange(16)))
    with pytest.raises(ValueError, match=r"alpha must lie in \(0, inf\]; got 0"):
        mixup(small.float(), 0, generator)

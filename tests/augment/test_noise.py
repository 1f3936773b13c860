"""Noise and translations: their law, their reach, and what they refuse."""

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from dessl.augment import noisy, translated


def test_noise_is_gaussian_and_independent(generator: torch.Generator) -> None:
    x = torch.full((200, 100), 3.0)
    noise = ((noisy(x, 0.15, generator) - x) / 0.15).numpy()
    assert stats.kstest(noise.ravel(), "norm").pvalue > 1e-3
    assert abs(np.corrcoef(noise)[np.triu_indices(200, 1)]).mean() < 0.1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_noise_keeps_the_dtype(dtype: torch.dtype, generator: torch.Generator) -> None:
    x = torch.zeros(5, 2, dtype=dtype)
    assert noisy(x, 1.0, generator).dtype == dtype
    assert torch.equal(noisy(x, 0.0, generator), x)


def test_each_image_is_translated_for_itself(generator: torch.Generator) -> None:
    images = torch.arange(81.0).view(1, 1, 9, 9).repeat(5_000, 1, 1, 1)
    centre = translated(images, 2, generator)[:, 0, 4, 4].long()  # names row and column at once
    counts = np.bincount(centre, minlength=81).reshape(9, 9)
    assert counts.sum() == counts[2:7, 2:7].sum()
    assert stats.chisquare(counts[2:7, 2:7].ravel()).pvalue > 1e-3


def test_no_pixels_no_change(small: Tensor, generator: torch.Generator) -> None:
    assert torch.equal(translated(small, 0, generator), small)


def test_refusals(small: Tensor, generator: torch.Generator) -> None:
    with pytest.raises(TypeError, match=r"got torch.uint8. Add noise after normalising"):
        noisy(small, 0.1, generator)
    with pytest.raises(TypeError, match="got list"):
        noisy([1.0], 0.1, generator)
    with pytest.raises(ValueError, match=r"std must lie in \[0, inf\]; got -1"):
        noisy(small.float(), -1, generator)
    with pytest.raises(TypeError, match=r"generator must be a torch.Generator; got int"):
        noisy(small.float(), 0.1, 3)
    with pytest.raises(ValueError, match=r"pixels must be between 0 and 9; got 10"):
        translated(small, 10, generator)
    with pytest.raises(ValueError, match=r"\(n, channels, height, width\); got \(3, 12, 10\)"):
        translated(small[0], 2, generator)
    with pytest.raises(ValueError, match="got list"):
        translated([1], 2, generator)

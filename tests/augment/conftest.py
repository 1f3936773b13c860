"""Pictures to augment: generated ones always, CIFAR-10 where the data is."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor


def generated(n: int, channels: int, height: int, width: int) -> Tensor:
    """Smooth colour fields with noise, of many brightnesses and contrasts; a few are flat."""
    generator = torch.Generator().manual_seed(n + channels + 10 * height + 100 * width)
    coarse = torch.rand(n, channels, 5, 5, generator=generator)
    fields = torch.nn.functional.interpolate(coarse, size=(height, width), mode="bicubic")
    contrast = 300 * torch.rand(n, 1, 1, 1, generator=generator)
    brightness = 255 * torch.rand(n, 1, 1, 1, generator=generator)
    noise = 6 * torch.randn(fields.shape, generator=generator)
    pictures = ((fields - 0.5) * contrast + brightness + noise).clamp(0, 255).to(torch.uint8)
    pictures[0] = 77
    pictures[-1] = 255 * (pictures[-1] > 127)
    return pictures


def cifar10(n: int) -> Tensor:
    """The first n training images."""
    folder = os.environ.get("DESSL_DATA")
    file = Path(folder or "", "cifar-10-batches-bin", "data_batch_1.bin")
    if not folder or not file.exists():
        pytest.skip("DESSL_DATA is not set or holds no cifar-10-batches-bin")
    rows = np.fromfile(file, dtype=np.uint8, count=3073 * n).reshape(n, 3073)
    return torch.from_numpy(rows[:, 1:].reshape(n, 3, 32, 32).copy())


SETS = {
    "colour 32x32": lambda: generated(48, 3, 32, 32),
    "grey 28x28": lambda: generated(48, 1, 28, 28),
    "grey 8x8": lambda: generated(48, 1, 8, 8),
    "colour 96x96": lambda: generated(12, 3, 96, 96),
    "colour 20x33": lambda: generated(24, 3, 20, 33),
    "cifar10": lambda: cifar10(300),
}


@pytest.fixture(params=SETS)
def pictures(request: pytest.FixtureRequest) -> Tensor:
    return SETS[request.param]()


@pytest.fixture
def small() -> Tensor:
    """Sixteen colour pictures, 12 by 10."""
    return generated(16, 3, 12, 10)


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)

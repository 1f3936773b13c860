import math
from collections.abc import Callable
from types import ModuleType

import numpy as np
import pytest
import torch
from torch import nn

from dessl.data import SemiData
from dessl.models import FastCifar


@pytest.fixture(scope="module")
def contrastive(script: Callable[[str], ModuleType]) -> ModuleType:
    return script("contrastive")


@pytest.fixture
def images() -> torch.Tensor:
    return torch.randint(256, (24, 3, 16, 16), generator=torch.Generator().manual_seed(0)).byte()


def test_the_term_is_that_of_simclr(contrastive: ModuleType) -> None:
    """Against the formula of the paper, pair by pair."""
    vectors = torch.randn(2, 5, 7, generator=torch.Generator().manual_seed(0))
    rows = vectors.flatten(0, 1).double().numpy()
    z = rows / np.linalg.norm(rows, axis=1, keepdims=True)

    def loss(i: int, j: int) -> float:
        others = [math.exp(z[i] @ z[k] / 0.5) for k in range(10) if k != i]
        return -math.log(math.exp(z[i] @ z[j] / 0.5) / sum(others))

    expected = [(loss(i, i + 5) + loss(i + 5, i)) / 2 for i in range(5)]
    assert contrastive.found_again(vectors).tolist() == pytest.approx(expected, rel=1e-5)


def test_whole_crops_are_the_images_flipped_or_not(
    contrastive: ModuleType, images: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = {"SMALLEST": 1.0, "RATIO": 1.0, "COLOUR": 0.0, "GREY": 0.0}
    for name, value in whole.items():
        monkeypatch.setattr(contrastive, name, value)
    seen = contrastive.crops(images, torch.Generator().manual_seed(0))
    flipped = [torch.equal(one, image.flip(-1)) for one, image in zip(seen, images, strict=True)]
    same = [torch.equal(one, image) for one, image in zip(seen, images, strict=True)]
    assert all(a != b for a, b in zip(same, flipped, strict=True))
    assert 0 < sum(flipped) < 24


def test_crops_are_parts_of_their_own_image(contrastive: ModuleType) -> None:
    """Levels that rise from left to right do so in a crop, or fall; no row sees another."""
    ramp = (8 * torch.arange(32)).expand(64, 1, 32, 32).byte()
    shades = torch.arange(64).view(-1, 1, 1, 1)
    level = contrastive.crops((ramp // 4 + shades).byte(), torch.Generator().manual_seed(0))
    steps = level[:, 0, 16].float().diff(dim=1)
    rises, falls = (steps >= 0).all(1), (steps <= 0).all(1)
    assert (rises | falls).float().mean() > 0.9  # reflected at the border, a few do both
    assert min(rises.sum(), falls.sum()) > 16
    grey = torch.full((8, 3, 16, 16), 100).byte()
    seen = contrastive.crops(grey, torch.Generator().manual_seed(0))
    assert seen.dtype == torch.uint8
    assert all(len(one.unique()) == 1 for one in seen)
    assert 60 <= seen.min() < 100 < seen.max() <= 140


def test_the_start_is_learnt_from_images_without_labels(
    contrastive: ModuleType, images: torch.Tensor
) -> None:
    def start(y: torch.Tensor) -> nn.Module:
        data = SemiData(images, y)
        built = contrastive.started(
            lambda: FastCifar(2, width=8),
            data,
            steps=3,
            mean=[0.5] * 3,
            std=[0.25] * 3,
            precision="float32",
            batch=8,
        )
        torch.manual_seed(1)
        return built()

    y = torch.arange(24) % 2
    first, other = start(y).state_dict(), start(1 - y).state_dict()
    assert all(torch.equal(first[name], other[name]) for name in first)
    torch.manual_seed(1)
    fresh = FastCifar(2, width=8).state_dict()
    assert torch.equal(first["head.weight"], fresh["head.weight"])
    weights = [name for name in first if name.startswith("maps.") and name.endswith("weight")]
    assert not any(torch.equal(first[name], fresh[name]) for name in weights)

import pytest
import torch

from dessl.models import FastCifar


@pytest.mark.parametrize("width", [8, 64])
def test_fast_cifar_counts(width: int, parameter_count) -> None:
    w = width
    pairs = [(3, w), (w, 2 * w), (2 * w, 2 * w), (2 * w, 2 * w)]
    pairs += [(2 * w, 4 * w), (4 * w, 8 * w), (8 * w, 8 * w), (8 * w, 8 * w)]
    assert len(pairs) + 1 == 9
    assert (
        parameter_count(FastCifar(width=w)) == sum(9 * a * b + 2 * b for a, b in pairs) + 8 * w * 10
    )


def test_fast_cifar_reads_any_size() -> None:
    model = FastCifar(width=8)
    for side in (8, 28, 32, 96):
        assert model(torch.rand(2, 3, side, side)).shape == (2, 10)


def test_fast_cifar_starts_with_small_logits() -> None:
    torch.manual_seed(0)
    assert FastCifar()(torch.randn(16, 3, 32, 32)).std() < 0.3

from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F

from dessl.models import MedCNN


@pytest.mark.parametrize("channels", [1, 3])
def test_medcnn_counts(channels: int, parameter_count, linear_count) -> None:
    widths = [channels, 16, 16, 64, 64, 64]
    convolutions = sum((9 * a + 1) * b for a, b in pairwise(widths))
    norms = 2 * sum(widths[1:])
    assert parameter_count(MedCNN(8, channels)) == convolutions + norms + linear_count(
        1024, 128, 128, 8
    )


def test_medcnn_is_the_function_of_its_weights(images) -> None:
    model, x = MedCNN(5).double(), images(4, 3, 28, 28)
    w = [p.detach() for p in model.parameters()]
    maps = x
    for layer in range(5):
        kernel, bias, scale, shift = w[4 * layer : 4 * layer + 4]
        maps = F.conv2d(maps, kernel, bias, padding=1 if layer == 4 else 0)
        centred = maps - maps.mean((0, 2, 3), keepdim=True)
        norm = (centred.square().mean((0, 2, 3), keepdim=True) + 1e-5).rsqrt()
        maps = (centred * norm * scale[:, None, None] + shift[:, None, None]).clamp(min=0)
        if layer in (1, 4):
            maps = F.max_pool2d(maps, 2)
    hidden = (maps.reshape(4, -1) @ w[20].T + w[21]).clamp(min=0)
    expected = (hidden @ w[22].T + w[23]).clamp(min=0) @ w[24].T + w[25]
    torch.testing.assert_close(model(x), expected)

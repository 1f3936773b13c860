import pytest
import torch
import torch.nn.functional as F

from dessl.models import LeNet


@pytest.mark.parametrize(
    ("channels", "size", "maps"),
    [
        (1, 28, 16 * 4 * 4),  # 28 - 4 = 24, 12, 8, 4
        (3, 32, 16 * 5 * 5),
        (1, (28, 40), 16 * 4 * 7),
        (1, 16, 16 * 1 * 1),  # 16 - 4 = 12, 6, 2, 1: the smallest without padding
        (1, 15, 16 * 3 * 3),  # padded: 15, 7, 7, 3
        (1, 8, 16 * 2 * 2),
        (3, 4, 16 * 1 * 1),
    ],
)
def test_lenet_counts(channels: int, size, maps: int, parameter_count, linear_count) -> None:
    model = LeNet(7, channels, size=size)
    convolutions = (25 * channels + 1) * 6 + (25 * 6 + 1) * 16
    assert parameter_count(model) == convolutions + linear_count(maps, 120, 84, 7)
    height, width = (size, size) if isinstance(size, int) else size
    assert model(torch.rand(2, channels, height, width)).shape == (2, 7)


def test_lenet_is_the_function_of_its_weights(images) -> None:
    model, x = LeNet().double(), images(3, 1, 28, 28)
    w = [p.detach() for p in model.parameters()]
    maps = F.max_pool2d(F.conv2d(x, w[0], w[1]).clamp(min=0), 2)
    maps = F.max_pool2d(F.conv2d(maps, w[2], w[3]).clamp(min=0), 2).reshape(3, -1)
    hidden = (maps @ w[4].T + w[5]).clamp(min=0)
    expected = (hidden @ w[6].T + w[7]).clamp(min=0) @ w[8].T + w[9]
    torch.testing.assert_close(model(x), expected)


def test_lenet_refuses_images_that_come_to_nothing() -> None:
    with pytest.raises(ValueError, match="size must be at least 4; got 3"):
        LeNet(size=(28, 3))
    for size in (8, 12, (28, 12)):  # of 8 and 12 come maps of -1 and 0 columns
        with pytest.raises(ValueError, match=r"padding \(0, 0\) is too small"):
            LeNet(size=size, padding=(0, 0))
    with pytest.raises(ValueError, match=r"\(n, 1, 28, 28\); got \(2, 1, 32, 32\).* size="):
        LeNet()(torch.rand(2, 1, 32, 32))


def test_with_a_frame_around_the_images_it_has_lenet_5s_parameters(parameter_count) -> None:
    model = LeNet(padding=(2, 0))
    assert parameter_count(model) == 61_706  # LeNet-5's layers, all maps of C3 fully connected
    assert model(torch.zeros(2, 1, 28, 28)).shape == (2, 10)

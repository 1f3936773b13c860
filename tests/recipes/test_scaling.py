"""The scaling of inputs."""

import math

import numpy as np
import torch

from dessl import SemiData
from dessl.recipes.scaling import scaling_of, standardised_data


class TestScaling:
    def test_columns_are_standardised_by_their_own_deviation(self) -> None:
        x = torch.randn(50, 2) * torch.tensor([1.0, 100.0]) + torch.tensor([3.0, -7.0])
        mean, std = scaling_of(x)
        assert np.allclose(mean.numpy(), x.double().numpy().mean(0), rtol=1e-5)
        assert np.allclose(std.numpy(), x.double().numpy().std(0), rtol=1e-5)

    def test_columns_measured_alike_share_one_deviation(self) -> None:
        x = torch.rand(400, 4)
        x[:, 3] *= 0.01  # a pixel at the border
        _, std = scaling_of(x)
        deviations = x.double().numpy().std(0)
        assert np.allclose(std.numpy(), math.sqrt((deviations**2).mean()), rtol=1e-5)

    def test_a_constant_column_is_divided_by_one(self) -> None:
        assert scaling_of(torch.tensor([[1.0, 7.0], [2.0, 7.0]])).std[1] == 1
        rounded = torch.where(torch.arange(99) % 2 == 0, 1e6, 1e6 + 0.0625)  # float32's next number
        assert scaling_of(torch.stack([torch.arange(99.0), rounded], 1)).std[1] == 1

    def test_images_have_one_mean_a_channel(self) -> None:
        x = torch.randint(256, (20, 3, 5, 6), dtype=torch.uint8)
        mean, std = scaling_of(x)
        levels = x.double().numpy() / 255
        assert mean.shape == std.shape == (3, 1, 1)
        assert np.allclose(mean.flatten().numpy(), levels.mean((0, 2, 3)), rtol=1e-5)
        assert np.allclose(std.flatten().numpy(), levels.std((0, 2, 3)), rtol=1e-5)

    def test_every_part_is_standardised(self) -> None:
        x, y = torch.randn(8, 2) * 5 + 1, torch.arange(8) % 2
        data = SemiData(x, y, validation=(x, y), test=(x, y))
        scaled = standardised_data(data, scaling_of(x))
        assert torch.equal(scaled.x, scaled.validation.x)
        assert torch.equal(scaled.x, scaled.test.x)
        assert torch.equal(data.x, x)

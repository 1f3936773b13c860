"""The scaling of inputs."""

import math
from pathlib import Path

import numpy as np
import torch

from dessl import SemiData
from dessl.data import open_rows
from dessl.models.reduced import area_averaged
from dessl.recipes import fit, recipe_for
from dessl.recipes.scaling import leading_variance, reduced_data, scaling_of, standardised_data


class TestScaling:
    def test_columns_are_standardised_by_their_own_deviation(self) -> None:
        x = torch.randn(50, 2) * torch.tensor([1.0, 100.0]) + torch.tensor([3.0, -7.0])
        mean, std = scaling_of(x)
        assert np.allclose(mean.numpy(), x.double().numpy().mean(0), rtol=1e-5)
        assert np.allclose(std.numpy(), x.double().numpy().std(0), rtol=1e-5)

    def test_columns_measured_alike_share_one_deviation(self) -> None:
        x = torch.rand(400, 4)
        x[:, 3] = 0.01 * (torch.arange(400) < 2)  # a pixel at the border, hardly ever lit
        _, std = scaling_of(x)
        deviations = x.double().numpy().std(0)
        assert np.allclose(std.numpy(), math.sqrt((deviations**2).mean()), rtol=1e-5)

    def test_a_constant_column_is_divided_by_one(self) -> None:
        assert scaling_of(torch.tensor([[1.0, 7.0], [2.0, 7.0]])).std[1] == 1
        rounded = torch.where(torch.arange(99) % 2 == 0, 1e6, 1e6 + 0.0625)  # float32's next number
        assert scaling_of(torch.stack([torch.arange(99.0), rounded], 1)).std[1] == 1

    def test_many_columns_that_vary_together_are_divided_again(self) -> None:
        g = torch.Generator().manual_seed(0)
        noise = torch.randn(300, 400, generator=g)
        together = torch.randn(300, 1, generator=g) + 0.5 * noise
        for x in (noise, together[:, :100]):  # nothing in common, or few columns
            own = math.sqrt(float(x.double().var(0, correction=0).mean()))
            assert np.allclose(scaling_of(x).std.numpy(), own, rtol=1e-4)
        mean, std = scaling_of(together)
        own = math.sqrt(float(together.double().var(0, correction=0).mean()))
        found = leading_variance(together, mean, torch.full_like(std, own))
        exact = torch.linalg.matrix_norm((together - mean).double() / own, 2) ** 2 / 300
        assert abs(found / float(exact) - 1) < 0.15
        assert np.allclose(std.numpy(), own * found / 16, rtol=1e-4)
        assert scaling_of(torch.ones(5, 200)).std.eq(1).all()
        assert scaling_of(torch.rand(1, 200)).std.eq(1).all()

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


def test_stored_images_are_reduced_when_they_are_read(tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(40) % 2
    x = torch.randint(100, (240, 1, 48, 48), generator=generator)
    x += 80 * (torch.arange(240) % 2).view(-1, 1, 1, 1)
    x = x.to(torch.uint8)
    np.save(tmp_path / "rows.npy", x[40:].numpy())
    data = SemiData(x[:40], y, stored=open_rows(tmp_path / "rows.npy"), layout="NCHW")
    reduced = reduced_data(data, 32)
    assert reduced.stored.shape == (1, 32, 32)
    out = np.empty((5, 1, 32, 32), np.uint8)
    reduced.stored.read(3, 8, out)
    assert np.array_equal(out, area_averaged(x[43:48], 32).numpy())
    for options in ({}, {"surrogate": "pseudo_label", "lam": 0.5}):  # all unlabelled rows on disk
        fitted = fit(data, recipe_for(data, steps=3, **options), progress=False)
        assert fitted.model(x[:3]).shape == (3, 2)

"""What a recipe chooses for which data."""

import re
from dataclasses import replace

import pytest
import torch
from torch import nn

from dessl import SemiData
from dessl.models import MLP, LeNet
from dessl.recipes import recipe_for
from dessl.surrogates import Entropy
from dessl.teachers import DEFAULT
from dessl.teachers.families import WITH_SPARSE


class TestChoice:
    def test_tables_get_five_mlps_and_images_a_convolutional_network(self) -> None:
        table = recipe_for(SemiData(torch.rand(40, 3), torch.arange(40) % 2))
        assert isinstance(table.model(), MLP)
        assert table.networks == 5
        for columns, hidden in ((4096, 512), (10_000, 209), (1_000_000, 16)):
            wide = SemiData(torch.zeros(1, columns).expand(20, columns), torch.arange(20) % 2)
            assert recipe_for(wide).model.options["hidden"] == [hidden]
        images = SemiData(torch.zeros(40, 1, 28, 28, dtype=torch.uint8), torch.arange(40) % 2)
        small = recipe_for(images)
        assert isinstance(small.model(), LeNet)
        assert (small.networks, recipe_for(images, networks=1).networks) == (5, 1)
        colour = SemiData(torch.zeros(40, 3, 40, 40, dtype=torch.uint8), torch.arange(40) % 2)
        recipe = recipe_for(colour)
        assert recipe.model()(recipe.transform(colour.x[:2])).shape == (2, 2)

    def test_only_wide_tables_get_a_sparse_regression(self) -> None:
        x = torch.randn(300, 200, generator=torch.Generator().manual_seed(0))
        y = torch.where(torch.arange(300) < 60, torch.arange(300) % 2, -1)
        assert recipe_for(SemiData(x, y)).teachers == WITH_SPARSE
        assert recipe_for(SemiData(x, y), lam=0.5).teachers == ()
        assert recipe_for(SemiData(x[:, :64], y)).teachers == DEFAULT

    @pytest.mark.parametrize(
        ("shape", "labels", "says"),
        [
            ((20, 5_000), 20, r"the rows have 5,000 columns, more than 4,096.*--pool.* with PCA"),
            ((20_000, 2), 10_001, "there are 10,001 labels, more than 10,000.*Pass --pool"),
            ((20, 3, 4), 20, r"its teachers read columns or images, .* shape \(3, 4\)"),
        ],
    )
    def test_a_default_without_a_pool_says_why(
        self, shape: tuple[int, ...], labels: int, says: str
    ) -> None:
        y = torch.where(torch.arange(shape[0]) < labels, torch.arange(shape[0]) % 2, -1)
        data = SemiData(torch.zeros(1).expand(shape), y)
        network = {"model": lambda: nn.Sequential(nn.Flatten(), nn.LazyLinear(2))}
        found = recipe_for(data, **network)
        assert found.teachers == ()
        assert re.search(f"No pool was made, because {says}", found.no_pool)
        for chosen in ({"teachers": DEFAULT}, {"teachers": None}, {"lam": 0.5}):
            assert recipe_for(data, **network, **chosen).no_pool == ""

    def test_small_images_on_a_gpu_fall_back_to_the_default_of_a_cpu(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        y = torch.tensor([0] * 30 + [1] * 10 + [-1] * 500)

        def images(channels: int, side: int) -> SemiData:
            return SemiData(torch.zeros(540, channels, side, side, dtype=torch.uint8), y)

        on_cpu = [recipe_for(images(channels, 28), seed=3) for channels in (1, 3)]
        cuda = torch.device("cuda")
        monkeypatch.setattr(SemiData, "device", property(lambda _: cuda))
        monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: True)
        for channels, expected in zip((1, 3), on_cpu, strict=True):
            strong = recipe_for(images(channels, 28), seed=3)
            assert type(strong.surrogate).__name__ == "SoftMatch"
            assert strong.surrogate.prior == pytest.approx([31 / 42, 11 / 42])
            found = strong.otherwise
            assert found is not None
            assert not found.strong
            assert found.model == expected.model
            assert found.plan == replace(expected.plan, compile="off")
            assert (found.networks, found.teachers) == (expected.networks, expected.teachers)
            assert found.symmetries is None
        assert recipe_for(images(3, 64)).otherwise is None  # it would reduce them
        assert recipe_for(images(1, 28), model=lambda: nn.Flatten()).otherwise is None

    def test_the_views_of_images_never_flip_and_standardise(self) -> None:
        x = torch.randint(256, (30, 1, 8, 8), dtype=torch.uint8)
        recipe = recipe_for(SemiData(x, torch.arange(30) % 2), surrogate="fixmatch")
        assert not recipe.surrogate.weak.flip
        assert not recipe.surrogate.strong.weak.flip
        plain = (x.float() / 255 - recipe.scaling.mean) / recipe.scaling.std
        assert torch.allclose(recipe.transform(x), plain)

    def test_what_the_user_says_is_taken(self) -> None:
        data = SemiData(torch.rand(40, 3), [0, 1] * 10 + [-1] * 20)
        own = Entropy()
        recipe = recipe_for(data, surrogate=own, risk="ssl", lam=0.3, steps=7, seed=5)
        assert recipe.surrogate is own
        plan = recipe.plan
        assert (plan.risk, plan.lam, plan.steps, plan.seed) == ("ssl", 0.3, 7, 5)
        assert isinstance(recipe_for(data, model=lambda: nn.Linear(3, 2)).model(), nn.Linear)

    def test_copies_of_rows_do_not_make_it_longer(self) -> None:
        x, y = torch.rand(150, 3), torch.arange(150) % 3 - 1
        few, many = SemiData(x, y), SemiData(x.repeat(10, 1), y.repeat(10))
        assert recipe_for(many, copies=10).plan == recipe_for(few).plan
        assert recipe_for(many).plan != recipe_for(few).plan
        with pytest.raises(ValueError, match="copies must be at least 1; got 0"):
            recipe_for(few, copies=0)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"surrogate": "pseudo"}, "surrogate must be one of 'entropy'"),
            (
                {"surrogate": "teacher"},
                r"'teacher' has no default .*dessl.SURROGATES\['teacher'\]",
            ),
            ({"lam": -1.0}, r"lam must lie in \[0"),
            ({"model": nn.Linear(3, 2)}, "a function that builds a network"),
            ({"model": "mpl"}, "model must be one of"),
            ({"networks": 6}, "networks must be between 1 and 5"),
        ],
    )
    def test_what_cannot_be_is_refused(self, options: dict, message: str) -> None:
        data = SemiData(torch.rand(40, 3), torch.arange(40) % 2)
        with pytest.raises((ValueError, TypeError), match=message):
            recipe_for(data, **options)

    def test_rows_without_a_default_network(self) -> None:
        data = SemiData(torch.rand(40, 3, 5), torch.arange(40) % 2)
        with pytest.raises(ValueError, match="Pass model="):
            recipe_for(data)

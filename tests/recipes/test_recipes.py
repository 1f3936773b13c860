"""Recipes: what is chosen for which data, honest folds, and a fall back that really falls back."""

import copy
import dataclasses
import math

import numpy as np
import pytest
import torch
from scipy import stats
from threadpoolctl import threadpool_info
from torch import nn
from torch.nn import functional as F

from dessl import SemiData, draw_labels
from dessl.augment import Weak
from dessl.data import load
from dessl.models import MLP, LeNet
from dessl.recipes import Predictor, fit, recipe_for
from dessl.recipes.held_out import (
    fold_data,
    fold_numbers,
    held_out_check,
    held_out_lambda,
    held_out_parts,
    losses_and_h,
)
from dessl.recipes.scaling import scaling_of, standardised_data
from dessl.surrogates import Combine, Entropy, FixMatch, PseudoLabel
from dessl.theory import optimal_lambda


def blobs(n: int, n_labelled: int, seed: int = 0) -> tuple[SemiData, torch.Tensor, torch.Tensor]:
    """Two overlapping classes, of which few rows have a label, and 500 rows to test on."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(n + 500) % 2
    x = torch.randn(n + 500, 3, generator=generator) + 1.5 * y[:, None]
    few = torch.where(torch.arange(n) < n_labelled, y[:n], -1)
    return SemiData(x[:n], few), x[n:], y[n:]


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


class TestFolds:
    def test_each_label_is_held_out_once_and_classes_are_spread(self) -> None:
        y = torch.tensor([0] * 30 + [1] * 20)
        folds = fold_numbers(y, torch.arange(50), seed=3)
        for fold in range(5):
            assert y[folds == fold].bincount().tolist() == [6, 4]

    def test_copies_of_a_row_share_a_fold(self) -> None:
        groups = torch.arange(20).repeat_interleave(3)
        folds = fold_numbers(torch.arange(20).repeat_interleave(3) % 2, groups, seed=0)
        assert all(len(folds[groups == group].unique()) == 1 for group in range(20))

    def test_too_few_labels_are_all_trained_on(self) -> None:
        assert fold_numbers(torch.tensor([0, 1] * 4), torch.arange(8), seed=0).tolist() == [-1] * 8

    @pytest.mark.parametrize("n_classes", range(2, 13))
    @pytest.mark.parametrize("seed", range(3))
    def test_no_fold_is_empty_or_holds_a_class_with_one_label(
        self, n_classes: int, seed: int
    ) -> None:
        more = torch.randint(n_classes, (12,), generator=torch.Generator().manual_seed(seed))
        y = torch.cat([torch.arange(n_classes), more[: max(0, 12 - n_classes)]])
        folds = fold_numbers(y, torch.arange(12), seed)
        several = y.bincount()[y] > 1
        if several.sum() < 5:
            assert (folds == -1).all()
        else:
            assert torch.equal(folds >= 0, several)
            assert set(folds[several].tolist()) == set(range(5))

    def test_a_fold_leaves_both_the_loss_and_the_unlabelled_rows(self) -> None:
        data, _, _ = blobs(60, 20)
        folds = fold_numbers(data.y[data.labelled_rows], torch.arange(20), seed=0)
        part = fold_data(data, folds, 2)
        assert part.n_labelled == 16
        assert part.n_unlabelled == 40
        rows = torch.cat([part.labelled_rows, part.validation_rows, part.unlabelled_rows])
        assert sorted(rows.tolist()) == list(range(60))


class TestHeldOut:
    def test_the_check_is_a_paired_mean_with_its_error(self) -> None:
        a, b = torch.rand(30), torch.rand(30)
        check = held_out_check(a, b)
        difference = (b - a).double().numpy()
        assert check.difference == pytest.approx(difference.mean())
        assert check.standard_error == pytest.approx(difference.std(ddof=1) / math.sqrt(30))
        assert not held_out_check(a, a).helped
        assert held_out_check(a, a - 0.5 - 0.1 * b).helped
        noise = (b - b.mean()).double()
        error = float(noise.std()) / math.sqrt(30)
        assert not held_out_check(a.double(), a.double() + noise - 0.9 * error).helped
        assert held_out_check(a.double(), a.double() + noise - 1.1 * error).helped

    def test_lambda_is_the_slope_times_the_share_of_unlabelled_rows(self) -> None:
        data, _, _ = blobs(100, 25)
        h = torch.rand(200, generator=torch.Generator().manual_seed(1))
        noise = 1e-3 * torch.randn(200, generator=torch.Generator().manual_seed(2))
        estimate = held_out_lambda(0.4 * h + noise, h, data, math.inf)
        assert estimate.lam == pytest.approx(0.4 * 75 / 100, rel=0.01)
        assert held_out_lambda(-0.4 * h + noise, h, data, math.inf).lam == 0
        assert held_out_lambda(h[:2], h[:2], data, math.inf) is None

    def test_the_estimate_is_that_of_the_rows_to_train_on(self) -> None:
        generator = torch.Generator().manual_seed(0)
        h = torch.randn(200, generator=generator)
        loss = 0.5 * h + 0.3 * torch.randn(200, generator=generator)
        data, _, _ = blobs(500, 50)
        found = held_out_lambda(loss, h, data, math.inf)
        # An independent sample of nine times as many rows: only its size matters to the slope.
        wanted = optimal_lambda(loss, h, torch.randn(1800, generator=generator))
        assert found[:-1] == pytest.approx(wanted[:-1])
        assert found.range == pytest.approx(wanted.range)
        half, _, _ = blobs(500, 250)
        assert held_out_lambda(loss, h, half, math.inf).variance_ratio > found.variance_ratio

    def test_the_variance_ratio_is_that_of_simulated_risks(self) -> None:
        generator = torch.Generator().manual_seed(0)
        n_l, n_u, runs = 20, 60, 20000

        def drawn(*shape: int) -> tuple[torch.Tensor, torch.Tensor]:
            h = torch.randn(*shape, generator=generator)
            return h, 0.5 * h + 0.3 * torch.randn(*shape, generator=generator)

        h, loss = drawn(20000)
        data, _, _ = blobs(n_l + n_u, n_l)
        found = held_out_lambda(loss, h, data, math.inf)
        h, loss = drawn(runs, n_l)
        h_u, _ = drawn(runs, n_u)
        risks = loss.mean(1) + found.lam * (h_u.mean(1) - h.mean(1))
        ratio = float(risks.var() / loss.mean(1).var())
        assert found.variance_ratio == pytest.approx(ratio, rel=0.03)

    def test_copies_of_a_row_are_one_label(self) -> None:
        first, second = torch.rand(2, 30, generator=torch.Generator().manual_seed(0))
        plain, groups = held_out_check(first, second), torch.randperm(30)
        assert held_out_check(first, second, groups) == plain  # to the last digit
        copied = held_out_check(*(loss.repeat_interleave(10) for loss in (first, second)),
                                groups.repeat_interleave(10))  # fmt: skip
        assert copied.n == 30
        assert dataclasses.astuple(copied) == pytest.approx(dataclasses.astuple(plain))
        alone = held_out_check(first[:1].repeat(9), second[:1].repeat(9), torch.zeros(9))
        assert (alone.n, alone.standard_error) == (1, math.inf)

    def test_the_weighted_mean_has_the_error_that_simulation_finds(self) -> None:
        generator = torch.Generator().manual_seed(0)
        sizes = torch.randint(1, 9, (60,), generator=generator)
        groups = torch.arange(60).repeat_interleave(sizes)
        checks = []
        for _ in range(3000):
            difference = torch.randn(60, generator=generator, dtype=torch.float64)
            checks.append(held_out_check(torch.zeros(len(groups)), difference[groups], groups))
        d, w = difference.numpy(), sizes.numpy()
        mean = np.average(d, weights=w)
        wanted = math.sqrt(60 / 59 * ((w * (d - mean)) ** 2).sum()) / w.sum()
        assert checks[-1].difference == pytest.approx(mean)
        assert checks[-1].standard_error == pytest.approx(wanted)
        spread = np.std([check.difference for check in checks])
        errors = [check.standard_error**2 for check in checks]
        assert math.sqrt(np.mean(errors)) == pytest.approx(spread, rel=0.04)

    def test_the_error_of_lambda_counts_copies_once(self) -> None:
        generator = torch.Generator().manual_seed(0)
        data, _, _ = blobs(100, 25)
        h = torch.rand(40, generator=generator)
        loss = 0.4 * h + 0.2 * torch.randn(40, generator=generator)
        plain, groups = held_out_lambda(loss, h, data, math.inf), torch.randperm(40)
        assert held_out_lambda(loss, h, data, math.inf, groups) == plain
        ten = (rows.repeat_interleave(10) for rows in (loss, h))
        copied = held_out_lambda(*ten, data, math.inf, groups.repeat_interleave(10))
        assert copied[:-1] == pytest.approx(plain[:-1])
        few = torch.arange(20) // 10
        assert held_out_lambda(loss[:20], h[:20], data, math.inf, few) is None

    def test_the_weighted_slope_has_the_error_that_simulation_finds(self) -> None:
        generator = torch.Generator().manual_seed(0)
        data, _, _ = blobs(100, 25)
        sizes = torch.randint(1, 9, (60,), generator=generator)
        groups, h = torch.arange(60).repeat_interleave(sizes), torch.rand(60, generator=generator)
        found = []
        for _ in range(2000):
            loss = 0.5 * h + 0.1 * torch.randn(60, generator=generator)
            found.append(held_out_lambda(loss[groups], h[groups], data, math.inf, groups))
        spread = np.std([estimate.lam for estimate in found])
        errors = [estimate.standard_error**2 for estimate in found]
        assert math.sqrt(np.mean(errors)) == pytest.approx(spread, rel=0.05)

    @pytest.mark.parametrize("n", [2, 9, 400])
    def test_the_comparison_is_a_paired_t_test(self, n: int) -> None:
        first, second = torch.rand(2, n, generator=torch.Generator().manual_seed(n))
        found = held_out_check(first, second).comparison
        test = stats.ttest_rel(second.double(), first.double())
        assert (found.low, found.high) == pytest.approx(tuple(test.confidence_interval()))
        assert found.p_value == pytest.approx(test.pvalue)
        assert found.n == n
        worse = held_out_check(first, first + 1 + 0.01 * second).comparison
        assert worse.outcome() == "worse"

    def test_equal_losses_make_no_difference_and_one_label_no_interval(self) -> None:
        losses = torch.rand(9)
        same = held_out_check(losses, losses).comparison
        assert (same.outcome(), same.p_value) == ("no practical difference", 1.0)
        alone = held_out_check(losses[:1], losses[:1] + 1).comparison
        assert alone.outcome() == "cannot tell yet"
        assert math.isnan(alone.low)

    def test_many_rows_are_looked_at_in_turn(self) -> None:
        data, x, y = blobs(100, 25)
        x, y = x.repeat(3, 1)[:1203], y.repeat(3)[:1203]
        sizes: list[int] = []
        torch.manual_seed(0)
        model = nn.Linear(3, 2)
        model.register_forward_hook(lambda _, rows, __: sizes.append(len(rows[0])))
        part = SemiData(data.x, data.y, validation=(x, y))
        loss, h = losses_and_h([model, model], Entropy(), [part, part])
        assert max(sizes) <= 512
        log_p = model(x).log_softmax(1).double()
        assert torch.allclose(loss, F.nll_loss(log_p, y, reduction="none").float().repeat(2))
        assert torch.allclose(h, -(log_p.exp() * log_p).sum(1).float().repeat(2))


class TestPredictor:
    def test_the_mean_is_of_log_probabilities_of_standardised_rows(self) -> None:
        torch.manual_seed(0)
        members, mean, std = [nn.Linear(3, 4) for _ in range(3)], torch.rand(3), torch.rand(3) + 1
        x = torch.randn(5, 3)
        with torch.no_grad():
            found = Predictor(members, mean, std)(x)
            each = [F.softmax(m((x - mean) / std), dim=1).double().numpy() for m in members]
        product = np.prod(each, axis=0) ** (1 / 3)
        assert np.allclose(found.exp().numpy(), product / product.sum(1, keepdims=True), atol=1e-6)

    def test_nobody_is_refused(self) -> None:
        with pytest.raises(ValueError, match="at least one member"):
            Predictor([], torch.zeros(()), torch.ones(()))


class TestFit:
    def test_a_given_lambda_is_used_and_judged(self) -> None:
        data, x, y = blobs(200, 30)
        fitted = fit(data, recipe_for(data, lam=0.5, steps=60), progress=False)
        assert fitted.lam == 0.5
        assert fitted.used_unlabelled
        assert fitted.check.n == 30
        assert len(fitted.results) == len(fitted.complete_results) == 5
        assert (fitted.model(x).argmax(1) == y).float().mean() > 0.85
        assert not torch.equal(fitted.model(x), fitted.complete_case(x))
        assert "n = 30;" in fitted.verdict.sentence

    def test_auto_falls_back_where_the_unlabelled_rows_hurt(self) -> None:
        data, x, _ = blobs(200, 30)
        # An H that pulls all rows to one class; the usual risk keeps that bias.
        recipe = recipe_for(
            data, surrogate=lambda logits: 20 * F.softplus(logits[:, 1] - logits[:, 0]), steps=60
        )
        recipe = dataclasses.replace(recipe, plan=dataclasses.replace(recipe.plan, risk="ssl"))
        fitted = fit(data, recipe, progress=False)
        assert fitted.lam == 0
        assert fitted.check.difference > 0
        assert torch.equal(fitted.model(x), fitted.complete_case(x))
        assert fitted.verdict.outcome == "not used"

    def test_each_network_begins_with_weights_of_its_own_and_its_twin_with_the_same(self) -> None:
        data, _, _ = blobs(60, 20)
        first: list[float] = []

        def network() -> nn.Module:
            model = nn.Linear(3, 2)
            first.append(model.weight.sum().item())
            return model

        fit(data, recipe_for(data, steps=2, lam=0.5, model=network), progress=False)
        assert len(set(first[-5:])) == 5
        assert first[-10:-5] == first[-5:]

    def test_a_seed_gives_the_same_model(self) -> None:
        data, x, _ = blobs(100, 20)
        found = [fit(data, recipe_for(data, steps=20, seed=4), progress=False) for _ in range(2)]
        assert torch.equal(found[0].model(x), found[1].model(x))

    def test_few_labels_train_one_network_on_all_of_them(self) -> None:
        data, _, _ = blobs(60, 6)
        fitted = fit(data, recipe_for(data, steps=20), progress=False)
        assert len(fitted.results) == 1
        assert fitted.lam == 0
        assert fitted.model is fitted.complete_case
        assert "No pool was made" in fitted.verdict.sentence
        debiased = fit(data, recipe_for(data, steps=20, teachers=None), progress=False)
        assert "no labels were held out" in debiased.verdict.sentence

    @pytest.mark.parametrize("n_classes", [7, 10])
    def test_twelve_labels_of_many_classes(self, n_classes: int) -> None:
        """Some classes have one label: it cannot be held out."""
        generator = torch.Generator().manual_seed(2)
        few = torch.cat([torch.arange(n_classes), torch.arange(12 - n_classes)])
        x = torch.randn(60, 3, generator=generator)
        data = SemiData(x, torch.cat([few, torch.full((48,), -1)]))
        fitted = fit(data, recipe_for(data, steps=5, teachers=None), progress=False)
        held_out = 2 * (12 - n_classes)
        assert len(fitted.results) == (5 if held_out >= 5 else 1)
        told = f"{held_out} held-out labels" if held_out >= 5 else "no labels were held out"
        assert told in fitted.verdict.sentence

    def test_a_lambda_of_zero_is_told_apart_from_labels_that_are_too_few(self) -> None:
        data, _, _ = blobs(60, 20)
        asked = fit(data, recipe_for(data, lam=0, steps=5, networks=1), progress=False)
        assert asked.verdict.outcome == "not used"
        assert "as λ = 0 asks" in asked.verdict.sentence
        debiased = fit(data, recipe_for(data, surrogate="vat", steps=5, networks=1), progress=False)
        assert "not bounded below at any λ above 0" in debiased.verdict.sentence
        assert debiased.lam == 0
        usual = recipe_for(
            data, surrogate="vat", risk="ssl", steps=5, networks=1
        )  # it subtracts no H
        assert "4 held-out labels" in fit(data, usual, progress=False).verdict.sentence

    def test_numbers_of_numpy_are_as_good(self) -> None:
        data, x, _ = blobs(60, 20)
        plain = fit(data, recipe_for(data, steps=6, lam=0.5, networks=1), progress=False)
        recipe = recipe_for(data, steps=np.int64(6), lam=np.float32(0.5), networks=1)
        numpy = fit(data, recipe, progress=False)
        assert torch.equal(plain.model(x), numpy.model(x))
        assert [event.as_line() for event in numpy.results[0].history]
        with pytest.raises(TypeError, match="steps must be a whole number; got str"):
            recipe_for(data, steps="10")
        with pytest.raises(ValueError, match="lam must be a number or 'auto'; got 'Auto'"):
            recipe_for(data, lam="Auto")

    def test_a_network_for_other_classes_is_refused_before_it_is_trained(self) -> None:
        data, _, _ = blobs(60, 20)
        state = torch.get_rng_state()
        with pytest.raises(
            ValueError, match=r"each of the 2 classes, shape \(n, 2\); got \(2, 5\)"
        ):
            fit(data, recipe_for(data, model=lambda: nn.Linear(3, 5)), progress=False)
        assert torch.equal(torch.get_rng_state(), state)

    @pytest.mark.parametrize(
        "surrogate",
        [
            PseudoLabel(),
            PseudoLabel(view=Weak(mean=0.5, std=0.2)),
            FixMatch(weak=Weak(mean=[0.1], std=[0.2]), strong=Weak(mean=0.1, std=0.2)),
            Combine([Entropy(view=Weak(mean=0.3))]),
            lambda logits: logits.square().sum(-1),
            "entropy",
        ],
    )
    def test_a_network_predicts_from_images_as_it_saw_them_in_training(
        self, surrogate: object
    ) -> None:
        seen: dict[bool, set[float]] = {True: set(), False: set()}  # in training, and afterwards

        class Recorder(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.last = nn.Linear(16, 2)

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                seen[self.training].update(round(level, 4) for level in x.unique().tolist())
                return self.last(x.flatten(1))

        y = torch.arange(24) % 2
        images = (51 + 102 * y.to(torch.uint8)).view(-1, 1, 1, 1).repeat(1, 1, 4, 4)  # flat
        data = SemiData(images, torch.where(torch.arange(24) < 12, y, -1))
        recipe = recipe_for(data, surrogate=surrogate, lam=0.5, steps=3, model=Recorder)
        fitted = fit(data, recipe, progress=False)
        fitted.model(images)
        assert seen[True] == seen[False]
        assert len(seen[True]) == 2

    @pytest.mark.parametrize("shape", [(3,), (60,), (20, 2)])
    def test_groups_are_of_the_labelled_rows(self, shape: tuple[int, ...]) -> None:
        data, _, _ = blobs(60, 20)
        with pytest.raises(ValueError, match=r"each of the 20 labelled rows, shape \(20,\); got"):
            fit(data, recipe_for(data, steps=2), groups=torch.zeros(shape), progress=False)

    @pytest.mark.parametrize("members", [1, 5])
    def test_a_group_is_one_held_out_label(self, members: int) -> None:
        data, _, _ = blobs(60, 20)
        rows = torch.cat([torch.arange(20).repeat(3), torch.arange(20, 60)])
        copied = SemiData(data.x[rows], data.y[rows])
        recipe = recipe_for(copied, steps=2, networks=members, teachers=None)
        groups = torch.arange(20).repeat(3) * 7
        parts = held_out_parts(copied, groups, members=members, seed=0)
        held_out = torch.cat([part.validation.x for part in parts.data])
        assert torch.equal(held_out, data.x[parts.groups // 7])
        fitted = fit(copied, recipe, groups=groups, progress=False)
        assert fitted.check.n == 20 * members / 5
        assert fitted.estimate is not None

    def test_a_validation_part_takes_the_place_of_the_folds(self) -> None:
        data, x, y = blobs(100, 20)
        with_part = SemiData(data.x, data.y, validation=(x[:50], y[:50]))
        fitted = fit(with_part, recipe_for(with_part, lam=0.5, steps=20), progress=False)
        assert fitted.check.n == 50
        assert len(fitted.results) == 1

    @pytest.mark.slow
    def test_images_with_their_own_views(self) -> None:
        data = load("digits")
        draw = draw_labels(data.y, 60, generator=torch.Generator().manual_seed(0))
        data = data.with_labels(draw)
        for members, held_out in ((1, 12), (None, 60)):  # a fifth of the labels, or each of them
            recipe = recipe_for(
                data, surrogate=PseudoLabel(0.9), lam=0.5, steps=10, networks=members
            )
            fitted = fit(data, recipe, progress=False)
            assert fitted.model(data.test.x).shape == (360, 10)
            assert fitted.check.n == held_out

    def test_five_networks_where_they_cost_little(self) -> None:
        grey, colour = 1, 3
        for channels, side, members, steps in (
            (grey, 8, 5, 600),
            (grey, 32, 5, 600),
            (grey, 33, 1, 200),
            (colour, 16, 5, 600),
            (colour, 17, 1, 200),
        ):
            images = torch.zeros(40, channels, side, side, dtype=torch.uint8)
            recipe = recipe_for(SemiData(images, torch.arange(40) % 2, layout="NCHW"))
            assert (recipe.networks, recipe.plan.steps) == (members, steps)
            assert recipe.plan.evaluate_every == steps // 20

    def test_a_run_can_be_gone_on_with(self, tmp_path) -> None:
        data, x, _ = blobs(100, 20)
        recipe = recipe_for(data, steps=20, lam=0.5)
        first = fit(data, recipe, out=tmp_path, progress=False)
        again = fit(data, recipe, out=tmp_path, progress=False)
        assert sorted(path.name for path in tmp_path.iterdir())[:2] == [
            "complete_case-0",
            "complete_case-1",
        ]
        assert torch.equal(first.model(x), again.model(x))


def by_class(n: int = 900) -> tuple[SemiData, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(0, 3, (n,), generator=generator)
    x = torch.randn(n, 3, generator=generator)
    x[:, 0] += 2.0 * y
    x[:, 1] += 2.0 * (y == 1)
    phi = torch.tensor([0.4, 0.1, 0.05])[y]
    labelled = torch.rand(n, generator=generator) < phi
    return SemiData(x, torch.where(labelled, y, -1), propensity=phi), y


def test_labels_missing_by_class_are_weighed_with_or_without_h() -> None:
    data, y = by_class()
    plain = copy.copy(data)
    plain.propensity = None
    recipes = [recipe_for(one, surrogate="entropy", lam=0, steps=60, networks=2)
               for one in (plain, data)]  # fmt: skip
    first, second = (
        fit(one, recipe, progress=False) for one, recipe in zip((plain, data), recipes, strict=True)
    )
    accuracy = [float((one.model(data.x).argmax(1) == y).float().mean()) for one in (first, second)]
    assert accuracy[1] > accuracy[0] + 0.01
    assert second.complete_results[0].plan.risk == "inverse_propensity"
    assert recipe_for(data).teachers == ()  # a pool would not weigh them
    chosen = fit(data, recipe_for(data, steps=30, networks=2), progress=False)
    assert chosen.check is not None
    assert chosen.estimate is not None
    assert 0 <= chosen.estimate.lam <= 1


def test_held_out_rows_weigh_as_rows_of_the_data() -> None:
    generator = torch.Generator().manual_seed(2)
    first, second = torch.rand(2, 30, generator=generator).double()
    chance = torch.rand(30, generator=generator).double() / 2 + 0.1
    check = held_out_check(first, second, propensity=chance)
    w = 1 / chance
    mean = float((w * (second - first)).sum() / w.sum())
    assert check.difference == pytest.approx(mean)
    rest = (w * (second - first - mean)).square().sum()
    assert check.standard_error == pytest.approx(float((30 / 29 * rest).sqrt() / w.sum()))
    same = held_out_check(first, second, propensity=torch.ones(30))
    plain = held_out_check(first, second)
    assert same.standard_error == pytest.approx(plain.standard_error)


def test_a_fold_leaves_out_as_many_rows_of_both_kinds() -> None:
    data, _ = by_class()
    parts = held_out_parts(data, None, members=5, seed=0).data
    for part in parts:
        assert part.n_labelled == pytest.approx(0.8 * data.n_labelled, abs=2)
        assert part.n_unlabelled == pytest.approx(0.8 * data.n_unlabelled, abs=1)


def test_a_table_is_fitted_in_one_thread_and_leaves_the_others_as_they_were() -> None:
    x = torch.randn(60, 3, generator=torch.Generator().manual_seed(0))
    data = SemiData(x, torch.where(torch.arange(60) < 20, (x[:, 0] > 0).long(), -1))
    before, seen = torch.get_num_threads(), []

    def look(_: object) -> None:
        seen.extend([torch.get_num_threads(), *blas_threads()])

    torch.set_num_threads(2)
    try:
        blas = blas_threads()
        fit(data, recipe_for(data, steps=2, networks=2), callbacks=[look])
        assert torch.get_num_threads() == 2
        assert blas_threads() == blas
    finally:
        torch.set_num_threads(before)
    assert set(seen) == {1}


def blas_threads() -> list[int]:
    return [one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"]


def test_a_lam_that_held_out_labels_show_to_be_worse_is_left_out_unless_asked_for() -> None:
    data, _, _ = blobs(300, 60)

    def misleading(logits: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(logits, torch.zeros(len(logits)).long(), reduction="none")

    found = {
        safe: fit(
            data,
            recipe_for(data, surrogate=misleading, risk="ssl", lam=20.0, steps=60, safe=safe),
            progress=False,
        )
        for safe in (True, False)
    }
    assert found[True].lam == 0
    assert found[True].model is found[True].complete_case
    assert found[True].verdict.outcome == "not used"
    assert "The λ of 20 was left out for the complete case" in found[True].account
    assert found[False].lam == 20
    assert found[False].verdict.outcome == "worse"

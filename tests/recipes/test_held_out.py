"""Honest folds, and what held-out labels say."""

import dataclasses
import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn
from torch.nn import functional as F

from dessl import SemiData
from dessl.recipes.held_out import (
    fold_data,
    fold_numbers,
    held_out_check,
    held_out_lambda,
    held_out_parts,
    losses_and_h,
)
from dessl.surrogates import Entropy
from dessl.theory import optimal_lambda


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

    def test_a_fold_leaves_both_the_loss_and_the_unlabelled_rows(self, blobs: Callable) -> None:
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

    def test_lambda_is_the_slope_times_the_share_of_unlabelled_rows(self, blobs: Callable) -> None:
        data, _, _ = blobs(100, 25)
        h = torch.rand(200, generator=torch.Generator().manual_seed(1))
        noise = 1e-3 * torch.randn(200, generator=torch.Generator().manual_seed(2))
        estimate = held_out_lambda(0.4 * h + noise, h, data, math.inf)
        assert estimate.lam == pytest.approx(0.4 * 75 / 100, rel=0.01)
        assert held_out_lambda(-0.4 * h + noise, h, data, math.inf).lam == 0
        assert held_out_lambda(h[:2], h[:2], data, math.inf) is None

    def test_an_h_that_differs_by_rounding_alone_has_no_lambda(self, blobs: Callable) -> None:
        data, _, _ = blobs(100, 25)
        loss = torch.tensor([0.5, 1.0, 1.5, 1.0] * 10)
        h = 1.2322 + 2.4e-7 * loss  # one prediction for all rows
        assert len(h.unique()) > 1
        found = held_out_lambda(loss, h, data, 1.0)
        assert (found.lam, found.correlation) == (0, 0)

    def test_the_estimate_is_that_of_the_rows_to_train_on(self, blobs: Callable) -> None:
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

    def test_the_variance_ratio_is_that_of_simulated_risks(self, blobs: Callable) -> None:
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

    def test_the_error_of_lambda_counts_copies_once(self, blobs: Callable) -> None:
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

    def test_the_weighted_slope_has_the_error_that_simulation_finds(self, blobs: Callable) -> None:
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

    def test_many_rows_are_looked_at_in_turn(self, blobs: Callable) -> None:
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


def test_a_fold_leaves_out_as_many_rows_of_both_kinds(by_class: Callable) -> None:
    data, _ = by_class()
    parts = held_out_parts(data, None, members=5, seed=0).data
    for part in parts:
        assert part.n_labelled == pytest.approx(0.8 * data.n_labelled, abs=2)
        assert part.n_unlabelled == pytest.approx(0.8 * data.n_unlabelled, abs=1)

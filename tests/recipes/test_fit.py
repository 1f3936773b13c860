"""A fit keeps what held-out labels prefer, and falls back to the complete case."""

import copy
import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info
from torch import nn
from torch.nn import functional as F

from dessl import SemiData, draw_labels
from dessl.augment import Weak
from dessl.data import load
from dessl.recipes import fit, recipe_for
from dessl.recipes.held_out import held_out_parts
from dessl.surrogates import Combine, Entropy, FixMatch, PseudoLabel
from dessl.teachers import DEFAULT


class TestFit:
    def test_a_given_lambda_is_used_and_judged(self, blobs: Callable) -> None:
        data, x, y = blobs(200, 30)
        fitted = fit(data, recipe_for(data, lam=0.5, steps=60), progress=False)
        assert fitted.lam == 0.5
        assert fitted.used_unlabelled
        assert fitted.check.n == 30
        assert len(fitted.results) == len(fitted.complete_results) == 5
        assert (fitted.model(x).argmax(1) == y).float().mean() > 0.85
        assert not torch.equal(fitted.model(x), fitted.complete_case(x))
        assert "30 labels held out in training;" in fitted.verdict.sentence

    def test_auto_falls_back_where_the_unlabelled_rows_hurt(self, blobs: Callable) -> None:
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

    def test_a_term_that_does_not_help_gives_way_to_another_recipe(
        self, blobs: Callable, tmp_path: Path
    ) -> None:
        data, x, _ = blobs(200, 30)
        other = recipe_for(data, steps=40)
        harmful = recipe_for(
            data, surrogate=lambda logits: 20 * F.softplus(logits[:, 1] - logits[:, 0]), steps=40
        )
        plan = dataclasses.replace(harmful.plan, risk="ssl")
        harmful = dataclasses.replace(harmful, plan=plan, otherwise=other)
        fitted = fit(data, harmful, out=tmp_path, progress=False)
        alone = fit(data, other, progress=False)
        assert torch.equal(fitted.model(x), alone.model(x))
        assert torch.equal(fitted.complete_case(x), alone.complete_case(x))
        assert (fitted.recipe, fitted.pool) == (other, alone.pool)
        assert fitted.tried is not None
        assert fitted.tried.check.difference > 0
        assert "was tried first. It changed the cross-entropy on 30 held-out" in fitted.account
        assert fitted.account.endswith(alone.account)
        again = fit(data, harmful, out=tmp_path, progress=False)  # resumed from both folders
        assert torch.equal(again.model(x), fitted.model(x))

    def test_a_term_that_helps_does_not(self, blobs: Callable) -> None:
        data, x, _ = blobs(200, 30)
        recipe = recipe_for(data, lam=0.5, steps=40)
        both = dataclasses.replace(recipe, otherwise=recipe_for(data))
        fitted = fit(data, both, progress=False)
        assert (fitted.tried, fitted.lam) == (None, 0.5)
        assert torch.equal(fitted.model(x), fit(data, recipe, progress=False).model(x))

    def test_without_labels_to_hold_out_the_other_recipe_is_fitted(self, blobs: Callable) -> None:
        data, _, _ = blobs(200, 6)
        recipe = recipe_for(data, surrogate="entropy", steps=20)
        fitted = fit(
            data,
            dataclasses.replace(recipe, otherwise=recipe_for(data, steps=20)),
            progress=False,
        )
        assert fitted.account.startswith("Without held-out labels to check it, DeEntropy was not")

    def test_each_network_begins_with_weights_of_its_own_and_its_twin_with_the_same(
        self, blobs: Callable
    ) -> None:
        data, _, _ = blobs(60, 20)
        first: list[float] = []

        def network() -> nn.Module:
            model = nn.Linear(3, 2)
            first.append(model.weight.sum().item())
            return model

        fit(data, recipe_for(data, steps=2, lam=0.5, model=network), progress=False)
        assert len(set(first[-5:])) == 5
        assert first[-10:-5] == first[-5:]

    def test_a_seed_gives_the_same_model(self, blobs: Callable) -> None:
        data, x, _ = blobs(100, 20)
        found = [fit(data, recipe_for(data, steps=20, seed=4), progress=False) for _ in range(2)]
        assert torch.equal(found[0].model(x), found[1].model(x))

    def test_few_labels_train_one_network_on_all_of_them(self, blobs: Callable) -> None:
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

    def test_a_lambda_of_zero_is_told_apart_from_labels_that_are_too_few(
        self, blobs: Callable
    ) -> None:
        data, _, _ = blobs(60, 20)
        asked = fit(data, recipe_for(data, lam=0, steps=5, networks=1), progress=False)
        assert asked.verdict.outcome == "not used"
        assert "because λ = 0" in asked.verdict.sentence
        debiased = fit(data, recipe_for(data, surrogate="vat", steps=5, networks=1), progress=False)
        assert "not bounded below for any λ > 0" in debiased.verdict.sentence
        assert debiased.lam == 0
        usual = recipe_for(
            data, surrogate="vat", risk="ssl", steps=5, networks=1
        )  # it subtracts no H
        assert "4 held-out labels" in fit(data, usual, progress=False).verdict.sentence

    def test_numbers_of_numpy_are_as_good(self, blobs: Callable) -> None:
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

    def test_a_network_for_other_classes_is_refused_before_it_is_trained(
        self, blobs: Callable
    ) -> None:
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
    def test_groups_are_of_the_labelled_rows(self, shape: tuple[int, ...], blobs: Callable) -> None:
        data, _, _ = blobs(60, 20)
        with pytest.raises(ValueError, match=r"each of the 20 labelled rows, shape \(20,\); got"):
            fit(data, recipe_for(data, steps=2), groups=torch.zeros(shape), progress=False)

    @pytest.mark.parametrize("members", [1, 5])
    def test_a_group_is_one_held_out_label(self, members: int, blobs: Callable) -> None:
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

    def test_a_validation_part_takes_the_place_of_the_folds(self, blobs: Callable) -> None:
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
            (grey, 33, 5, 600),  # reduced
            (colour, 16, 5, 600),
            (colour, 17, 1, 200),
            (colour, 64, 1, 200),
        ):
            images = torch.zeros(40, channels, side, side, dtype=torch.uint8)
            recipe = recipe_for(SemiData(images, torch.arange(40) % 2, layout="NCHW"))
            assert (recipe.networks, recipe.plan.steps) == (members, steps)
            assert recipe.plan.evaluate_every == steps // 20

    def test_a_run_can_be_gone_on_with(self, tmp_path, blobs: Callable) -> None:
        data, x, _ = blobs(100, 20)
        recipe = recipe_for(data, steps=20, lam=0.5)
        first = fit(data, recipe, out=tmp_path, progress=False)
        again = fit(data, recipe, out=tmp_path, progress=False)
        assert sorted(path.name for path in tmp_path.iterdir())[:2] == [
            "complete_case-0",
            "complete_case-1",
        ]
        assert torch.equal(first.model(x), again.model(x))


def test_labels_missing_by_class_are_weighed_with_or_without_h(by_class: Callable) -> None:
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
    assert (recipe_for(data).teachers, recipe_for(data).lam) == (DEFAULT, 0.0)
    assert recipe_for(data, teachers=[]).teachers == ()
    recipe = recipe_for(data, surrogate="pseudo_label", steps=30, networks=2)
    chosen = fit(data, recipe, progress=False)
    assert chosen.check is not None
    assert chosen.estimate is not None
    assert 0 <= chosen.estimate.lam <= 1


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


def test_a_lam_that_held_out_labels_show_to_be_worse_is_left_out_unless_asked_for(
    blobs: Callable,
) -> None:
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
    assert "The λ of 20 was dropped in favour of the complete case" in found[True].account
    assert found[False].lam == 20
    assert found[False].verdict.outcome == "worse"

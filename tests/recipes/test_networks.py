"""The pool by default: honest out-of-fold predictions, the same result again, and no pool when."""

import dataclasses
import importlib
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from sklearn.datasets import make_moons
from sklearn.naive_bayes import GaussianNB
from torch import Tensor, nn

from dessl import SemiData
from dessl.recipes import Fitted, PooledPredictor, fit, networks, recipe_for
from dessl.recipes.held_out import held_out_parts
from dessl.recipes.networks import CHECKPOINT_SECONDS, FILE
from dessl.recipes.predictor import predicted_log_proba
from dessl.recipes.scaling import standardised_data
from dessl.teachers import DEFAULT
from dessl.teachers.report import Gain
from dessl.training import Event, train


def moons(n: int = 400, n_labelled: int = 30) -> tuple[SemiData, Tensor, Tensor]:
    x, y = (torch.from_numpy(part) for part in make_moons(n + 500, noise=0.1, random_state=0))
    few = torch.where(torch.arange(n) < n_labelled, y[:n], -1)
    return SemiData(x[:n].float(), few), x[n:].float(), y[n:]


@pytest.fixture(scope="module")
def fitted() -> Fitted:
    data, _, _ = moons()
    return fit(data, recipe_for(data, steps=60), progress=False)


class TestChoice:
    def test_the_default_is_a_pool_around_the_complete_case(self) -> None:
        data, _, _ = moons()
        recipe = recipe_for(data)
        assert (recipe.teachers, recipe.plan.risk) == (DEFAULT, "complete_case")

    @pytest.mark.parametrize(
        "asked",
        [{"surrogate": "pseudo_label"}, {"lam": 0.5}, {"risk": "ssl"}, {"teachers": None}],
    )
    def test_what_is_asked_for_is_the_debiased_risk_alone(self, asked: dict) -> None:
        data, _, _ = moons()
        recipe = recipe_for(data, **asked)
        assert recipe.teachers == ()
        assert recipe.plan.risk == asked.get("risk", "debiased")

    def test_teachers_of_the_users_own(self) -> None:
        data, _, _ = moons()
        own = GaussianNB()
        recipe = recipe_for(data, teachers=["graph", own], lam=0.5)
        assert recipe.teachers == ("graph", own)
        assert recipe.plan.risk == "debiased"

    @pytest.mark.parametrize(
        ("shape", "dtype", "pooled"),
        [
            ((3, 32, 32), torch.uint8, True),
            ((1, 64, 64), torch.uint8, True),  # reduced
            ((4096,), torch.float32, True),
            ((4097,), torch.float32, False),
        ],
    )
    def test_what_is_too_large_has_none(
        self, shape: tuple[int, ...], dtype: torch.dtype, pooled: bool
    ) -> None:
        x = torch.rand(20, *shape).mul(255 if dtype == torch.uint8 else 1).to(dtype)
        assert bool(recipe_for(SemiData(x, torch.arange(20) % 2)).teachers) == pooled

    @pytest.mark.parametrize(
        ("teachers", "message"),
        [
            ("graph", "teachers must be 'auto', None or a list"),
            (["grph"], "teachers must be among 'graph'"),
            ([3], "a classifier with fit and predict_proba; got 3"),
            (GaussianNB(), "teachers must be a list such as"),
        ],
    )
    def test_what_cannot_teach_is_refused_before_training(
        self, teachers: object, message: str
    ) -> None:
        data, _, _ = moons()
        with pytest.raises((ValueError, TypeError), match=message):
            recipe_for(data, teachers=teachers)


class TestFit:
    def test_the_model_is_the_pool_and_better_than_the_complete_case(self, fitted: Fitted) -> None:
        _, x, y = moons()
        assert isinstance(fitted.model, PooledPredictor)
        assert fitted.used_unlabelled
        assert fitted.lam == 0
        pool, twin = (predicted_log_proba(m, x) for m in (fitted.model, fitted.complete_case))
        assert (pool.argmax(1) == y).float().mean() > 0.95
        right = (torch.arange(len(y)), y)
        assert pool[right].mean() > twin[right].mean()
        assert torch.allclose(pool.exp().sum(1), torch.ones(500, dtype=torch.float64))
        assert "30 held-out labels" in fitted.verdict.sentence

    def test_the_pool_is_the_weighted_sum_of_its_members(self, fitted: Fitted) -> None:
        _, x, _ = moons()
        pool = fitted.model.pool
        total = 0
        for name, weight in pool.weights.weights.items():
            if not weight:
                continue
            if name == "cc":
                own = predicted_log_proba(fitted.complete_case, x)
            else:
                own = pool.members[name].predict_log_proba(x)
            total = total + weight * pool.weights.exponents[name] * own.numpy()
        p = np.exp(total) / np.exp(total).sum(1, keepdims=True)
        assert predicted_log_proba(fitted.model, x).exp().numpy() == pytest.approx(p, abs=1e-6)

    def test_each_held_out_rows_step_is_chosen_by_the_other_rows(
        self, fitted: Fitted, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        data, _, _ = moons()
        recipe = recipe_for(data, steps=60)
        given: dict[str, Tensor] = {}

        def caught(_: object, folds: Tensor, oof: Tensor, *__: object, **___: object) -> object:
            given.update(folds=folds, oof=oof)
            return fitted.model.pool

        monkeypatch.setattr("dessl.recipes.networks.pooled", caught)
        fit(data, recipe, progress=False)
        seen = standardised_data(data, recipe.scaling)
        parts = held_out_parts(seen, None, members=5, seed=0)
        assert torch.equal(given["folds"], parts.folds)
        part, words, model = parts.data[2], [], []
        plan = dataclasses.replace(recipe.plan, lam=0.0, seed=recipe.plan.seed + 2)

        def build() -> nn.Module:
            model.append(recipe.model())
            return model[-1]

        def look(_: Event) -> None:
            with torch.no_grad():
                words.append(model[0].eval()(part.validation.x).double().log_softmax(1))
            model[0].train()

        train(build, recipe.surrogate, part, plan, callbacks=[look], progress=False)
        y = part.validation.y
        losses = torch.stack([-p[torch.arange(len(y)), y] for p in words])
        for row in range(len(y)):
            others = [k for k in range(len(y)) if k != row]
            step = int(losses[:, others].mean(1).argmin())
            found = given["oof"][parts.folds == 2][row]
            assert found.numpy() == pytest.approx(words[step][row].numpy(), abs=1e-6)

    def test_copies_of_a_row_do_not_judge_it(self) -> None:
        data, _, _ = moons(n_labelled=20)
        rows = torch.cat([torch.arange(20).repeat(3), torch.arange(20, 400)])
        copied = SemiData(data.x[rows], data.y[rows])
        groups = torch.arange(20).repeat(3)
        found = fit(copied, recipe_for(copied, steps=10), groups=groups, progress=False)
        assert found.pool.n == 20

    def test_a_surrogate_and_teachers_go_together(self) -> None:
        data, x, _ = moons()
        recipe = recipe_for(data, lam=0.5, teachers=["graph", GaussianNB()], steps=20, networks=2)
        found = fit(data, recipe, progress=False)
        assert found.pool.members[0].name == "cc"
        assert {"GaussianNB"} < {one.name for one in found.pool.members}
        assert found.lam == 0.5
        assert found.check is not None
        assert torch.equal(
            found.model.networks(x), fit(data, recipe_for(data, lam=0.5, steps=20, networks=2),
                                         progress=False).model(x)
        )  # fmt: skip

    def test_too_few_labels_leave_the_networks_as_they_are(self) -> None:
        data, _, _ = moons(n_labelled=8)
        recipe = recipe_for(data, lam=0.5, teachers=["graph"], steps=5)
        found = fit(data, recipe, progress=False)
        assert found.pool is None
        assert found.verdict.outcome == "cannot tell yet"
        assert "λ = 0.5; no labels were held out" in found.verdict.sentence

    def test_a_validation_part_judges(self) -> None:
        data, x, y = moons()
        with_part = SemiData(data.x, data.y, validation=(x[:50], y[:50]))
        found = fit(with_part, recipe_for(with_part, steps=20), progress=False)
        assert found.pool.n == 50
        assert len(found.results) == 1

    def test_without_unlabelled_rows_nothing_is_said_to_come_from_them(self) -> None:
        data, _, _ = moons(n=60, n_labelled=60)
        found = fit(data, recipe_for(data, steps=10), progress=False)
        assert found.pool.unlabelled.mean == 0

    def test_small_images_are_columns_for_the_teachers(self) -> None:
        generator = torch.Generator().manual_seed(0)
        y = torch.arange(60) % 2
        images = torch.randint(100, (60, 1, 8, 8), generator=generator) + 80 * y.view(-1, 1, 1, 1)
        data = SemiData(images.to(torch.uint8), torch.where(torch.arange(60) < 30, y, -1))
        found = fit(data, recipe_for(data, steps=3), progress=False)
        p = predicted_log_proba(found.model, data.x)
        assert (p.argmax(1) == y).float().mean() > 0.95


class TestResume:
    def recipe(self, data: SemiData) -> object:
        return recipe_for(data, steps=20, networks=2)

    @pytest.mark.parametrize("seconds", [0.0, CHECKPOINT_SECONDS])
    def test_a_killed_run_ends_bit_for_bit_as_an_unbroken_one(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float
    ) -> None:
        monkeypatch.setattr(networks, "CHECKPOINT_SECONDS", seconds)
        data, x, _ = moons()
        whole = fit(data, self.recipe(data), out=tmp_path / "whole", progress=False)
        count = 0

        def kill(_: Event) -> None:
            nonlocal count
            count += 1
            if count == 27:  # in the second network
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            fit(data, self.recipe(data), out=tmp_path / "cut", callbacks=[kill], progress=False)
        again = fit(data, self.recipe(data), out=tmp_path / "cut", progress=False)
        assert torch.equal(predicted_log_proba(again.model, x), predicted_log_proba(whole.model, x))
        assert again.pool == whole.pool

    def test_a_short_training_is_saved_once(self, tmp_path: Path) -> None:
        data, _, _ = moons()
        fit(data, self.recipe(data), out=tmp_path, progress=False)
        for number in range(2):
            place = tmp_path / f"complete_case-{number}"
            steps = [
                json.loads(line)["step"]
                for line in (place / "history.jsonl").read_text().splitlines()
            ]
            (saved,) = (place / "checkpoints").iterdir()
            assert saved.name == f"step-{steps[-1]:09d}"
            assert sorted(map(int, load_file(place / FILE))) == steps

    @pytest.mark.parametrize("damage", [None, b"", b"\x08\x00\x00\x00\x00\x00\x00\x00{}      "])
    def test_lost_logits_are_computed_again(self, tmp_path: Path, damage: bytes | None) -> None:
        data, x, _ = moons()
        first = fit(data, self.recipe(data), out=tmp_path, progress=False)
        place = tmp_path / "complete_case-1" / FILE
        place.unlink() if damage is None else place.write_bytes(damage)
        again = fit(data, self.recipe(data), out=tmp_path, progress=False)
        assert torch.equal(predicted_log_proba(again.model, x), predicted_log_proba(first.model, x))
        assert again.pool == first.pool


@pytest.mark.parametrize("safe", [True, False])
def test_a_pool_that_held_out_labels_show_to_be_worse_is_left_out(
    monkeypatch: pytest.MonkeyPatch, *, safe: bool
) -> None:
    module = importlib.import_module("dessl.recipes.fit")
    real = module.with_teachers

    def worse(*given: object) -> PooledPredictor:
        found = real(*given)
        report = dataclasses.replace(found.pool.report, total=Gain(-0.2, 0.03))
        compared = dataclasses.replace(found.pool.compared, difference=0.2, low=0.1, high=0.3)
        pool = dataclasses.replace(found.pool, report=report, compared=compared)
        return PooledPredictor(found.networks, pool)

    monkeypatch.setattr(module, "with_teachers", worse)
    data, _, _ = moons()
    found = fit(data, recipe_for(data, steps=20, safe=safe), progress=False)
    assert (found.pool is None) is safe
    assert (found.model is found.complete_case) is safe
    assert found.verdict.outcome == ("not used" if safe else "worse")
    assert ("The pool was dropped in favour of the networks alone" in found.account) is safe

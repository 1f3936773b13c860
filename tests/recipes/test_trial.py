"""A trial's rows: held out with a label and without, once, completely at random."""

import warnings
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from dessl.augment import Symmetries
from dessl.data import DataError, Part, SemiData
from dessl.recipes import Recipe, recipe_for
from dessl.recipes.baseline import Baseline
from dessl.recipes.held_out import fold_numbers
from dessl.recipes.split import every_label, label_groups, split
from dessl.recipes.trial import refit_failure, refitted, run_trial


def rows(n: int = 100, labelled: int = 60, **parts: object) -> SemiData:
    """Each row's one feature is its number, so that rows can be followed."""
    y = torch.where(torch.arange(n) % n < labelled, torch.arange(n) % 2, -1)
    return SemiData(torch.arange(n).float()[:, None], y, **parts)  # type: ignore[arg-type]


def test_every_row_has_one_place_and_keeps_its_own_label() -> None:
    data = rows()
    train, test, _ = split(data, share=0.25, seed=3)
    held_out = test.x[:, 0].long()
    places = torch.cat((train.labelled_rows, train.unlabelled_rows, held_out))
    assert places.sort().values.tolist() == list(range(100))
    assert test.y.tolist() == data.y[held_out].tolist()
    assert (int(test.labelled.sum()), len(test.y)) == (15, 25)


def test_held_out_labels_keep_their_propensities() -> None:
    data = rows()
    assert split(data).design == (None, None)
    data.propensity = (1 + torch.arange(100)) / 200
    _, test, (propensity, _) = split(data, share=0.25)
    assert propensity is not None
    assert propensity.tolist() == data.propensity[test.x[test.labelled, 0].long()].tolist()
    own = Part(torch.rand(9, 1), torch.arange(9) % 2)
    assert split(data, test=own).design == (None, None)


def test_hidden_labels_are_hidden_from_the_test_rows_too() -> None:
    train, test, _ = split(rows(labelled=100), labels=20, share=0.25)
    assert (train.n_labelled, train.n_unlabelled) == (15, 60)
    assert (int(test.labelled.sum()), int((~test.labelled).sum())) == (5, 20)


def test_every_labelled_row_is_held_out_equally_often() -> None:
    counts = torch.zeros(100)
    for seed in range(400):
        _, test, _ = split(rows(), share=0.2, seed=seed)
        counts[test.x[:, 0].long()] += 1
    # 12 of 60 labelled and 8 of 40 unlabelled rows at each seed: 80 of 400, deviation 8.
    assert counts.sum() == 400 * 20
    assert float((counts - 80).abs().max()) < 5 * 8


def test_a_test_part_takes_the_place_of_held_out_rows() -> None:
    part = (torch.full((5, 1), -1.0), torch.tensor([0, 1, 0, 1, 0]))
    train, test, _ = split(rows(test=part))
    assert (train.n_labelled, train.n_unlabelled, len(test.y)) == (60, 40, 5)
    own = Part(torch.full((4, 1), -1.0), torch.tensor([0, 1, 1, -1]))
    assert split(rows(test=part), test=own)[1] is own


def test_test_rows_that_are_trained_on_are_warned_of() -> None:
    data = rows()
    both = Part(data.x[45:75], data.y[45:75])
    with pytest.warns(UserWarning, match="15 of the 15 labelled test rows are also"):
        split(data, test=both)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        split(data, test=Part(data.x[:30], 1 - data.y[:30]))  # other labels: other cases
        split(data, test=Part(data.x[:30] + 0.5, data.y[:30]))
        few = SemiData(data.x % 4, data.y)  # rows that are often equal
        split(few, test=Part(few.x[30:60].clone(), few.y[30:60].clone()))


def test_a_publishers_validation_part_does_not_enlarge_the_budget() -> None:
    part = (torch.zeros(50, 1), torch.arange(50) % 2)
    train, _, _ = split(rows(labelled=100, validation=part, test=part), labels=30)
    assert train.validation is not None
    assert (train.n_labelled, len(train.validation.y), train.n_unlabelled) == (24, 6, 70)


def test_draws_of_one_seed_are_the_same() -> None:
    one, two, other = (split(rows(), seed=seed).train for seed in (5, 5, 6))
    assert one.labelled_rows.equal(two.labelled_rows)
    assert not one.labelled_rows.equal(other.labelled_rows)


def test_too_few_labels_are_refused() -> None:
    with pytest.raises(DataError, match="at least 10 labelled rows"):
        split(rows(labelled=9))
    with pytest.raises(ValueError, match="labels must be between 1 and 60; got 61"):
        split(rows(), labels=61)
    two = Part(torch.full((4, 1), -1.0), torch.tensor([0, 1, -1, -1]))
    with pytest.raises(DataError, match="at least 3 labelled rows; got 2"):
        split(rows(), test=two)
    with pytest.raises(ValueError, match=r"share must lie in \(0, 1\)"):
        split(rows(), share=1.0)


def test_every_class_with_two_labels_is_trained_on_and_judged() -> None:
    y = torch.full((400,), -1)
    y[:200], y[197:200], y[200:202] = 0, 1, 2
    data = SemiData(torch.arange(400.0)[:, None], y)
    for seed in range(20):
        train, test, _ = split(data, seed=seed)
        held_out = test.y[test.labelled].bincount(minlength=3).tolist()
        assert held_out[1:] == [1, 1]
        assert held_out[0] in (39, 40)  # a fifth of 197
        assert train.y[train.labelled_rows].bincount().tolist() == [197 - held_out[0], 2, 1]


def test_classes_are_held_out_in_proportion_and_rows_equally_often() -> None:
    y = torch.arange(90) % 3 % 2  # 60 of one class, 30 of the other
    counts, shares = torch.zeros(90), []
    for seed in range(400):
        _, test, _ = split(SemiData(torch.arange(90.0)[:, None], y), share=0.15, seed=seed)
        counts[test.x[:, 0].long()] += 1
        shares.append(int(test.y.sum()))
    assert set(shares) == {4, 5}  # 14 of 90: 4.67 of the smaller class
    for number in (0, 1):  # each row in 14 of 90 draws: 62 of 400, deviation 7
        assert float(counts[y == number].mean()) == pytest.approx(400 * 14 / 90, abs=1.5)
    assert float((counts - 400 * 14 / 90).abs().max()) < 5 * 7


def test_a_class_with_a_single_label_is_trained_on_and_said() -> None:
    y = torch.full((50,), -1)
    y[:20], y[20] = torch.arange(20) % 2, 2
    data = SemiData(torch.arange(50.0)[:, None], y, class_names=["a", "b", "rare"])
    with pytest.warns(UserWarning, match="class 'rare' has only one label "):
        train, _, _ = split(data)
    assert 20 in train.labelled_rows.tolist()
    y[20] = 0
    with pytest.warns(UserWarning, match="class 'rare' has no training label left"):
        split(SemiData(data.x, y, class_names=["a", "b", "rare"]))
    one = SemiData(torch.rand(40, 1), torch.arange(40) // 20 - 1, class_names=["a", "b"])
    with pytest.raises(DataError, match="training labels of at least two classes; got only 'a'"):
        split(one)


def test_a_refit_keeps_the_symmetries_of_the_trial() -> None:
    """Bars lie above or below: flipped left to right, they keep their class."""
    y = torch.arange(160) % 2
    x = torch.randint(0, 90, (160, 1, 8, 8), generator=torch.Generator().manual_seed(0))
    x[y == 1, :, 1:3] += 100
    x[y == 0, :, 5:7] += 100
    data = SemiData(x.to(torch.uint8), torch.where(torch.arange(160) < 100, y, -1))
    train, test, _ = split(data)
    options = {"steps": 30, "networks": 1, "teachers": ["linear"]}
    done = run_trial(train, test, recipe_for(train, **options), progress=False)
    assert done.fitted.symmetries is not None
    assert done.fitted.recipe.symmetries == Symmetries(flip=True)
    whole = every_label(data)
    again = refitted(done, whole, recipe_for(whole, **options), progress=False)
    assert again.recipe.symmetries == Symmetries(flip=True)
    assert again.symmetries is None  # not probed again


def clouds() -> SemiData:
    """Two clouds of 60 rows, 50 rows with a label."""
    y = torch.arange(120) % 2
    x = torch.randn(120, 3, generator=torch.Generator().manual_seed(0)) + 2 * y[:, None]
    return SemiData(x, torch.where(torch.arange(120) < 50, y, -1))


def test_a_refit_uses_the_recipe_that_the_trial_fell_back_to() -> None:
    data = clouds()
    train, test, _ = split(data)

    def recipe(rows: SemiData) -> Recipe:
        other = recipe_for(rows, steps=30, networks=1)
        tried = recipe_for(rows, surrogate=lambda logits: 0 * logits[:, 0], steps=30, networks=1)
        return replace(tried, otherwise=other)

    done = run_trial(train, test, recipe(train), progress=False)
    assert done.fitted.tried is not None
    whole = every_label(data)
    again = refitted(done, whole, recipe(whole), progress=False)
    assert (again.tried, again.recipe.plan.risk) == (None, "complete_case")
    kept = replace(done, fitted=replace(done.fitted, tried=None))
    again = refitted(kept, whole, recipe(whole), progress=False)
    assert (again.tried, again.recipe.plan.risk) == (None, "debiased")  # the decision stays


def test_a_refit_keeps_what_the_trial_decided() -> None:
    data = clouds()
    train, test, _ = split(data)
    done = run_trial(train, test, recipe_for(train, lam=0.5, steps=30, networks=1), progress=False)
    whole = every_label(data)
    assert (train.n_labelled, whole.n_labelled, whole.n_unlabelled) == (40, 50, 70)
    recipe = recipe_for(
        whole, surrogate="pseudo_label", steps=30, networks=1
    )  # λ would be estimated
    again = refitted(done, whole, recipe, progress=False)
    assert (again.lam, again.estimate) == (0.5, None)
    lost = refitted(done, whole, recipe, complete_case=True, progress=False)
    assert lost.model is lost.complete_case


@pytest.mark.parametrize(
    ("before", "after", "failed"),
    [(True, False, True), (False, False, False), (True, True, False), (None, False, True)],
)
def test_a_refit_fails_if_its_complete_case_does_but_the_trial_s_did_not(
    before: bool | None, after: bool, failed: bool
) -> None:
    def fitted(trained: bool | None) -> Any:
        whys = () if trained else ("it predicts one class",)
        own = None if trained is None else Baseline(60, 0.5, 0.6, 0.4, whys, trained)
        return SimpleNamespace(baseline=own)

    trial: Any = SimpleNamespace(fitted=fitted(before))
    assert refit_failure(trial, fitted(after)).startswith(
        "the complete case failed to train. It predicts" if failed else ""
    )
    assert bool(refit_failure(trial, fitted(after))) is failed


def test_every_label_is_those_that_were_split() -> None:
    part = (torch.zeros(50, 1), torch.arange(50) % 2)
    for data in (rows(), rows(labelled=100, validation=part)):
        train, test, _ = split(data, labels=40, seed=3)
        whole = every_label(data, labels=40, seed=3)
        judged = test.x[test.labelled][:, 0].long().tolist()
        before = [*train.labelled_rows.tolist(), *train.validation_rows.tolist(), *judged]
        after = [*whole.labelled_rows.tolist(), *whole.validation_rows.tolist()]
        assert sorted(after) == sorted(before)
        assert len(after) == 40


def test_of_many_unlabelled_rows_no_more_are_held_out_than_narrow_an_interval() -> None:
    y = torch.where(torch.arange(80_000) < 100, torch.arange(80_000) % 2, -1)
    train, test, _ = split(SemiData(torch.arange(80_000).float()[:, None], y))
    assert len(test.y) - int(test.labelled.sum()) == 10_000
    assert train.n_unlabelled == 69_900


def visits(n: int = 400, patients: int = 100, labelled: int = 200) -> SemiData:
    """Rows of patients, whose labels differ from visit to visit; a feature is the row's number."""
    draw = torch.Generator().manual_seed(0)
    groups = torch.randint(patients, (n,), generator=draw)
    y = (torch.rand(n, generator=draw) < 0.2).long()
    y[labelled:] = -1
    return SemiData(torch.arange(n).float()[:, None], y, groups=groups)


@pytest.mark.parametrize("seed", range(5))
def test_rows_of_a_group_are_held_out_together_and_keep_their_labels(seed: int) -> None:
    data = visits()
    assert data.groups is not None
    train, test, design = split(data, seed=seed)
    held_out = test.x[:, 0].long()
    in_train = torch.cat((train.labelled_rows, train.unlabelled_rows))
    assert not set(data.groups[held_out].tolist()) & set(data.groups[in_train].tolist())
    assert len(held_out) + len(in_train) == 400
    assert torch.equal(test.y, data.y[held_out])
    assert design.groups is not None
    assert torch.equal(design.groups, data.groups[held_out])
    assert 30 <= int(test.labelled.sum()) <= 60  # about a fifth of 200
    assert set(test.y[test.labelled].tolist()) == {0, 1}
    assert train.groups is data.groups


def test_labels_in_few_groups_are_refused() -> None:
    data = visits()
    data.groups = torch.arange(400) % 5
    with pytest.raises(DataError, match=r"expected labels in at least 10 groups.*; got 5"):
        split(data)


def test_labels_held_out_in_few_groups_are_refused() -> None:
    data = visits()
    data.groups = torch.arange(400) % 10
    with pytest.raises(DataError, match=r"of at least 3 groups; got those of 1.*--hold-out"):
        split(data, share=0.05)
    split(data, share=0.4)


def test_folds_of_networks_keep_groups_together_and_spread_the_rarest_class() -> None:
    data = visits()
    groups = label_groups(data)
    assert torch.equal(groups, data.groups[data.labelled_rows])  # type: ignore[index]
    y = data.y[data.labelled_rows]
    folds = fold_numbers(y, groups, seed=0)
    for group in groups.unique():
        assert len(folds[groups == group].unique()) == 1
    assert all(int((y[folds == fold] == 1).sum()) >= 3 for fold in range(5))

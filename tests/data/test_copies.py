"""Copies of one row are on one side; cases that have the same few values are not copies."""

import pytest
import torch

from dessl.data import SemiData
from dessl.data.copies import copy_groups, whole_groups
from dessl.data.row_keys import row_digests
from dessl.recipes import recipe_for, trial
from dessl.recipes.trial import run_trial, split


def test_equal_rows_are_copies_while_they_are_few_and_their_labels_agree() -> None:
    x = torch.tensor([5.0, 5.0, 6.0, 6.0, 7.0, 7.0, 7.0, 8.0, 8.0, 8.0, -0.0, 0.0])[:, None]
    y = torch.tensor([0, 0, 0, 1, 1, 1, 1, 0, -1, -1, -1, -1])
    keys = row_digests(x.numpy())
    groups = copy_groups(keys, y, labelled=2, unlabelled=2)
    assert groups.tolist() == [0, 0, 2, 3, 4, 5, 6, 7, 7, 7, 10, 10]
    assert copy_groups(keys, y, labelled=2, unlabelled=1).tolist()[7:] == [7, 8, 9, 10, 11]


def test_a_group_of_many_is_not_taken_sooner() -> None:
    groups = torch.tensor([0] * 8 + [8, 9])
    generator = torch.Generator().manual_seed(0)
    first = [
        int(whole_groups(torch.randperm(10, generator=generator), groups, 1).sum() == 8)
        for _ in range(600)
    ]
    assert 150 < sum(first) < 250  # one group of three


@pytest.mark.parametrize("n_labelled", [160, 60])
def test_copies_are_held_out_together(n_labelled: int) -> None:
    x = torch.randn(40, 3, generator=torch.Generator().manual_seed(0)).repeat(4, 1)
    y = torch.arange(160) % 40 % 2
    drawn = torch.randperm(160, generator=torch.Generator().manual_seed(1)) < n_labelled
    data = SemiData(x, torch.where(drawn, y, -1))
    train, test, _ = split(data, share=0.2, seed=0)
    rows = torch.cat((train.labelled_rows, train.unlabelled_rows))
    assert len(rows) + len(test.y) == 160
    assert not set(map(tuple, x[rows].tolist())) & set(map(tuple, test.x.tolist()))
    assert 0.2 * n_labelled <= int(test.labelled.sum()) < 0.2 * n_labelled + 4


def test_columns_of_few_values_are_split_row_by_row() -> None:
    x = (torch.arange(400)[:, None] >> torch.arange(2)) % 2  # four kinds of rows
    train, test, _ = split(SemiData(x, x[:, 0] ^ x[:, 1]), share=0.2, seed=0)
    assert (train.n_labelled, len(test.y)) == (320, 80)
    assert len(test.x.unique(dim=0)) == len(train.x[train.labelled_rows].unique(dim=0)) == 4


def test_a_publishers_validation_part_is_replaced_by_whole_groups() -> None:
    x = torch.arange(40.0)[:, None].repeat(3, 1)
    part = (torch.zeros(5, 1), torch.arange(5) % 2)
    data = SemiData(x, torch.arange(120) % 40 % 2, validation=part, test=part)
    train, _, _ = split(data)
    assert train.validation is not None
    assert len(train.validation.y) == 24
    assert not set(train.validation.x[:, 0].tolist()) & set(x[train.labelled_rows, 0].tolist())


def test_folds_within_the_training_keep_copies_together(monkeypatch: pytest.MonkeyPatch) -> None:
    def fit(*_: object, groups: torch.Tensor, **options: object) -> None:
        raise RuntimeError(groups.tolist())

    monkeypatch.setattr(trial, "fit", fit)
    x = torch.arange(20.0)[:, None].repeat(2, 1)
    train, test, _ = split(SemiData(x, torch.arange(40) % 2), share=0.2, seed=0)
    with pytest.raises(RuntimeError) as called:
        run_trial(train, test, recipe_for(train, steps=1))
    kept = x[train.labelled_rows, 0].tolist()
    assert called.value.args[0] == [kept.index(value) for value in kept]

"""Rows as bytes are equal and sort as the rows do; copies of one row are on one side."""

import tracemalloc
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import dessl.data.row_keys as rows_as_keys
from dessl.data import SemiData
from dessl.data.row_keys import copy_groups, row_digests, row_keys, whole_groups
from dessl.recipes import recipe_for, trial
from dessl.recipes.split import split
from dessl.recipes.trial import run_trial


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@given(
    arrays(np.float32, (12, 2), elements=st.floats(-2, 2, width=32)),
    arrays(np.int64, 12, elements=st.integers(0, 300)),
)
def test_they_are_the_rows_to_numpy(kind: type, x: np.ndarray, codes: np.ndarray) -> None:
    x[:6] = np.round(x[:6])
    with mock.patch.object(rows_as_keys, "BLOCK", 50):  # some rows at a time
        keys = row_keys(x.astype(kind), codes)
    assert np.array_equal(keys, row_keys(x.astype(kind), codes))
    rows = np.column_stack([x, codes])
    for ours, theirs in zip(
        np.unique(keys, return_index=True, return_inverse=True)[1:],
        np.unique(rows, axis=0, return_index=True, return_inverse=True)[1:],
        strict=True,
    ):
        assert np.array_equal(ours, theirs.ravel())


def test_images_of_bytes_stay_bytes() -> None:
    images = np.random.default_rng(0).integers(3, size=(50, 1, 2, 2), dtype=np.uint8)
    assert row_keys(images).dtype.itemsize == 4
    assert np.shares_memory(row_keys(images), images)
    assert row_keys(images, np.arange(50)).dtype.itemsize == 12
    flipped = images.transpose(0, 1, 3, 2)
    expected = np.unique(flipped.reshape(50, -1), axis=0, return_inverse=True)[1]
    assert np.array_equal(np.unique(row_keys(flipped), return_inverse=True)[1], expected.ravel())


def test_little_memory_is_taken_beside_the_keys() -> None:
    x = np.random.default_rng(0).normal(size=(20_000, 50)).astype(np.float32)
    row_keys(x[:1])
    tracemalloc.start()
    row_keys(x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.6 * x.nbytes  # in one block it was five times the rows


@pytest.mark.parametrize("columns", [3, 100])
def test_digests_are_equal_where_rows_are(columns: int) -> None:
    x = np.random.default_rng(0).integers(2, size=(6_000, columns)).astype(np.float32)
    x[3_000:] = np.where(x[:3_000] == 0, -0.0, x[:3_000])
    codes = np.arange(6_000) % 3
    found = np.unique(row_digests(x, codes), return_index=True, return_inverse=True)
    wanted = np.unique(row_keys(x, codes), return_index=True, return_inverse=True)
    assert np.array_equal(found[1][found[2]], wanted[1][wanted[2]])


def test_wide_rows_are_told_apart_in_little_memory() -> None:
    x = np.random.default_rng(0).normal(size=(20_000, 50)).astype(np.float32)
    tracemalloc.start()
    row_digests(x)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.8 * x.nbytes


@pytest.mark.parametrize("width", [65, 784, 3073])
def test_a_digest_sees_every_bit_and_every_place(width: int) -> None:
    row = np.random.default_rng(0).integers(256, size=width, dtype=np.uint8)
    changed = [row, np.roll(row, 1), np.roll(row, 2), row[::-1]]
    for bit in range(8 * width):
        other = row.copy()
        other[bit // 8] ^= 1 << bit % 8
        changed.append(other)
    rows = np.stack([*changed, row])
    digests = row_digests(rows)
    assert len(np.unique(digests)) == len(changed)
    assert digests[0] == digests[-1]
    assert np.array_equal(digests[5:9], row_digests(rows[5:9]))  # whatever else is hashed


def test_the_sums_of_a_digest_are_exact() -> None:
    for halves in (33, 1536, 100_000):
        factors = rows_as_keys._factors(halves)
        assert factors.sum(0).max() * 65_535 < 2**53
        assert np.array_equal(factors, factors.round())


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

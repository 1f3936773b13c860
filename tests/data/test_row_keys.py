"""Rows as bytes are equal and sort as the rows do."""

import tracemalloc
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import dessl.data.row_keys as rows_as_keys
from dessl.data.row_keys import row_digests, row_keys


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

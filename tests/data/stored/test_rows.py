"""Blocks, rows by number, and stores less some rows."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dessl.data import DataError, open_rows
from dessl.data.stored import rows as module
from dessl.data.stored.rows import Changed, Without, block_ends


@settings(max_examples=30)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=6), st.integers(1, 2**20))
def test_blocks_cover_every_file_and_cross_none(counts: list[int], row_bytes: int) -> None:
    ends = block_ends(counts, row_bytes)
    assert ends[-1] == sum(counts)
    assert (np.diff(ends, prepend=0) > 0).all()
    assert set(np.cumsum(counts)) <= set(ends)
    largest = int(np.diff(ends, prepend=0).max())
    assert largest * row_bytes <= module.BLOCK or largest == 1


def test_a_huge_store_has_a_bounded_list_of_blocks() -> None:
    assert len(block_ends([10**9], 12_288)) <= module.MOST_BLOCKS


def test_rows_by_number(shards: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK", 24)  # two rows
    stored = open_rows(shards(5, 4))
    wanted = [8, 0, 3, 3, 4, 5]
    assert stored.rows(wanted)[:, 0].tolist() == wanted
    assert stored.rows([]).shape == (0, 3)
    with pytest.raises(IndexError, match="0 to 8; got 2, 9"):
        stored.rows([2, 9])


@settings(max_examples=30)
@given(st.data())
def test_a_store_without_some_rows(data: st.DataObject) -> None:
    n = data.draw(st.integers(2, 30))
    out = data.draw(st.sets(st.integers(0, n - 1), max_size=n - 1))

    class Counting(module.StoredRows):
        source, shape, dtype = "counting", (1,), np.dtype(np.float32)
        ends = np.unique(np.append(np.arange(3, n, 3), n))

        def read(self, start: int, stop: int, out: Any) -> None:
            out[:, 0] = np.arange(start, stop)

        def described(self) -> str:
            return "counting"

    left = Without(Counting(), sorted(out, reverse=True))
    kept = [row for row in range(n) if row not in out]
    assert len(left) == len(kept)
    assert left.rows(range(len(kept)))[:, 0].tolist() == kept
    assert left.originals(np.arange(len(kept))).tolist() == kept
    assert (np.diff(left.ends, prepend=0) > 0).all()


def test_identity_tells_stores_apart(shards: Any) -> None:
    folder = shards(5, 4)
    first = open_rows(folder)
    before = first.identity()
    assert before == open_rows(folder).identity()
    others = [Without(first, [3]), Without(first, [4]), Changed(first, lambda x: x + 1, "one more")]
    assert len({before, *(one.identity() for one in others)}) == 4
    path = folder / "001.npy"
    np.save(path, np.load(path) + 1)  # the same size
    assert open_rows(folder).identity() != before


def test_rows_that_are_not_finite_are_named(shards: Any) -> None:
    folder = shards(5, 4)
    x = np.load(folder / "001.npy")
    x[2, 1] = np.nan
    np.save(folder / "001.npy", x)
    with pytest.raises(DataError, match=r"001\.npy: expected finite .* rows 2"):
        open_rows(folder).rows([7])


def test_a_changed_store_is_changed_row_by_row(shards: Any) -> None:
    changed = Changed(open_rows(shards(5)), lambda x: 2 * x, "twice")
    assert changed.rows([1, 4])[:, 0].tolist() == [2, 8]
    assert "Changed" in repr(changed)

"""The stream: every row once an epoch, shuffled, the same after a resume, errors where drawn."""

import gc
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dessl.data import DataError, StoredStream, open_rows
from dessl.data.stored import rows as blocks
from dessl.data.stored.stream import Epoch


@given(st.lists(st.integers(1, 9), min_size=1, max_size=12), st.integers(1, 20), st.integers(0, 3))
def test_an_epoch_has_every_row_once(sizes: list[int], rows: int, number: int) -> None:
    epoch = Epoch(np.cumsum(sizes), rows, seed=5, number=number)
    found: list[int] = []
    for k in range(epoch.windows):
        window = epoch.window(k)
        assert epoch.window_at(len(found)) == (k, 0)
        found += window.numbers(epoch.shuffled(k)).tolist()
        assert len(window) < rows + max(sizes)
    assert sorted(found) == list(range(sum(sizes)))


def test_rows_come_with_their_ids_and_epochs_differ(
    shards: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "BLOCK", 24)
    stream = StoredStream(open_rows(shards(13, 8)), 7, seed=3, first_id=100, window=1)
    stream.window_rows = 8  # several windows an epoch, batches across them
    epochs = []
    for _ in range(3):
        drawn = [stream.draw() for _ in range(3)]
        for x, ids in drawn:
            assert torch.equal(x[:, 0].long() + 100, ids)
        epochs.append(torch.cat([ids for _, ids in drawn]).tolist())
        assert sorted(epochs[-1]) == list(range(100, 121))
    assert epochs[0] != epochs[1] != epochs[2] != sorted(epochs[2])
    stream.close()


@settings(deadline=None, max_examples=10)
@given(st.integers(0, 40), st.integers(1, 25), st.integers(1, 20))
def test_a_resumed_stream_continues_bit_for_bit(
    tmp_path_factory: pytest.TempPathFactory, drawn: int, size: int, rows: int
) -> None:
    folder = tmp_path_factory.mktemp("rows")
    np.save(folder / "a.npy", np.random.default_rng(0).normal(size=(19, 2)))

    def stream(seed: int) -> StoredStream:
        made = StoredStream(open_rows(folder), size, seed=seed)
        made.window_rows = rows
        return made

    whole, first, second = stream(1), stream(1), stream(8)
    for _ in range(drawn):
        whole.draw()
        first.draw()
    state = first.state_dict()
    assert set(state) == {"seed", "epoch", "position"}
    assert state["epoch"] * 19 + state["position"] == drawn * size
    second.load_state_dict(state)
    for _ in range(3):
        for one, other in zip(whole.draw(), second.draw(), strict=True):
            assert torch.equal(one, other)
    for one in (whole, first, second):
        one.close()


def test_a_small_store_is_shuffled_whole(shards: Any) -> None:
    stream = StoredStream(open_rows(shards(50, 50)), 100, seed=0)
    ids = stream.draw()[1]
    assert (ids[:50] < 50).sum() not in (0, 50)
    stream.close()


def test_a_vanished_file_is_named_where_rows_are_drawn(shards: Any) -> None:
    folder = shards(40, 40)
    stored = open_rows(folder)
    (folder / "001.npy").unlink()
    stream = StoredStream(stored, 10, seed=0)
    for _ in range(2):
        with pytest.raises(DataError, match=r"001\.npy: .* no such file"):
            stream.draw()
    stream.close()


def test_threads_end_with_their_stream(shards: Any) -> None:
    stored = open_rows(shards(40))
    before = threading.active_count()
    stream = StoredStream(stored, 10, seed=0)
    stream.draw()
    assert threading.active_count() > before
    del stream
    gc.collect()
    for _ in range(100):
        if threading.active_count() <= before:
            break
        time.sleep(0.05)
    assert threading.active_count() <= before


def test_bad_states_and_sizes(shards: Any, tmp_path: Path) -> None:
    stored = open_rows(shards(40))
    stream = StoredStream(stored, 10, seed=0)
    with pytest.raises(ValueError, match=r"was at row 40 .* 40 rows"):
        stream.load_state_dict({"seed": 0, "epoch": 0, "position": 40})
    with pytest.raises(ValueError, match="size"):
        StoredStream(stored, 0, seed=0)
    with pytest.raises(ValueError, match="no rows"):
        StoredStream(blocks.Without(stored, range(40)), 10, seed=0)

"""npy and raw files: shapes, types, layouts, and files that are not what they should be."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dessl.data import DataError, open_rows


@pytest.mark.parametrize("dtype", ["float16", "float64", "int32", "uint8", ">f4"])
def test_numbers_become_float32(shards: Any, dtype: str) -> None:
    stored = open_rows(shards(3, 2, dtype=dtype))
    assert stored.dtype == np.float32
    assert stored.rows(range(5))[:, 2].tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("shape", "layout", "seen"),
    [
        ((4, 5), None, (1, 4, 5)),
        ((3, 4, 5), None, (3, 4, 5)),
        ((4, 5, 3), None, (3, 4, 5)),
        ((3, 3, 3), "NHWC", (3, 3, 3)),
    ],
)
def test_images_stay_bytes_and_get_channels_first(
    tmp_path: Path, shape: tuple[int, ...], layout: str | None, seen: tuple[int, ...]
) -> None:
    x = np.random.default_rng(0).integers(0, 256, (7, *shape), np.uint8)
    np.save(tmp_path / "a.npy", x)
    stored = open_rows(tmp_path / "a.npy", layout=layout)
    assert stored.shape == seen
    assert stored.dtype == np.uint8
    moved = x[:, None] if x.ndim == 3 else x.transpose(0, 3, 1, 2) if shape[-1] == 3 else x
    assert (stored.rows([6, 1]) == moved[[6, 1]]).all()


def test_raw_numbers(tmp_path: Path) -> None:
    x = np.arange(24, dtype=np.uint8).reshape(2, 3, 2, 2)
    (tmp_path / "a.bin").write_bytes(x.tobytes())
    stored = open_rows(tmp_path / "a.bin", shape=(3, 2, 2), dtype="uint8")
    assert (stored.rows([1]) == x[1]).all()
    with pytest.raises(DataError, match=r"a\.bin: expected whole rows of 7 bytes"):
        open_rows(tmp_path / "a.bin", shape=(7,), dtype="uint8")
    with pytest.raises(ValueError, match="shape and number type"):
        open_rows(tmp_path / "a.bin")


def test_an_array_in_memory() -> None:
    x = np.arange(24, dtype=np.uint8).reshape(2, 2, 2, 3)
    stored = open_rows(x)
    assert stored.shape == (3, 2, 2)
    assert (stored.rows([1])[0] == x[1].transpose(2, 0, 1)).all()
    assert stored.identity() != open_rows(x + 1).identity()
    assert open_rows(torch.arange(4.0).view(2, 2)).rows([1]).tolist() == [[2, 3]]
    with pytest.raises(ValueError, match="columns cannot be used with an array"):
        open_rows(x, columns=["a"])


def damaged(path: Path, how: str) -> None:
    x = np.load(path)
    if how == "short":
        path.write_bytes(path.read_bytes()[:-4])
    elif how == "not npy":
        path.write_text("rows")
    elif how == "shape":
        np.save(path, x[:, :2])
    elif how == "type":
        np.save(path, x.astype(np.float64))
    elif how == "empty":
        np.save(path, x[:0])
    elif how == "fortran":
        np.save(path, np.asfortranarray(x))
    else:
        np.save(path, x[:, 0])


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("short", "bytes after the header"),
        ("not npy", "only 4"),
        ("shape", r"expected rows of shape \(3,\) of float32, as .*000\.npy has; got \(2,\)"),
        ("type", "got .* float64"),
        ("empty", "at least one row"),
        ("fortran", "Fortran"),
        ("flat", "at least one row"),
    ],
)
def test_a_bad_shard_is_named(shards: Any, how: str, words: str) -> None:
    folder = shards(4, 4, 4)
    damaged(folder / "001.npy", how)
    with pytest.raises(DataError, match=rf"001\.npy: .*{words}"):
        open_rows(folder)


def test_a_file_that_shrinks_or_goes_away_is_named(shards: Any) -> None:
    folder = shards(4, 4)
    stored = open_rows(folder)
    whole = (folder / "001.npy").read_bytes()
    (folder / "001.npy").write_bytes(whole[:-4])
    with pytest.raises(DataError, match=r"001\.npy: expected .* bytes from byte .* changed or rem"):
        stored.rows([7])
    (folder / "001.npy").unlink()
    with pytest.raises(DataError, match=r"001\.npy: .* no such file"):
        stored.rows([4])

"""Where files are: folders, patterns, lists, and addresses of fsspec."""

import os
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dessl.data import DataError, open_rows
from dessl.data.stored.places import files_at


def test_folders_patterns_and_lists(shards: Any) -> None:
    folder = shards(2, 3, 4)
    (folder / ".hidden.npy").write_text("not a shard")
    (folder / "notes.txt").write_text("not one either")
    assert len(open_rows(folder)) == 9
    assert len(open_rows(str(folder / "00[01].npy"))) == 5
    assert open_rows([folder / "002.npy", folder / "000.npy"]).rows([0, 4])[:, 0].tolist() == [5, 0]


def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        open_rows(tmp_path / "none.npy")
    with pytest.raises(DataError, match="expected images in a folder; got none"):
        open_rows(tmp_path)
    (tmp_path / "a.npz").write_text("x")
    with pytest.raises(DataError, match=r"got \.npz"):
        open_rows(tmp_path / "a.npz")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes on Windows")
@pytest.mark.parametrize("name", ["a.npy", "a.png"])
def test_a_pipe_is_not_waited_for(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / name)
    with pytest.raises(DataError, match="got a pipe or a device"):
        open_rows(tmp_path)


def test_bytes_that_a_file_does_not_have_take_no_memory(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"1234")
    (file,) = files_at(tmp_path / "a.bin", (".bin",))
    for offset, size in ((0, 2**60), (-1, 2), (3, 2)):
        with pytest.raises(DataError, match="got a file of 4 bytes"):
            file.read(offset, size)


def test_a_file_system_of_fsspec(shards: Any) -> None:
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    place = f"/{uuid.uuid4().hex}"
    for path in sorted(shards(3, 4).iterdir()):
        memory.pipe(f"{place}/{path.name}", path.read_bytes())
    for address in (f"memory:/{place}", f"memory:/{place}/*.npy", f"memory:/{place}/001.npy"):
        stored = open_rows(address)
        assert stored.rows([len(stored) - 1])[0, 0] == 6
    memory.rm(f"{place}/001.npy")
    with pytest.raises(DataError, match=r"001\.npy: .* no such file"):
        stored.rows([0])


def test_an_address_nobody_knows() -> None:
    with pytest.raises(ValueError, match="fsspec can open"):
        open_rows("nowhere://bucket/a.npy")


def test_a_file_that_shrank_at_an_address() -> None:
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    name = f"/{uuid.uuid4().hex}/a.bin"
    memory.pipe(name, np.zeros(8, np.float32).tobytes())
    stored = open_rows(f"memory:/{name}", shape=(2,), dtype="float32")
    memory.pipe(name, b"\0" * 20)
    with pytest.raises(DataError, match="only 4"):
        stored.rows([2])

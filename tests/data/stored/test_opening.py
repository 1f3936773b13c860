"""open_rows: what a file is, by its name, and which options go with it."""

import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from dessl import SemiData
from dessl.data import DataError, StoredStream, open_rows
from dessl.data.stored.arrays import ArrayRows
from dessl.data.stored.images import ImageRows
from dessl.data.stored.parquet import ParquetRows
from dessl.data.stored.tars import TarRows


@pytest.mark.parametrize("kind", ["folder", "tars"])
def test_every_image_is_read(kind: str, request: pytest.FixtureRequest) -> None:
    stored = open_rows(request.getfixturevalue(kind))
    assert (len(stored), stored.shape, stored.dtype) == (12, (3, 6, 6), np.uint8)
    x = stored.rows(range(12))
    assert x[:, 0, 2, 3].tolist() == list(range(12))
    assert (x[:, 2] == 255 - x[:, 0]).all()
    small = open_rows(request.getfixturevalue(kind), size=(4, 8), colour="grey")
    assert small.shape == (1, 4, 8)
    stream = StoredStream(stored, 12, seed=0)
    drawn, ids = stream.draw()
    assert drawn[:, 0, 0, 0].tolist() == ids.tolist()
    stream.close()
    data = SemiData(np.zeros((2, 3, 6, 6), np.uint8), [0, 1], stored=stored)
    assert data.n_unlabelled == 12


def test_addresses(folder: Path, tars: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    place = f"/{uuid.uuid4().hex}"
    for root in (folder, tars):
        for path in root.rglob("*.*"):
            memory.pipe(f"{place}/{root.name}/{path.relative_to(root)}", path.read_bytes())
    for name in ("images", "tars", "tars/*.tar"):
        stored = open_rows(f"memory:/{place}/{name}")
        assert stored.rows([0, 7])[:, 0, 0, 0].tolist() == [0, 7]


def test_what_is_not_a_folder_of_images(tmp_path: Path, tars: Path) -> None:
    (tmp_path / "none").mkdir()
    with pytest.raises(DataError, match="expected images in a folder"):
        open_rows(tmp_path / "none")
    with pytest.raises(ValueError, match="columns cannot be used with tar files"):
        open_rows(tars, columns=["a"])


def test_names_say_what_files_are(tmp_path: Path, folder: Path, tars: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((3, 2), np.float32))
    (tmp_path / "a.npy").rename(tmp_path / "A.NPY")
    (tmp_path / "a.dat").write_bytes(bytes(12))
    pa = pytest.importorskip("pyarrow")
    pytest.importorskip("pyarrow.parquet").write_table(
        pa.table({"v": [1.0, 2.0]}), tmp_path / "a.pq"
    )
    assert open_rows(tmp_path / "A.NPY").shape == (2,)
    assert len(open_rows(tmp_path / "a.dat", shape=(2,), dtype="uint8")) == 6
    assert isinstance(open_rows(tmp_path / "a.pq"), ParquetRows)
    assert isinstance(open_rows(tars / "0.tar"), TarRows)
    images = open_rows(folder)
    assert isinstance(images, ImageRows)
    assert not isinstance(images, TarRows)
    assert isinstance(open_rows(torch.zeros(2, 3)), ArrayRows)


@pytest.mark.parametrize(
    ("source", "options", "says"),
    [
        ("shards", {"columns": ["a"]}, r"columns cannot be used with \.npy files"),
        ("shards", {"size": 4, "bits": 8}, r"size, bits cannot be used with \.npy files"),
        ("shards", {"index": "x"}, r"index cannot be used with \.npy files"),
        ("folder", {"layout": "NCHW"}, "layout cannot be used with a folder of images"),
        ("folder", {"index": "x"}, "index cannot be used with a folder of images"),
        ("tars", {"dtype": "uint8"}, "dtype cannot be used with tar files"),
        ("array", {"shape": (2,)}, "shape cannot be used with an array"),
    ],
)
def test_options_of_other_kinds_are_refused(
    source: str, options: dict[str, Any], says: str, request: pytest.FixtureRequest
) -> None:
    given: Any = np.zeros((2, 2), np.float32)
    if source != "array":
        given = request.getfixturevalue(source)
    if source == "shards":
        given = given(2)
    with pytest.raises(ValueError, match=says):
        open_rows(given, **options)


def test_files_of_several_kinds_are_refused(shards: Any) -> None:
    folder = shards(2)
    (folder / "a.bin").write_bytes(bytes(4))
    with pytest.raises(DataError, match=r"expected files of one kind: .*; got \.bin, \.npy\."):
        open_rows(folder)
    with pytest.raises(ValueError, match=r"a\.bin has raw numbers\. Pass the shape"):
        open_rows(folder / "a.bin")

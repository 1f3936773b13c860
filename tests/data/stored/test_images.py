"""Images in folders and in tar files, decoded as they are read."""

import gc
import io
import tarfile
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from dessl import SemiData
from dessl.data import DataError, StoredStream, open_rows
from dessl.data.stored.large import large_folder


def png(value: int, size: int = 6, mode: str = "RGB") -> bytes:
    out = io.BytesIO()
    colour: Any = value if mode == "L" else (value, 0, 255 - value)
    Image.new(mode, (size, size), colour).save(out, "PNG")
    return out.getvalue()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Twelve images in two subfolders, the k-th of colour k by name."""
    for k in range(12):
        place = tmp_path / "images" / f"part{k // 6}"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"é{k:02d}.png").write_bytes(png(k))
    (tmp_path / "images" / "part0" / ".hidden.png").write_text("no image")
    (tmp_path / "images" / "notes.txt").write_text("no image either")
    return tmp_path / "images"


@pytest.fixture
def tars(tmp_path: Path) -> Path:
    """The same in two tar files, among other members."""
    place = tmp_path / "tars"
    place.mkdir()
    for shard in range(2):
        with tarfile.open(place / f"{shard}.tar", "w") as tar:
            for k in range(6 * shard, 6 * shard + 6):
                for name, content in ((f"{k:02d}.json", b"{}" * k), (f"{k:02d}.png", png(k))):
                    info = tarfile.TarInfo(name if k else "long/" * 40 + name)
                    info.size = len(content)
                    tar.addfile(info, io.BytesIO(content))
    return place


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


def test_the_places_in_tar_files_are_kept(tars: Path, tmp_path: Path) -> None:
    index = tmp_path / "index"
    first = open_rows(tars, index=index)
    kept = {path.name: path.read_bytes() for path in index.iterdir()}
    assert len(kept) == 2
    again = open_rows(tars, index=index)
    assert (again.rows(range(12)) == first.rows(range(12))).all()
    assert {path.name: path.read_bytes() for path in index.iterdir()} == kept


def test_an_index_that_is_damaged_is_made_again_or_named(tars: Path, tmp_path: Path) -> None:
    index = tmp_path / "index"
    expected = open_rows(tars, index=index).rows([0, 9])
    counts, places = next(index.glob("*.counts")), next(index.glob("*.index"))
    counts.write_bytes(counts.read_bytes()[:-1])
    assert np.array_equal(open_rows(tars, index=index).rows([0, 9]), expected)
    places.write_bytes(places.read_bytes()[:-1])
    assert np.array_equal(open_rows(tars, index=index).rows([0, 9]), expected)
    for number in (-1, 2**40, 2**62, 0):
        content = np.frombuffer(places.read_bytes(), np.int64).copy()
        content[-1], content[-2] = 1, number
        places.write_bytes(content.tobytes())
        with pytest.raises(DataError, match=r"\.index: expected the places of images"):
            open_rows(tars, index=index).rows([11])


def test_a_temporary_index_is_removed(tars: Path, tmp_path: Path) -> None:
    stored = open_rows(tars)
    place = stored.index  # type: ignore[attr-defined]
    assert place.exists()
    del stored
    gc.collect()
    assert not place.exists()


def test_a_damaged_image_is_named(folder: Path, tars: Path) -> None:
    (folder / "part1" / "é08.png").write_bytes(png(8)[:40])
    with pytest.raises(DataError, match=r"é08\.png: expected an image"):
        open_rows(folder).rows([8])
    content = bytearray((tars / "1.tar").read_bytes())
    at = content.index(png(9))
    content[at : at + 8] = b"\0" * 8
    (tars / "1.tar").write_bytes(content)
    with pytest.raises(DataError, match=r"1\.tar, member 09\.png: expected an image"):
        open_rows(tars).rows([9])


def test_bad_tar_files(tars: Path, tmp_path: Path) -> None:
    whole = (tars / "1.tar").read_bytes()
    (tars / "1.tar").write_bytes(whole[:1200])
    with pytest.raises(DataError, match=r"1\.tar: expected a whole tar file"):
        open_rows(tars)
    with tarfile.open(tars / "1.tar", "w:gz") as tar:
        tar.add(tars / "0.tar", "a.png")
    with pytest.raises(DataError, match="not compressed"):
        open_rows(tars)
    with tarfile.open(tars / "1.tar", "w") as tar:
        tar.add(tars / "0.tar", "a.txt")
    with pytest.raises(DataError, match=r"1\.tar: expected images in a tar file; got none"):
        open_rows(tars)


def test_what_is_not_a_folder_of_images(tmp_path: Path, tars: Path) -> None:
    (tmp_path / "none").mkdir()
    with pytest.raises(DataError, match="expected images in a folder"):
        open_rows(tmp_path / "none")
    with pytest.raises(ValueError, match="columns cannot be used with tar files"):
        open_rows(tars, columns=["a"])


def test_a_folder_of_classes_most_of_whose_images_stay_on_disk(tmp_path: Path) -> None:
    for k in range(40):
        name = ("cat", "dog")[k % 2] if k < 8 else "unlabelled"
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / f"{k:02d}.png").write_bytes(png(k, mode="L"))
    data = large_folder(tmp_path, sample=10, seed=1)
    assert data is not None
    assert data.class_names == ("cat", "dog")
    assert (data.n_labelled, len(data.unlabelled_rows), data.n_stored) == (8, 10, 22)
    assert data.stored is not None
    seen = [*data.x[:, 0, 0, 0].tolist(), *data.stored.rows(range(22))[:, 0, 0, 0].tolist()]
    assert sorted(seen) == list(range(40))
    assert large_folder(tmp_path, sample=32) is None

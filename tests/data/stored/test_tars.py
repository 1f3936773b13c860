"""Images in tar files: their places are found once and checked ever after."""

import gc
import io
import tarfile
from pathlib import Path

import numpy as np
import pytest
from tests.data.stored.conftest import png

from dessl.data import DataError, open_rows
from dessl.data.stored.places import files_at
from dessl.data.stored.tars import HEADER, tar_files


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


def test_other_members_are_skipped_and_each_place_is_the_file_s_own(tars: Path) -> None:
    stored = tar_files(files_at(tars, (".tar",)), size=3, colour="rgb")
    assert (len(stored), stored.shape) == (12, (3, 3, 3))
    places = np.fromfile(stored.index, np.int64).reshape(12, 2)
    for k, (offset, size) in enumerate(places.tolist()):
        content = (tars / f"{k // 6}.tar").read_bytes()
        assert content[offset : offset + size] == png(k)
        assert offset % HEADER == 0
    assert "0.tar" in stored.described()


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.DIRTYPE])
def test_what_is_no_file_is_no_image(tmp_path: Path, kind: bytes) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        odd = tarfile.TarInfo("a.png")
        odd.type, odd.linkname = kind, "b.png"
        tar.addfile(odd)
        info = tarfile.TarInfo("B.PNG")
        info.size = len(png(7))
        tar.addfile(info, io.BytesIO(png(7)))
    stored = tar_files(files_at(tmp_path / "a.tar", (".tar",)))
    assert stored.rows([0])[:, 0, 0, 0].tolist() == [7]


def test_a_failure_leaves_no_index(tars: Path, tmp_path: Path) -> None:
    (tars / "1.tar").write_bytes((tars / "1.tar").read_bytes()[:1200])
    index = tmp_path / "index"
    index.mkdir()
    with pytest.raises(DataError, match="a whole tar file"):
        tar_files(files_at(tars, (".tar",)), index=index)
    assert [path for path in index.iterdir() if path.suffix in (".index", ".counts")] == []

"""Images in folders, decoded as they are read."""

from pathlib import Path

import pytest
from tests.data.stored.conftest import png

from dessl.data import DataError, open_rows
from dessl.data.stored.large import large_folder


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

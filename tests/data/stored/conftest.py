"""Rows that say which they are: row k holds k in every place, image k has the colour k."""

import io
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

Shards = Callable[..., Path]


@pytest.fixture
def shards(tmp_path: Path) -> Shards:
    """A folder of npy files with so many rows each."""

    def make(*counts: int, width: int = 3, dtype: str = "float32") -> Path:
        folder, first = tmp_path / "shards", 0
        folder.mkdir()
        for number, count in enumerate(counts):
            rows = np.arange(first, first + count)[:, None].repeat(width, 1)
            np.save(folder / f"{number:03d}.npy", rows.astype(dtype))
            first += count
        return folder

    return make


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

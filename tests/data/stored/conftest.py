"""Rows that say which they are: row k holds k in every place."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

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

"""Small valid files in every format, and a measure of the memory that reading takes."""

import gc
import gzip
import struct
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray


def idx_bytes(array: NDArray[np.uint8]) -> bytes:
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()


@pytest.fixture(scope="session")
def as_idx() -> Callable[[NDArray[np.uint8]], bytes]:
    return idx_bytes


@pytest.fixture
def write_mnist() -> Callable[..., dict[str, NDArray[np.uint8]]]:
    """Write MNIST's four files with random contents; give what they hold."""

    def write(folder: Path, n: int = 7, gz: bool = True) -> dict[str, NDArray[np.uint8]]:
        rng = np.random.default_rng(0)
        arrays = {}
        for part, size in (("train", n), ("t10k", 3)):
            arrays[f"{part}-images-idx3-ubyte"] = rng.integers(0, 256, (size, 28, 28), np.uint8)
            arrays[f"{part}-labels-idx1-ubyte"] = rng.integers(0, 10, size, np.uint8)
        for name, array in arrays.items():
            data = idx_bytes(array)
            if gz:
                (folder / f"{name}.gz").write_bytes(gzip.compress(data))
            else:
                (folder / name).write_bytes(data)
        return arrays

    return write


@pytest.fixture
def peak_bytes() -> Callable[[Callable[[], object]], int]:
    """The most memory that was held at once while a function ran, NumPy's arrays included."""

    def peak(function: Callable[[], object]) -> int:
        gc.collect()
        tracemalloc.start()
        try:
            function()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    return peak

import gzip
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from dessl.data.errors import DataError
from dessl.data.formats.idx import read_idx, read_mnist

WriteMnist = Callable[..., dict[str, NDArray[np.uint8]]]


@pytest.mark.parametrize("gz", [True, False])
def test_mnist_is_read_as_written(tmp_path: Path, write_mnist: WriteMnist, gz: bool) -> None:
    arrays = write_mnist(tmp_path, gz=gz)
    data = read_mnist(tmp_path)
    assert data.x.shape == (7, 1, 28, 28)
    assert data.x.dtype == torch.uint8
    assert data.x.is_contiguous()
    assert data.y.dtype == torch.int64
    np.testing.assert_array_equal(data.x[:, 0], arrays["train-images-idx3-ubyte"])
    np.testing.assert_array_equal(data.y, arrays["train-labels-idx1-ubyte"])
    assert data.test is not None
    np.testing.assert_array_equal(data.test.x[:, 0], arrays["t10k-images-idx3-ubyte"])
    np.testing.assert_array_equal(data.test.y, arrays["t10k-labels-idx1-ubyte"])
    assert data.class_names == tuple("0123456789")


@pytest.mark.parametrize(
    ("code", "dtype"),
    [(0x08, "u1"), (0x09, "i1"), (0x0B, "i2"), (0x0C, "i4"), (0x0D, "f4"), (0x0E, "f8")],
)
def test_every_element_type_comes_in_native_order(tmp_path: Path, code: int, dtype: str) -> None:
    array = (np.arange(24).reshape(2, 3, 4) - 7 * (dtype != "u1")).astype(dtype)
    path = tmp_path / "a.idx"
    big = array.astype(np.dtype(dtype).newbyteorder(">"))
    path.write_bytes(struct.pack(">HBB3I", 0, code, 3, 2, 3, 4) + big.tobytes())
    read = read_idx(path)
    assert read.dtype == np.dtype(dtype)
    assert read.dtype.isnative
    np.testing.assert_array_equal(read, array)


@pytest.mark.parametrize("gz", [True, False])
@pytest.mark.parametrize("cut", [0, 3, 10, 700, -1])
def test_a_truncated_file_is_refused(
    tmp_path: Path, as_idx: Callable[..., bytes], gz: bool, cut: int
) -> None:
    rng = np.random.default_rng(0)
    data = as_idx(rng.integers(0, 256, (2, 28, 28), np.uint8))
    path = tmp_path / "images"
    path.write_bytes((gzip.compress(data) if gz else data)[:cut])
    with pytest.raises(DataError, match=r"images: expected .*; got .*\. .*intact copy"):
        read_idx(path)


@pytest.mark.parametrize("gz", [True, False])
def test_bytes_after_the_array_are_refused(
    tmp_path: Path, as_idx: Callable[..., bytes], gz: bool
) -> None:
    data = as_idx(np.zeros(5, np.uint8)) + b"x"
    path = tmp_path / "labels"
    path.write_bytes(gzip.compress(data) if gz else data)
    with pytest.raises(DataError, match="expected"):
        read_idx(path)


@pytest.mark.parametrize("gz", [True, False])
def test_a_header_that_claims_terabytes_takes_no_memory(
    tmp_path: Path, peak_bytes: Callable[..., int], gz: bool
) -> None:
    data = struct.pack(">HBB3I", 0, 8, 3, 2**20, 2**12, 2**10) + bytes(1000)
    path = tmp_path / "images"
    path.write_bytes(gzip.compress(data) if gz else data)

    def attempt() -> None:
        with pytest.raises(DataError, match=r"4,398,046,511,104 bytes.*max_bytes"):
            read_idx(path)
        with pytest.raises(DataError, match="4,398,046,511,104"):
            read_idx(path, max_bytes=2**60)  # even when allowed: the file cannot hold it

    assert peak_bytes(attempt) < 2**21


def test_a_gzip_bomb_is_read_no_further_than_its_header_promises(
    tmp_path: Path, peak_bytes: Callable[..., int]
) -> None:
    header = struct.pack(">HBBI", 0, 8, 1, 100)
    path = tmp_path / "bomb.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(header)
        for _ in range(64):
            file.write(bytes(2**20))

    def attempt() -> None:
        with pytest.raises(DataError, match="more bytes after it"):
            read_idx(path)

    assert peak_bytes(attempt) < 2**22


def test_wrong_magic_labels_counts_and_kinds(
    tmp_path: Path, write_mnist: WriteMnist, as_idx: Callable[..., bytes]
) -> None:
    with pytest.raises(DataError, match=r"train-images-idx3-ubyte.gz: .* got no such file"):
        read_mnist(tmp_path)
    write_mnist(tmp_path, gz=False)
    labels = tmp_path / "train-labels-idx1-ubyte"
    labels.write_bytes(as_idx(np.array([1, 2, 3, 10, 5, 6, 7], np.uint8)))
    with pytest.raises(DataError, match=r"labels from 0 to 9; got label 10 at row 3 \(1 such"):
        read_mnist(tmp_path)
    labels.write_bytes(as_idx(np.zeros(6, np.uint8)))
    with pytest.raises(DataError, match="6 labels for 7 rows"):
        read_mnist(tmp_path)
    labels.write_bytes((tmp_path / "train-images-idx3-ubyte").read_bytes())
    with pytest.raises(DataError, match=r"bytes in 1 dimension.*swapped"):
        read_mnist(tmp_path)
    labels.write_bytes(b"PK\x03\x04" + bytes(100))
    with pytest.raises(DataError, match=r"begins with 00 00.*got 504b 03 04"):
        read_mnist(tmp_path)
    labels.write_bytes(struct.pack(">HBBI", 0, 8, 1, 0))
    with pytest.raises(DataError, match="expected some data"):
        read_mnist(tmp_path)


def test_training_and_test_images_are_of_one_size(
    tmp_path: Path, write_mnist: WriteMnist, as_idx: Callable[..., bytes]
) -> None:
    write_mnist(tmp_path, gz=False)
    images = np.zeros((3, 8, 8), np.uint8)
    (tmp_path / "t10k-images-idx3-ubyte").write_bytes(as_idx(images))
    with pytest.raises(DataError, match=r"images of one size; got \(28, 28\) and \(8, 8\)"):
        read_mnist(tmp_path)


def test_images_are_read_once(
    tmp_path: Path, as_idx: Callable[..., bytes], peak_bytes: Callable[..., int]
) -> None:
    path = tmp_path / "images.gz"
    path.write_bytes(gzip.compress(as_idx(np.zeros((20_000, 28, 28), np.uint8)), 1))
    assert peak_bytes(lambda: read_idx(path)) < 1.3 * 20_000 * 28 * 28

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from dessl.data.errors import DataError
from dessl.data.formats.cifar import TRAIN_FILES, read_cifar10, read_cifar100, read_records

NAMES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]


def write_cifar10(folder: Path, n: int = 4) -> dict[str, NDArray[np.uint8]]:
    rng = np.random.default_rng(1)
    records = {}
    for name in (*TRAIN_FILES, "test_batch.bin"):
        records[name] = rng.integers(0, 256, (n, 3073), np.uint8)
        records[name][:, 0] %= 10
        records[name].tofile(folder / name)
    (folder / "batches.meta.txt").write_text("\n".join(NAMES) + "\n\n")
    return records


def write_cifar100(folder: Path) -> dict[str, NDArray[np.uint8]]:
    rng = np.random.default_rng(2)
    records = {}
    for name, n in (("train.bin", 6), ("test.bin", 3)):
        records[name] = rng.integers(0, 256, (n, 3074), np.uint8)
        records[name][:, 0] %= 20
        records[name][:, 1] %= 100
        records[name].tofile(folder / name)
    for kind, n in (("fine", 100), ("coarse", 20)):
        (folder / f"{kind}_label_names.txt").write_text("\n".join(f"{kind}{k}" for k in range(n)))
    return records


def test_cifar10_is_read_as_written(tmp_path: Path) -> None:
    records = write_cifar10(tmp_path)
    data = read_cifar10(tmp_path)
    assert data.class_names == tuple(NAMES)
    assert data.x.shape == (20, 3, 32, 32)
    assert data.x.is_contiguous()
    row = 0
    for name in TRAIN_FILES:
        for record in records[name]:
            assert data.y[row] == record[0]
            red_of_second_line = data.x[row, 0, 1]
            np.testing.assert_array_equal(red_of_second_line, record[1 + 32 : 1 + 64])
            blue_corner = data.x[row, 2, 31, 31]
            assert blue_corner == record[-1]
            row += 1
    assert data.test is not None
    np.testing.assert_array_equal(data.test.x.reshape(4, -1), records["test_batch.bin"][:, 1:])
    np.testing.assert_array_equal(data.test.y, records["test_batch.bin"][:, 0])


@pytest.mark.parametrize(("labels", "column"), [("fine", 1), ("coarse", 0)])
def test_cifar100_has_two_labels(tmp_path: Path, labels: str, column: int) -> None:
    records = write_cifar100(tmp_path)
    data = read_cifar100(tmp_path, labels=labels)
    assert data.class_names[3] == f"{labels}3"
    assert data.test is not None
    np.testing.assert_array_equal(data.y, records["train.bin"][:, column])
    np.testing.assert_array_equal(data.test.y, records["test.bin"][:, column])
    np.testing.assert_array_equal(data.x.reshape(6, -1), records["train.bin"][:, 2:])
    with pytest.raises(ValueError, match="labels must be one of 'fine', 'coarse'"):
        read_cifar100(tmp_path, labels="medium")


def test_records_beyond_one_chunk_keep_their_order(tmp_path: Path) -> None:
    records = np.random.default_rng(3).integers(0, 10, (1300, 3073), np.uint8)
    records.tofile(tmp_path / "many.bin")
    x, y = read_records([tmp_path / "many.bin"], (10,))
    np.testing.assert_array_equal(x.reshape(1300, -1), records[:, 1:])
    np.testing.assert_array_equal(y[:, 0], records[:, 0])


def test_what_is_wrong_is_said(tmp_path: Path) -> None:
    records = write_cifar10(tmp_path)
    third = tmp_path / "data_batch_3.bin"
    third.write_bytes(records["data_batch_3.bin"].tobytes()[:-1])
    with pytest.raises(DataError, match=r"data_batch_3.bin: expected a whole number of records of"):
        read_cifar10(tmp_path)
    third.write_bytes(b"")
    with pytest.raises(DataError, match="got 0 bytes"):
        read_cifar10(tmp_path)
    wrong = records["data_batch_3.bin"].copy()
    wrong[2, 0] = 77
    wrong.tofile(third)
    with pytest.raises(DataError, match=r"data_batch_3.bin: .*got label 77 at row 2"):
        read_cifar10(tmp_path)
    records["data_batch_3.bin"].tofile(third)
    with pytest.raises(DataError, match=r"at most 1,000 bytes of data; got 61,440"):
        read_cifar10(tmp_path, max_bytes=1000)
    (tmp_path / "batches.meta.txt").write_text("cat\ndog\n")
    with pytest.raises(DataError, match="expected 10 class names, one per line; got 2 different"):
        read_cifar10(tmp_path)
    (tmp_path / "batches.meta.txt").unlink()
    with pytest.raises(DataError, match=r"batches.meta.txt: .*no such file"):
        read_cifar10(tmp_path)


def test_images_cost_their_own_bytes(tmp_path: Path, peak_bytes: Callable[..., int]) -> None:
    np.zeros((10_000, 3073), np.uint8).tofile(tmp_path / "batch.bin")
    paths = [tmp_path / "batch.bin"] * 2
    assert peak_bytes(lambda: read_records(paths, (10,))) < 1.1 * 20_000 * 3072

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from dessl.data.errors import DataError
from dessl.data.formats.stl10 import read_stl10, swap_rows_and_columns

NAMES = ["airplane", "bird", "car", "cat", "deer", "dog", "horse", "monkey", "ship", "truck"]


def write(folder: Path, n: int = 3) -> dict[str, NDArray[np.uint8]]:
    """Write STL-10's files from images (n, height, width, channels); give those."""
    rng = np.random.default_rng(0)
    images = {}
    for part, count in (("train", n), ("unlabeled", 5), ("test", 2)):
        images[part] = rng.integers(0, 256, (count, 96, 96, 3), np.uint8)
        with (folder / f"{part}_X.bin").open("wb") as file:
            for image in images[part]:
                for channel in range(3):
                    # column-major: the first column comes first
                    file.write(image[:, :, channel].tobytes(order="F"))
    (folder / "train_y.bin").write_bytes(bytes(range(1, n + 1)))
    (folder / "test_y.bin").write_bytes(bytes([10, 1]))
    (folder / "class_names.txt").write_text("\n".join(NAMES) + "\n")
    return images


def test_images_are_read_as_written(tmp_path: Path) -> None:
    images = write(tmp_path)
    data = read_stl10(tmp_path)
    everything = np.concatenate([images["train"], images["unlabeled"]])
    np.testing.assert_array_equal(data.x, np.moveaxis(everything, 3, 1))
    assert data.x.is_contiguous()
    assert data.y.tolist() == [0, 1, 2, -1, -1, -1, -1, -1]
    assert data.test is not None
    np.testing.assert_array_equal(data.test.x, np.moveaxis(images["test"], 3, 1))
    assert data.test.y.tolist() == [9, 0]
    assert data.class_names == tuple(NAMES)


def test_the_unlabelled_images_can_stay_out(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "unlabeled_X.bin").unlink()
    assert read_stl10(tmp_path, unlabelled=False).y.tolist() == [0, 1, 2]
    with pytest.raises(DataError, match=r"unlabeled_X.bin: .*no such file"):
        read_stl10(tmp_path)


def test_what_is_wrong_is_said(tmp_path: Path) -> None:
    write(tmp_path)
    with pytest.raises(DataError, match="at most 1,000 bytes of data"):
        read_stl10(tmp_path, max_bytes=1000)
    (tmp_path / "train_y.bin").write_bytes(bytes([1, 0, 3]))
    with pytest.raises(DataError, match="labels from 1 to 10; got label 0 at row 1"):
        read_stl10(tmp_path)
    (tmp_path / "train_y.bin").write_bytes(bytes([1, 2]))
    with pytest.raises(DataError, match="2 labels for 3 rows"):
        read_stl10(tmp_path)
    (tmp_path / "train_y.bin").write_bytes(bytes([1, 2, 3]))
    with (tmp_path / "test_X.bin").open("ab") as file:
        file.write(b"x")
    with pytest.raises(DataError, match="whole number of images of 27,648 bytes; got 55,297"):
        read_stl10(tmp_path)
    (tmp_path / "class_names.txt").write_text("cat\n" * 10)
    with pytest.raises(DataError, match="10 different class names; got 1"):
        read_stl10(tmp_path)


def test_swapping_in_place_needs_no_second_copy(peak_bytes: Callable[..., int]) -> None:
    images = np.random.default_rng(0).integers(0, 256, (600, 3, 96, 96), np.uint8)
    expected = images.swapaxes(2, 3).copy()
    assert peak_bytes(lambda: swap_rows_and_columns(images)) < images.nbytes / 5
    np.testing.assert_array_equal(images, expected)

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import scipy.io
import torch

from dessl.data.errors import DataError
from dessl.data.formats.svhn import read_svhn


class Written(NamedTuple):
    """What SciPy reads back from the training file, and both files' checksums."""

    arrays: dict[str, np.ndarray]
    checksums: dict[str, str]


def write(folder: Path, n: int = 6, **change: object) -> Written:
    """Files of SVHN's form."""
    rng = np.random.default_rng(0)
    for part in ("train", "test"):
        arrays = {
            "X": rng.integers(0, 256, (32, 32, 3, n), np.uint8),
            "y": (np.arange(n) % 10 + 1).astype(np.uint8)[:, None],
        }
        scipy.io.savemat(folder / f"{part}_32x32.mat", arrays | change, do_compression=True)
    checksums = {
        path.name: f"md5:{hashlib.md5(path.read_bytes()).hexdigest()}"
        for path in folder.glob("*.mat")
    }
    return Written(scipy.io.loadmat(folder / "train_32x32.mat"), checksums)


def test_images_are_read_in_their_order(tmp_path: Path) -> None:
    seen, checksums = write(tmp_path, 12)
    data = read_svhn(tmp_path, checksums=checksums)
    assert data.x.shape == (12, 3, 32, 32)
    assert data.x.is_contiguous()
    for row in range(12):
        np.testing.assert_array_equal(data.x[row], np.moveaxis(seen["X"][..., row], 2, 0))
    assert data.y.tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2]  # 10 stands for 0
    assert data.class_names == tuple("0123456789")
    assert data.test is not None
    assert data.test.x.shape == (12, 3, 32, 32)


def test_labels_may_be_stored_as_doubles_and_one_image_is_enough(tmp_path: Path) -> None:
    seen, checksums = write(tmp_path, 1, y=np.array([[10.0]]))
    data = read_svhn(tmp_path, checksums=checksums)
    np.testing.assert_array_equal(data.x[0], np.moveaxis(seen["X"].reshape(32, 32, 3), 2, 0))
    assert data.y.tolist() == [0]


@pytest.mark.parametrize("rebuilt", [True, False])
@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"y": np.full((6, 1), 11, np.uint8)}, "labels from 1 to 10; got label 11 at row 0"),
        ({"y": np.full((6, 1), 1.5)}, "got label 1.5"),
        ({"y": np.full((6, 1), np.nan)}, "got label nan"),
        ({"y": np.ones((5, 1), np.uint8)}, "5 labels for 6 rows"),
        ({"X": np.zeros((32, 32, 3, 6))}, r"uint8 of shape \(32, 32, 3, n\); got float64"),
        ({"X": np.zeros((6, 32, 32, 3), np.uint8)}, r"got uint8 of shape \(6, 32, 32, 3\)"),
        ({"X": "text"}, "real numbers in 'X'; got text"),
        ({"X": np.zeros((32, 32, 3, 0), np.uint8)}, "6 labels for 0 rows"),
    ],
)
def test_what_is_wrong_is_said(
    tmp_path: Path, change: dict[str, object], complaint: str, rebuilt: bool
) -> None:
    checksums = write(tmp_path, **change).checksums
    with pytest.raises(DataError, match=complaint):
        read_svhn(tmp_path, checksums=None if rebuilt else checksums)


def test_rebuilt_files_are_read_like_the_publishers(tmp_path: Path) -> None:
    checksums = write(tmp_path, 12).checksums
    with pytest.raises(DataError, match=r"another file.*belong in the folder svhn_rebuilt"):
        read_svhn(tmp_path)
    ours, theirs = read_svhn(tmp_path, checksums=None), read_svhn(tmp_path, checksums=checksums)
    assert torch.equal(ours.x, theirs.x)
    assert torch.equal(ours.y, theirs.y)


def test_an_absent_array_is_named(tmp_path: Path) -> None:
    for part in ("train", "test"):
        scipy.io.savemat(tmp_path / f"{part}_32x32.mat", {"X": 1})
    digest = f"md5:{hashlib.md5((tmp_path / 'train_32x32.mat').read_bytes()).hexdigest()}"
    with pytest.raises(DataError, match=r"an array 'y'; got none of that name"):
        read_svhn(tmp_path, checksums={"train_32x32.mat": digest, "test_32x32.mat": digest})


@pytest.mark.parametrize("content", [b"MATLAB 5.0 MAT-file", b"", b"\x89PNG"])
def test_a_file_other_than_the_publishers_is_refused_unread(tmp_path: Path, content: bytes) -> None:
    for part in ("train", "test"):
        (tmp_path / f"{part}_32x32.mat").write_bytes(content)
    with pytest.raises(DataError, match=r"train_32x32.mat: expected .* checksum md5:e26dedcc"):
        read_svhn(tmp_path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"train_32x32.mat: .*got no such file"):
        read_svhn(tmp_path)


def test_images_cost_their_own_bytes(tmp_path: Path, peak_bytes: Callable[..., int]) -> None:
    checksums = write(
        tmp_path, X=np.zeros((32, 32, 3, 8000), np.uint8), y=np.ones((8000, 1), np.uint8)
    ).checksums
    assert peak_bytes(lambda: read_svhn(tmp_path, checksums=checksums)) < 2.5 * 8000 * 3072

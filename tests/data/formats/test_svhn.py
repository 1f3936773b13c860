from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.io

from dessl.data.errors import DataError
from dessl.data.formats.svhn import read_cropped_digits, read_svhn


def write(folder: Path, n: int = 6, **change: object) -> dict[str, np.ndarray]:
    """Files of SVHN's form; give what SciPy reads back from the training file."""
    rng = np.random.default_rng(0)
    for part in ("train", "test"):
        arrays = {
            "X": rng.integers(0, 256, (32, 32, 3, n), np.uint8),
            "y": (np.arange(n) % 10 + 1).astype(np.uint8)[:, None],
        }
        scipy.io.savemat(folder / f"{part}_32x32.mat", arrays | change, do_compression=True)
    return scipy.io.loadmat(folder / "train_32x32.mat")


def test_images_are_read_as_scipy_reads_them(tmp_path: Path) -> None:
    seen = write(tmp_path, 12)
    data = read_svhn(tmp_path)
    assert data.x.shape == (12, 3, 32, 32)
    assert data.x.flags.c_contiguous
    for row in range(12):
        np.testing.assert_array_equal(data.x[row], np.moveaxis(seen["X"][..., row], 2, 0))
    assert data.y.tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2]  # 10 stands for 0
    assert data.class_names == tuple("0123456789")
    assert data.test is not None
    assert data.test.x.shape == (12, 3, 32, 32)


def test_labels_may_be_stored_as_doubles_and_one_image_is_enough(tmp_path: Path) -> None:
    seen = write(tmp_path, 1, y=np.array([[10.0]]))
    part = read_cropped_digits(tmp_path / "train_32x32.mat")
    np.testing.assert_array_equal(part.x[0], np.moveaxis(seen["X"].reshape(32, 32, 3), 2, 0))
    assert part.y.tolist() == [0]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"y": np.full((6, 1), 11, np.uint8)}, "labels from 1 to 10; got label 11 at row 0"),
        ({"y": np.full((6, 1), 1.5)}, "got label 1.5"),
        ({"y": np.full((6, 1), np.nan)}, "got label nan"),
        ({"y": np.ones((5, 1), np.uint8)}, "5 labels for 6 rows"),
        ({"X": np.zeros((32, 32, 3, 6))}, r"uint8 of shape \(32, 32, 3, n\); got float64"),
        ({"X": np.zeros((6, 32, 32, 3), np.uint8)}, r"got uint8 of shape \(6, 32, 32, 3\)"),
        ({"X": "text"}, "real numbers in 'X'"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, change: dict[str, object], complaint: str) -> None:
    write(tmp_path, **change)
    with pytest.raises(DataError, match=complaint):
        read_svhn(tmp_path)


def test_images_cost_their_own_bytes(tmp_path: Path, peak_bytes: Callable[..., int]) -> None:
    arrays = {"X": np.zeros((32, 32, 3, 8000), np.uint8), "y": np.ones((8000, 1), np.uint8)}
    scipy.io.savemat(tmp_path / "a.mat", arrays, do_compression=True)
    assert peak_bytes(lambda: read_cropped_digits(tmp_path / "a.mat")) < 1.2 * 8000 * 3072

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from dessl.data.errors import DataError
from dessl.data.formats.medmnist import read_medmnist


def arrays(channels: int | None = 3) -> dict[str, NDArray[np.uint8]]:
    rng = np.random.default_rng(0)
    made = {}
    for part, n in (("train", 9), ("val", 4), ("test", 5)):
        shape = (n, 28, 28) if channels is None else (n, 28, 28, channels)
        made[f"{part}_images"] = rng.integers(0, 256, shape, np.uint8)
        made[f"{part}_labels"] = (np.arange(n, dtype=np.uint8) % 3)[:, None]
    return made


@pytest.mark.parametrize("channels", [None, 3])
def test_the_three_parts_are_read_as_written(tmp_path: Path, channels: int | None) -> None:
    made = arrays(channels)
    np.savez_compressed(tmp_path / "a.npz", **made)
    data = read_medmnist(tmp_path / "a.npz")
    assert data.class_names == ("0", "1", "2")
    assert data.validation is not None
    assert data.test is not None
    for part, x, y in (
        ("train", data.x, data.y),
        ("val", *data.validation),
        ("test", *data.test),
    ):
        images = made[f"{part}_images"].reshape(len(x), 28, 28, -1)
        np.testing.assert_array_equal(x, np.moveaxis(images, 3, 1))
        np.testing.assert_array_equal(y, made[f"{part}_labels"][:, 0])
        assert x.is_contiguous()
        assert y.dtype == torch.int64


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"train_labels": np.zeros((9, 14), np.uint8)}, "14 in train_labels.*Multi-label"),
        ({"val_labels": np.zeros((3, 1), np.uint8)}, "in the val part; got .*3 labels"),
        ({"val_labels": np.zeros((4, 1))}, "whole numbers .* got float64"),
        ({"test_labels": np.full((5, 1), 3, np.uint8)}, "labels from 0 to 2; got label 3"),
        ({"test_labels": np.full((5, 1), -1, np.int8)}, "got label -1"),
        ({"train_images": np.zeros((9, 28, 28, 28), np.uint8)}, "2D image set"),
        ({"train_images": np.zeros((9, 28, 28, 3))}, "uint8 images .* got float64"),
        ({"val_images": np.zeros((4, 28, 28, 3), np.uint8, "F")}, "columns first.*contiguous"),
        ({"val_images": np.zeros((4, 28, 28), np.uint8)}, "images of one shape"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, change: dict[str, object], complaint: str) -> None:
    np.savez(tmp_path / "a.npz", **(arrays() | change))
    with pytest.raises(DataError, match=complaint):
        read_medmnist(tmp_path / "a.npz", class_names=("a", "b", "c"))


def test_a_missing_part_is_named(tmp_path: Path) -> None:
    made = arrays()
    del made["test_labels"]
    np.savez(tmp_path / "a.npz", **made)
    with pytest.raises(DataError, match="expected an array named 'test_labels'"):
        read_medmnist(tmp_path / "a.npz")


def test_one_class_alone_is_refused_unless_others_are_named(tmp_path: Path) -> None:
    one = {name: array * 0 for name, array in arrays().items()}
    np.savez(tmp_path / "a.npz", **one)
    with pytest.raises(DataError, match=r"two classes or more; got the label 0"):
        read_medmnist(tmp_path / "a.npz")
    assert read_medmnist(tmp_path / "a.npz", class_names=("a", "b")).class_names == ("a", "b")

from pathlib import Path

import numpy as np
import pytest
import torch

from dessl.data.errors import DataError
from dessl.data.formats.npz import read_new_npz, read_npz
from dessl.data.semi import SemiData


@pytest.mark.parametrize("x_name", ["x", "X", "images", "features"])
@pytest.mark.parametrize("y_name", ["y", "Y", "labels"])
def test_the_usual_names_are_understood(tmp_path: Path, x_name: str, y_name: str) -> None:
    x, y = np.arange(12.0).reshape(4, 3), np.array([0, 1, -1, 1])
    np.savez(tmp_path / "a.npz", **{x_name: x, y_name: y, "more": np.eye(2)})
    data = read_npz(tmp_path / "a.npz")
    assert data.x.dtype == torch.float32
    np.testing.assert_array_equal(data.x, x)
    assert data.y.tolist() == [0, 1, -1, 1]
    assert SemiData(data.x, data.y, class_names=data.class_names).n_unlabelled == 1


@pytest.mark.parametrize(
    ("labels", "y", "names"),
    [
        (np.array([0.0, np.nan, 1.0]), [0, -1, 1], ("0", "1")),
        (np.array([[1], [0], [-1]]), [1, 0, -1], ("0", "1")),
        (np.array(["dog", "", "cat"]), [1, -1, 0], ("cat", "dog")),
    ],
)
def test_missing_labels(
    tmp_path: Path, labels: np.ndarray, y: list[int], names: tuple[str, ...]
) -> None:
    np.savez(tmp_path / "a.npz", x=np.eye(3), y=labels)
    data = read_npz(tmp_path / "a.npz")
    assert data.y.tolist() == y
    assert data.class_names == names


def test_text_that_numpy_made_of_a_missing_label_is_warned_of(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.eye(3), y=np.array(["a", "b", np.nan]))
    with pytest.warns(
        UserWarning, match=r'a.npz, labels: .nan. is treated as a class.*save "" in its place'
    ) as caught:
        data = read_npz(tmp_path / "a.npz")
    assert caught[0].filename == __file__
    assert data.class_names == ("a", "b", "nan")
    np.savez(tmp_path / "b.npz", x=np.eye(2), y=[0, 1], class_names=["a", "nan"])
    assert read_npz(tmp_path / "b.npz").class_names == ("a", "nan")  # these are said to be classes


def test_class_names_may_come_with_the_arrays(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.eye(3), y=[2, 0, -1], class_names=["a", "b", "c"])
    assert read_npz(tmp_path / "a.npz").class_names == ("a", "b", "c")
    np.savez(tmp_path / "b.npz", x=np.eye(3), y=[2, 0, -1], class_names=[1, 2, 3])
    with pytest.raises(DataError, match=r"class_names to be text \(classes,\); got int"):
        read_npz(tmp_path / "b.npz")


@pytest.mark.parametrize(
    ("shape", "layout", "expected"),
    [
        ((4, 8, 9), None, (4, 1, 8, 9)),
        ((4, 8, 9, 3), None, (4, 3, 8, 9)),
        ((4, 3, 8, 9), None, (4, 3, 8, 9)),
        ((4, 3, 9, 3), "NHWC", (4, 3, 3, 9)),
    ],
)
def test_images_become_channels_first_and_contiguous(
    tmp_path: Path, shape: tuple[int, ...], layout: str | None, expected: tuple[int, ...]
) -> None:
    images = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    np.savez(tmp_path / "a.npz", x=images, y=[0, 1, 0, 1])
    data = read_npz(tmp_path / "a.npz", layout=layout)
    assert data.x.shape == expected
    assert data.x.is_contiguous()
    assert np.sort(data.x[1], axis=None).tolist() == np.sort(images[1], axis=None).tolist()


@pytest.mark.parametrize(
    ("arrays", "complaint"),
    [
        ({"x": np.eye(3)}, r"the labels as an array named y or Y or labels; got the arrays x"),
        ({"z": np.eye(3), "y": [0, 1, 0]}, "the features as an array named"),
        ({"x": np.eye(3), "X": np.eye(3), "y": [0, 1, 0]}, "the features as an array"),
        ({"x": np.eye(3), "y": [0, 1]}, "2 labels for 3 rows"),
        ({"x": np.full((3, 2), np.nan), "y": [0, 1, 0]}, "must be finite"),
        ({"x": np.eye(3), "y": [0, 2, 0]}, "2 occurs but 1 does not"),
        ({"x": np.eye(3), "y": [-1, 1, 1]}, "1 occurs but 0 does not"),
        ({"x": np.eye(3), "y": [0.5, 1, 1]}, "fraction 0.5"),
        ({"x": np.array(["a", "b"]), "y": [0, 1]}, "real numbers"),
        ({"x": np.zeros((2, 4, 4, 2), np.uint8), "y": [0, 1]}, "neither end is a channel axis"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, arrays: dict[str, object], complaint: str) -> None:
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(DataError, match=complaint):
        read_npz(tmp_path / "a.npz")


def test_text_that_is_no_text_is_refused(tmp_path: Path) -> None:
    broken = np.array([0x7FFFFFFF, 65, 66], np.uint32).view("U1")
    np.savez(tmp_path / "a.npz", x=np.eye(3), y=broken)
    with pytest.raises(DataError, match="expected text in 'y'; got the code point 0x7fffffff"):
        read_npz(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", x=np.eye(3), y=[0, 1, 2], class_names=broken)
    with pytest.raises(DataError, match="expected text in 'class_names'"):
        read_npz(tmp_path / "b.npz")


def test_new_rows_take_the_models_classes_and_may_have_no_labels(tmp_path: Path) -> None:
    path = tmp_path / "new.npz"
    np.savez(path, x=np.eye(3))
    assert read_new_npz(path, ["no", "yes"]).y.tolist() == [-1, -1, -1]
    np.savez(path, x=np.eye(3), y=np.array(["yes", "", "no"]))
    assert read_new_npz(path, ["yes", "no"]).y.tolist() == [0, -1, 1]
    np.savez(path, x=np.eye(3), y=np.array([[1], [-1], [0]]))
    assert read_new_npz(path, ["0", "1"]).y.tolist() == [1, -1, 0]
    np.savez(path, x=np.eye(3), y=np.array(["perhaps", "", "no"]))
    with pytest.raises(DataError, match="'perhaps', which is not among the class names"):
        read_new_npz(path, ["yes", "no"])
    assert read_new_npz(path, ["yes", "no"], labels=False).y.tolist() == [-1, -1, -1]
    np.savez(path, x=np.eye(3), y=np.array([0, 1]))
    with pytest.raises(DataError, match="2 labels for 3 rows"):
        read_new_npz(path, ["0", "1"])


def test_numbers_stand_for_the_files_own_class_names(tmp_path: Path) -> None:
    path, model = tmp_path / "new.npz", ["benign", "malignant", "other"]
    names = np.array(["malignant", "other", "benign"])
    np.savez(path, x=np.eye(4), y=[0, 1, 2, -1], class_names=names)
    assert read_new_npz(path, model).y.tolist() == [1, 2, 0, -1]
    np.savez(path, x=np.eye(4), y=[0.0, 0.0, np.nan, 0.0], class_names=names[:1])
    assert read_new_npz(path, model).y.tolist() == [1, 1, -1, 1]
    np.savez(path, x=np.eye(2), y=["other", ""], class_names=names)
    assert read_new_npz(path, model).y.tolist() == [2, -1]


@pytest.mark.parametrize(
    ("y", "names", "complaint"),
    [
        ([0, 1], ["benign", "cyst"], r"among the model's classes 'benign', .*; got 'cyst'. Name"),
        ([0, 1], ["other", "other"], r"class_names must differ.*; got 'other', 'other'"),
        ([0, 2], ["other", "benign"], "class numbers below 2, the number of class names; got 2"),
        (["benign", "cyst"], ["other", "benign"], "'cyst', which is not among the class names"),
    ],
)
def test_names_that_the_model_lacks_are_refused(
    tmp_path: Path, y: list[object], names: list[str], complaint: str
) -> None:
    path, model = tmp_path / "new.npz", ["benign", "malignant", "other"]
    np.savez(path, x=np.eye(2), y=y, class_names=names)
    with pytest.raises(DataError, match=complaint):
        read_new_npz(path, model)
    assert read_new_npz(path, model, labels=False).y.tolist() == [-1, -1]


@pytest.mark.parametrize("model", [("1", "2", "3"), ("3", "2", "1"), ("10", "2", "1")])
def test_numbers_without_names_are_the_names(tmp_path: Path, model: tuple[str, ...]) -> None:
    path = tmp_path / "new.npz"
    np.savez(path, x=np.eye(3), y=np.array([1, 2, -1]))
    assert read_new_npz(path, model).y.tolist() == [model.index("1"), model.index("2"), -1]


@pytest.mark.parametrize(
    ("model", "number"), [(("cat", "dog"), 0), (("1", "2"), 0), (("0", "1"), 2), (("-1", "0"), -1)]
)
def test_numbers_that_are_no_names_are_refused(
    tmp_path: Path, model: tuple[str, ...], number: int
) -> None:
    path = tmp_path / "new.npz"
    np.savez(path, x=np.eye(2), y=[0, max(number, -1)])
    with pytest.raises(DataError, match=rf"got the number {number}\. Save the labels as text"):
        read_new_npz(path, model)

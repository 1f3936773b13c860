"""Embeddings in npy files: types, files side by side, labels by order or row number, bad files."""

from pathlib import Path

import numpy as np
import pytest
import torch

from dessl import SemiData
from dessl.data.errors import DataError
from dessl.data.formats.npy import read_embeddings, read_new_embeddings

VECTORS = np.random.default_rng(0).normal(size=(6, 3))
LABELS = ["cat", "dog", "", "cat", "", "dog"]
CODES = [0, 1, -1, 0, -1, 1]


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    path = tmp_path / "labels.csv"
    path.write_text("\n".join(["animal", *LABELS]) + "\n")
    return path


def saved(path: Path, array: np.ndarray) -> Path:
    np.save(path, array)
    return path


@pytest.mark.parametrize("kind", ["<f2", "<f4", ">f4", "<f8", ">f8", "<i4"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_every_type_becomes_float32(tmp_path: Path, labels: Path, kind: str, order: str) -> None:
    array = np.asarray((VECTORS * 8).astype(kind), order=order)
    data = read_embeddings([saved(tmp_path / "a.npy", array)], labels=labels)
    np.testing.assert_array_equal(data.x, array.astype(np.float32))
    assert data.x.dtype == torch.float32
    assert (data.y.tolist(), data.class_names) == (CODES, ("cat", "dog"))


def test_one_float32_file_is_mapped_and_not_copied(tmp_path: Path, labels: Path) -> None:
    path = saved(tmp_path / "a.npy", VECTORS.astype(np.float32))
    data = SemiData.from_file(path, labels=labels)
    with path.open("r+b") as file:
        file.seek(-4, 2)
        file.write(np.float32(7).tobytes())
    assert data.x[-1, -1] == 7  # what is on disk now
    assert data.name == "a"


def test_files_are_put_side_by_side(
    tmp_path: Path, labels: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dessl.data.formats.npy.AT_ONCE", 6)  # two rows at a time
    one = saved(tmp_path / "a.npy", VECTORS.astype(np.float16))
    two = saved(tmp_path / "b.npy", VECTORS[:, :2])
    data = SemiData.from_file(one, two, labels=labels)
    expected = np.hstack([VECTORS.astype(np.float16), VECTORS[:, :2].astype(np.float32)])
    np.testing.assert_array_equal(data.x, expected.astype(np.float32))
    with pytest.raises(DataError, match=r"b\.npy: expected 6 rows, as .*a\.npy has; got 5"):
        read_embeddings([one, saved(two, VECTORS[:5])], labels=labels)
    with pytest.raises(ValueError, match=r"if all are \.npy"):
        SemiData.from_file(labels, one, label="animal")


def test_labels_may_have_row_numbers_or_be_an_array(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.npy", VECTORS)
    rows = tmp_path / "rows.csv"
    rows.write_text("row,animal,by\n5,dog,A\n0,cat,B\n1,dog,A\n3,cat,B\n4,,A\n")
    data = read_embeddings([path], labels=rows, label="animal")
    assert (data.y.tolist(), data.class_names) == (CODES, ("cat", "dog"))
    text = saved(tmp_path / "y.npy", np.array(LABELS))
    assert read_embeddings([path], labels=text).y.tolist() == CODES
    numbers = saved(tmp_path / "y.npy", np.array(CODES))
    assert read_embeddings([path], labels=numbers).class_names == ("0", "1")


def test_new_rows_take_the_models_classes(tmp_path: Path, labels: Path) -> None:
    path = saved(tmp_path / "a.npy", VECTORS)
    assert read_new_embeddings([path], ("dog", "cat")).y.tolist() == [-1] * 6
    new = read_new_embeddings([path], ("dog", "cat"), labels=labels)
    assert new.y.tolist() == [1, 0, -1, 1, -1, 0]
    text = saved(tmp_path / "y.npy", np.array(LABELS))
    assert read_new_embeddings([path], ("dog", "cat"), labels=text).y.equal(new.y)
    with pytest.raises(DataError, match="one of dog, cow; got 'cat'"):
        read_new_embeddings([path], ("dog", "cow"), labels=labels)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e300])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_rows_that_are_not_finite_are_named(
    tmp_path: Path, labels: Path, bad: float, kind: type
) -> None:
    array = VECTORS.copy()
    array[[1, 4], 2] = bad
    with np.errstate(over="ignore"):
        path = saved(tmp_path / "a.npy", array.astype(kind))
    with pytest.raises(DataError, match="in 2 of 6 rows: 1, 4"):
        read_embeddings([path], labels=labels)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (VECTORS[:, 0], r"one row for each sample.* got float64 of shape \(6,\)"),
        (np.zeros((6, 3, 2)), r"got float64 of shape \(6, 3, 2\)"),
        (np.zeros((6, 3), np.complex64), "Python objects are not read"),
        (np.full((6, 3), "x"), "got <U1"),
        (np.zeros((0, 3)), "an array with rows"),
    ],
)
def test_arrays_of_another_kind(
    tmp_path: Path, labels: Path, array: np.ndarray, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        read_embeddings([saved(tmp_path / "a.npy", array)], labels=labels)


def test_objects_are_never_unpickled(tmp_path: Path, labels: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.array([[print, 1]], dtype=object), allow_pickle=True)
    with pytest.raises(DataError, match="Python objects are not read"):
        read_embeddings([path], labels=labels)


def test_a_header_that_states_more_than_there_is(tmp_path: Path, labels: Path) -> None:
    path = saved(tmp_path / "a.npy", VECTORS)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DataError, match=r"144 bytes after the header.* got 143 bytes"):
        read_embeddings([path], labels=labels)
    with pytest.raises(DataError, match="at most 10 bytes"):
        read_embeddings([saved(path, VECTORS)], labels=labels, max_bytes=10)
    with pytest.raises(DataError, match="no such file"):
        read_embeddings([tmp_path / "b.npy"], labels=labels)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("animal\ncat\ndog\n", "6 labels, one for each row of the embeddings; got 2"),
        ("cat\ndog\ncat\ndog\ncat\ndog\n", "The first line of a table names its columns"),
        ("a,b\nx,y\n", r"got the columns 'a', 'b'.*Pass --label NAME"),
        ("row,animal\n0,cat\n6,dog\n", "row numbers from 0 to 5; got 6 in data row 2"),
        ("row,animal\n0,cat\n0,dog\n", "got 0 in data row 2"),
        ("row,animal\n0,cat\n1.5,dog\n", "got 1.5 in data row 2"),
        ("row,animal\n0,cat\n,dog\n", "different row numbers"),
    ],
)
def test_labels_that_do_not_match_the_rows(tmp_path: Path, text: str, message: str) -> None:
    path, labels = saved(tmp_path / "a.npy", VECTORS), tmp_path / "labels.csv"
    labels.write_text(text)
    with pytest.raises(DataError, match=message):
        read_embeddings([path], labels=labels)

"""Damaged files of every format: a DataError, or data in its promised form, and nothing else."""

import gzip
import hashlib
import io
import struct
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
import scipy.io
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from dessl.data.errors import DataError
from dessl.data.formats.cifar import read_cifar10, read_cifar100
from dessl.data.formats.fitting import read_table
from dessl.data.formats.folder import read_image_folder
from dessl.data.formats.idx import read_mnist
from dessl.data.formats.medmnist import read_medmnist
from dessl.data.formats.npy import read_embeddings
from dessl.data.formats.npz import read_npz
from dessl.data.formats.stl10 import read_stl10
from dessl.data.formats.svhn import read_svhn
from dessl.data.parts import RawData

RNG = np.random.default_rng(0)


class Case(NamedTuple):
    """The valid files of a format, the one among them to damage, and how to read them."""

    files: dict[str, bytes]
    damaged: str
    read: Callable[[Path], RawData]


def idx(array: np.ndarray) -> bytes:
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()


def mnist(*, gz: bool, damaged: str) -> Case:
    pack, suffix = (gzip.compress, ".gz") if gz else (bytes, "")
    files = {}
    for part in ("train", "t10k"):
        images = RNG.integers(0, 256, (4, 5, 5), np.uint8)
        files[f"{part}-images-idx3-ubyte{suffix}"] = pack(idx(images))
        files[f"{part}-labels-idx1-ubyte{suffix}"] = pack(idx(np.arange(4, dtype=np.uint8)))
    return Case(files, f"train-{damaged}-ubyte{suffix}", read_mnist)


def records(labels: int, n: int) -> bytes:
    array = RNG.integers(0, 256, (n, labels + 3072), np.uint8)
    array[:, :labels] %= 10
    return array.tobytes()


def cifar10(damaged: str) -> Case:
    files = {f"data_batch_{k}.bin": records(1, 1) for k in range(1, 6)}
    names = "\n".join("abcdefghij").encode()
    return Case(
        files | {"test_batch.bin": records(1, 1), "batches.meta.txt": names}, damaged, read_cifar10
    )


def cifar100() -> Case:
    names = "\n".join(map(str, range(100))).encode()
    files = {"train.bin": records(2, 2), "test.bin": records(2, 1), "fine_label_names.txt": names}
    return Case(files, "train.bin", read_cifar100)


def npz(read: Callable[[Path], RawData], *, compressed: bool, **arrays: object) -> Case:
    buffer = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(buffer, **arrays)
    return Case({"a.npz": buffer.getvalue()}, "a.npz", lambda folder: read(folder / "a.npz"))


def medmnist() -> Case:
    arrays = {}
    for part in ("train", "val", "test"):
        arrays[f"{part}_images"] = RNG.integers(0, 256, (3, 4, 4, 3), np.uint8)
        arrays[f"{part}_labels"] = np.array([[0], [1], [2]], np.uint8)
    return npz(read_medmnist, compressed=True, **arrays)


def svhn(*, compressed: bool, rebuilt: bool = False) -> Case:
    buffer = io.BytesIO()
    x = RNG.integers(0, 8, (32, 32, 3, 2), np.uint8)
    y = np.array([[1], [10]], np.uint8)
    scipy.io.savemat(buffer, {"X": x, "y": y}, do_compression=compressed)
    files = dict.fromkeys(("train_32x32.mat", "test_32x32.mat"), buffer.getvalue())
    checksum = f"md5:{hashlib.md5(buffer.getvalue()).hexdigest()}"
    checksums = None if rebuilt else dict.fromkeys(files, checksum)
    return Case(files, "train_32x32.mat", partial(read_svhn, checksums=checksums))


def stl10(damaged: str) -> Case:
    image = RNG.integers(0, 256, 3 * 96 * 96, np.uint8).tobytes()
    files = {f"{part}_X.bin": image for part in ("train", "unlabeled", "test")}
    files |= {"train_y.bin": b"\x01", "test_y.bin": b"\x0a"}
    files["class_names.txt"] = "\n".join("abcdefghij").encode()
    return Case(files, damaged, read_stl10)


def images(kind: str) -> Case:
    files = {}
    for name in ("a", "b", "unlabelled"):
        buffer = io.BytesIO()
        Image.fromarray(RNG.integers(0, 256, (9, 9, 3), np.uint8)).save(buffer, kind)
        files[f"{name}/1.{kind}"] = buffer.getvalue()
    return Case(files, f"a/1.{kind}", read_image_folder)


def table(suffix: str) -> Case:
    frame = pd.DataFrame({"n": [1.5, None, 3.0, 2.0] * 5, "w": ["x", "y", "x", None] * 5})
    frame["d"] = [f"2024-0{k % 9 + 1}-11T0{k % 7}:30+02:00" for k in range(20)]
    frame["t"] = [f"said {'ab'[k % 2]} and no {k}" for k in range(20)]
    frame["y"] = ["a", "b", None, "b"] * 5
    buffer = io.BytesIO()
    if suffix == "jsonl":
        frame.to_json(buffer, orient="records", lines=True)
    else:
        write = {"csv": frame.to_csv, "parquet": frame.to_parquet, "xlsx": frame.to_excel}[suffix]
        write(buffer, index=False)
    name = f"a.{suffix}"
    return Case(
        {name: buffer.getvalue()}, name, lambda folder: read_table(folder / name, label="y")[0]
    )


def embeddings(damaged: str) -> Case:
    files = {"labels.csv": b"row,animal\n0,cat\n2,dog\n"}
    for name, array in (("a.npy", np.eye(4)), ("y.npy", np.array(["a", "", "b", "b"]))):
        buffer = io.BytesIO()
        np.save(buffer, array)
        files[name] = buffer.getvalue()
    labels = "y.npy" if damaged == "y.npy" else "labels.csv"
    return Case(
        files, damaged, lambda f: read_embeddings([f / "a.npy", f / "a.npy"], labels=f / labels)
    )


CASES = {
    "idx images": mnist(gz=False, damaged="images-idx3"),
    "idx labels": mnist(gz=False, damaged="labels-idx1"),
    "idx images, gz": mnist(gz=True, damaged="images-idx3"),
    "cifar10": cifar10("data_batch_2.bin"),
    "cifar10 names": cifar10("batches.meta.txt"),
    "cifar100": cifar100(),
    "medmnist": medmnist(),
    "npz": npz(read_npz, compressed=False, x=np.eye(4), y=[0, 1, -1, 1]),
    "npz of text": npz(read_npz, compressed=False, x=np.eye(3), y=["a", "", "bc"]),
    "npz, compressed": npz(read_npz, compressed=True, x=np.eye(4), y=[0, 1, -1, 1]),
    "svhn": svhn(compressed=False),
    "svhn, compressed": svhn(compressed=True),
    "svhn, rebuilt": svhn(compressed=False, rebuilt=True),
    "svhn, rebuilt, compressed": svhn(compressed=True, rebuilt=True),
    "stl10 images": stl10("unlabeled_X.bin"),
    "stl10 labels": stl10("train_y.bin"),
    **{kind: images(kind) for kind in ("png", "jpeg", "bmp", "gif", "tiff", "webp", "ppm")},
    "npy": embeddings("a.npy"),
    "npy labels": embeddings("y.npy"),
    "labels of embeddings": embeddings("labels.csv"),
    "csv": table("csv"),
    "parquet": table("parquet"),
    "xlsx": table("xlsx"),
    "jsonl": table("jsonl"),
}


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Case], Path]:
    """Lay a case's valid files out, once; each example then rewrites only the damaged one."""
    folders: dict[str, Path] = {}

    def folder(case: Case) -> Path:
        name = next(name for name, other in CASES.items() if other is case)
        if name not in folders:
            folders[name] = tmp_path_factory.mktemp("fuzz")
            for file, data in case.files.items():
                path = folders[name] / file
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(data)
        (folders[name] / case.damaged).write_bytes(case.files[case.damaged])
        return folders[name]

    return folder


def read_or_refuse(case: Case, folder: Path, content: bytes) -> None:
    """Read the damaged file: a DataError or a warning to the user is a proper answer."""
    (folder / case.damaged).write_bytes(content)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            data = case.read(folder)
    except DataError:
        return
    assert data.x.dtype in (torch.uint8, torch.float32)
    assert data.x.is_contiguous()
    assert data.y.dtype == torch.int64
    assert data.y.shape == data.x.shape[:1]
    assert data.y.min() >= -1
    assert data.y.max() < len(data.class_names)


CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["set", "flip", "drop", "repeat"]),
        st.floats(0, 1, exclude_max=True),
        st.integers(0, 255),
    ),
    min_size=1,
    max_size=4,
)


def damaged(content: bytes, changes: list[tuple[str, float, int]], near_start: bool) -> bytes:
    data = bytearray(content)
    for kind, where, value in changes:
        reach = min(len(data), 300) if near_start else len(data)
        at = int(where * reach)
        if kind == "set" and data:
            data[at] = value
        elif kind == "flip" and data:
            data[at] ^= 1 << value % 8
        elif kind == "drop":
            del data[at : at + 1 + value % 9]
        elif kind == "repeat":
            data[at:at] = data[at : at + 1 + value % 9]
    return bytes(data)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_valid_files_are_read(case: Case, folder_of: Callable[[Case], Path]) -> None:
    assert len(case.read(folder_of(case)).class_names) >= 2


# What `make explore` or a reader once found: (case, bytes before, bytes after the damage).
FOUND = {
    "a flipped bit makes the class B beside b": ("csv", b",b\n", b",B\n"),
}


@pytest.mark.parametrize(("name", "before", "after"), FOUND.values(), ids=FOUND)
def test_damage_that_was_once_mishandled(
    name: str, before: bytes, after: bytes, folder_of: Callable[[Case], Path]
) -> None:
    case = CASES[name]
    content = case.files[case.damaged]
    assert before in content
    read_or_refuse(case, folder_of(case), content.replace(before, after, 1))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@settings(max_examples=settings().max_examples // 2)
@given(changes=CHANGES, near_start=st.booleans(), cut=st.none() | st.floats(0, 1))
def test_damaged_files_give_data_or_a_data_error(
    case: Case,
    folder_of: Callable[[Case], Path],
    changes: list[tuple[str, float, int]],
    near_start: bool,
    cut: float | None,
) -> None:
    content = damaged(case.files[case.damaged], changes, near_start)
    if cut is not None:
        content = content[: int(cut * len(content))]
    read_or_refuse(case, folder_of(case), content)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@settings(max_examples=settings().max_examples // 4)
@given(content=st.binary(max_size=400), kept=st.integers(0, 40))
def test_random_bytes_give_data_or_a_data_error(
    case: Case, folder_of: Callable[[Case], Path], content: bytes, kept: int
) -> None:
    read_or_refuse(case, folder_of(case), case.files[case.damaged][:kept] + content)

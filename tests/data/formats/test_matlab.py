import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import scipy.io

from dessl.data.errors import DataError
from dessl.data.formats.matlab import Inflated, read_matrices


@pytest.mark.parametrize("compressed", [True, False])
@pytest.mark.parametrize("dtype", ["u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f4", "f8"])
@pytest.mark.parametrize("shape", [(3, 5), (1, 1), (2, 3, 4), (4, 3, 2, 5)])
def test_arrays_are_read_as_scipy_reads_them(
    tmp_path: Path, compressed: bool, dtype: str, shape: tuple[int, ...]
) -> None:
    array = np.random.default_rng(0).integers(0, 100, shape).astype(dtype)
    path = tmp_path / "a.mat"
    others = {"cells": np.array([1, "a"], object), "text": "hello", "z": 1j}
    scipy.io.savemat(path, {**others, "a": array, "b": 7}, do_compression=compressed)
    read = read_matrices(path, ("a", "b"))
    expected = scipy.io.loadmat(path, variable_names=["a", "b"])
    for name in ("a", "b"):
        assert read[name].dtype == expected[name].dtype
        np.testing.assert_array_equal(read[name], expected[name])


def element(kind: int, data: bytes, order: str = "<") -> bytes:
    padding = bytes(-len(data) % 8)
    return struct.pack(f"{order}2I", kind, len(data)) + data + padding


def matrix(
    shape: tuple[int, ...] = (3,), flags: int = 9, data: bytes | None = None, order: str = "<"
) -> bytes:
    parts = element(6, struct.pack(f"{order}2I", flags, 0), order)
    parts += element(5, struct.pack(f"{order}{len(shape)}i", *shape), order)
    parts += element(1, b"a", order)
    parts += element(2, b"abc", order) if data is None else data
    return struct.pack(f"{order}2I", 14, len(parts)) + parts


def mat_file(*elements: bytes, order: str = "<", version: int = 0x0100) -> bytes:
    mark = b"IM" if order == "<" else b"MI"
    text = b"MATLAB 5.0 MAT-file".ljust(124)
    return text + struct.pack(f"{order}H", version) + mark + b"".join(elements)


@pytest.mark.parametrize("order", ["<", ">"])
def test_both_byte_orders(tmp_path: Path, order: str) -> None:
    numbers = np.array([1, 2, 300], np.dtype(order + "u2"))
    path = tmp_path / "a.mat"
    path.write_bytes(
        mat_file(matrix((3, 1), 11, element(4, numbers.tobytes(), order), order), order=order)
    )
    read = read_matrices(path, ("a",))["a"]
    assert read.dtype.isnative
    assert read[:, 0].tolist() == [1, 2, 300]
    np.testing.assert_array_equal(read, scipy.io.loadmat(path)["a"])


TERABYTES = (2**20, 2**20, 4)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (mat_file(matrix(TERABYTES)), "4,398,046,511,104 bytes in 'a'; got 3"),
        (mat_file(element(15, zlib.compress(matrix(TERABYTES)))), "4,398,046,511,104 bytes in 'a'"),
        (
            mat_file(matrix((2**16 - 1, 2**15), 9, struct.pack("<2I", 2, 2**31 - 2**15))),
            r"2,147,450,880 bytes in 'a'; got \d\d\.",
        ),
        (
            mat_file(
                element(
                    15, zlib.compress(matrix((2**31 - 1,), 9, struct.pack("<2I", 2, 2**31 - 1)))
                )
            ),
            "compressed bytes can hold; got a promise of 2,147,483,647",
        ),
        (mat_file(matrix((-3,))), r"real numbers in 'a'; got class 9, shape \(-3,\)"),
        (mat_file(matrix(())), "real numbers in 'a'"),
        (mat_file(matrix((3,), flags=1)), "real numbers in 'a'; got class 1"),
        (mat_file(matrix((3,), flags=9 | 0x0800)), "real numbers in 'a'"),
        (mat_file(element(15, zlib.compress(element(2, b"abc")))), "a matrix in the compressed"),
        (mat_file(element(15, zlib.compress(matrix())[:-4])), "to end with its numbers"),
        (mat_file(element(15, zlib.compress(matrix() + bytes(64)))), "to end with its numbers"),
        (mat_file(element(15, b"nonsense")), "expected a MATLAB v5 file"),
        (mat_file(struct.pack("<2I", 14, 2**31) + bytes(50)), "an element of 2,147,483,648 bytes"),
        (mat_file(element(2, b"abcdefgh")), r"the variable\(s\) a; got none"),
        (mat_file(version=0x0200), "expected a MATLAB v5 file"),
        (b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM", "v7.3 .HDF5. file. Save it"),
        (b"\x89PNG", "expected 128 bytes; got only 4"),
        (bytes(200), "expected a MATLAB v5 file"),
    ],
)
def test_what_is_wrong_is_said_and_takes_no_memory(
    tmp_path: Path, peak_bytes: Callable[..., int], content: bytes, complaint: str
) -> None:
    path = tmp_path / "a.mat"
    path.write_bytes(content)

    def attempt() -> None:
        with pytest.raises(DataError, match=complaint):
            read_matrices(path, ("a",))

    assert peak_bytes(attempt) < 2**22


def test_a_compressed_bomb_is_refused_by_the_limit(
    tmp_path: Path, peak_bytes: Callable[..., int]
) -> None:
    path = tmp_path / "a.mat"
    scipy.io.savemat(path, {"a": np.zeros(2**25, np.uint8)}, do_compression=True)
    assert path.stat().st_size < 2**17

    def attempt() -> None:
        with pytest.raises(DataError, match="at most 1,048,576 bytes of data"):
            read_matrices(path, ("a",), max_bytes=2**20)

    assert peak_bytes(attempt) < 2**22


@pytest.mark.parametrize("size", [1, 7, 1000, 10**6])
def test_inflating_gives_every_byte_in_pieces_of_any_size(tmp_path: Path, size: int) -> None:
    data = np.random.default_rng(0).integers(0, 3, 20_000, np.uint8).tobytes() + bytes(300_000)
    compressed = zlib.compress(data)
    (tmp_path / "z").write_bytes(compressed + b"behind")
    with (tmp_path / "z").open("rb") as file:
        source = Inflated(file, len(compressed))
        limit = 30_000 if size < 100 else len(data)
        read = b""
        while len(read) < limit and (piece := source.read(size)):
            assert len(piece) <= size
            read += piece
    assert read == data[: len(read)]
    assert len(read) >= limit

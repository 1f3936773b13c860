"""MATLAB 5 files: the arrays are SciPy's, and a damaged file is refused before it does harm."""

import io
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
import scipy.io

from dessl.data.errors import DataError
from dessl.data.formats.matlab import read_matlab

TYPES = ("f8", "f4", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8")


def element(kind: int, data: bytes, order: str = "<") -> bytes:
    return struct.pack(f"{order}2I", kind, len(data)) + data + bytes(-len(data) % 8)


def header(order: str = "<", version: int = 0x0100) -> bytes:
    mark = struct.pack(f"{order}2H", version, 0x4D49)
    return b"MATLAB 5.0 MAT-file".ljust(124) + mark


def matrix(
    flags: int = 9,
    shape: tuple[int, ...] = (3, 1),
    name: bytes = b"X",
    kind: int = 2,
    values: bytes = b"abc",
    order: str = "<",
) -> bytes:
    """One array element; by default of three uint8."""
    dimensions = struct.pack(f"{order}{len(shape)}i", *shape)
    parts = (6, struct.pack(f"{order}2I", flags, 0)), (5, dimensions), (1, name), (kind, values)
    return element(14, b"".join(element(*part, order) for part in parts), order)


@pytest.fixture
def written(tmp_path: Path):
    def write(content: bytes) -> Path:
        (tmp_path / "a.mat").write_bytes(content)
        return tmp_path / "a.mat"

    return write


@pytest.mark.parametrize("compressed", [True, False])
def test_arrays_are_those_that_scipy_reads(tmp_path: Path, compressed: bool) -> None:
    rng = np.random.default_rng(0)
    arrays = {
        f"{kind}_{len(shape)}_{shape[-1]}": (100 * rng.random(shape)).astype(kind)
        for kind in TYPES
        for shape in ((4, 3), (2, 3, 4), (1, 1), (1, 3), (0, 2))
    }
    others = {"cells": np.array([1, "a"], object), "words": "text", "record": {"a": 1}}
    path = tmp_path / "a.mat"
    scipy.io.savemat(
        path, others | arrays | {"complex": 1j * np.ones(3)}, do_compression=compressed
    )
    expected, found = scipy.io.loadmat(path), read_matlab(path, list(arrays))
    assert list(found) == list(arrays)
    for name, array in found.items():
        np.testing.assert_array_equal(array, expected[name], strict=True)
    assert read_matlab(path, []) == {}


@pytest.mark.parametrize("order", ["<", ">"])
def test_byte_orders_and_values_stored_in_a_smaller_type(written, order: str) -> None:
    values = struct.pack(f"{order}3h", 1, -2, 300)
    content = header(order) + matrix(6, (1, 3), b"y", 3, values, order)  # doubles, as int16
    (found,) = read_matlab(written(content), ["y"]).values()
    np.testing.assert_array_equal(found, np.array([[1.0, -2.0, 300.0]]), strict=True)


def test_later_arrays_are_not_read_once_all_are_found(written) -> None:
    content = header() + matrix() + b"anything else"
    assert read_matlab(written(content), ["X"])["X"].tolist() == [[97], [98], [99]]


COMPLETE = matrix()


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "got another kind of file"),
        (b"\x89PNG" * 100, "got another kind of file"),
        (b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM", "7.3 .HDF5.. Save it in MATLAB with"),
        (header(), "an array 'X'; got none of that name"),
        (header() + matrix(name=b"Y"), "an array 'X'; got none of that name"),
        (header() + COMPLETE[:-9], "an element of type 14"),
        (header() + COMPLETE[:5], "expected 8 bytes; got only 5"),
        (header() + element(3, bytes(8)), "an element of type 3"),
        # SciPy 1.17.1 ends the process on this complex array without an imaginary part.
        (header() + matrix(9 | 0x0800), "real numbers in 'X'; got complex numbers"),
        (header() + matrix(4), "real numbers in 'X'; got text"),
        (header() + matrix(77), "an array 'X'; got none of that name"),
        (header() + matrix(shape=(3,)), r"an array of shape \(3,\)"),
        (header() + matrix(shape=(-1, -3)), r"an array of shape \(-1, -3\)"),
        (header() + matrix(shape=(2**31 - 1, 2**31 - 1)), "3 bytes for 'X' of shape"),
        (header() + matrix(shape=(0, *[2**31 - 1] * 4), values=b""), "a MATLAB 5 file; got "),
        (header() + matrix(shape=(1,) * 40), "a part of type 5 and 160 bytes"),
        (header() + matrix(kind=9), "3 bytes of float64"),
        (header() + matrix(kind=99), "a part of type 99"),
        (header() + matrix(name=b"X" * 5000), "a part of type 1 and 5,000 bytes"),
        (header() + element(14, COMPLETE[8:24]), "an array that lacks a part"),
        (header() + element(14, COMPLETE[8:-8]), "a part of 3 bytes that exceeds its array"),
        (header() + element(14, struct.pack("<2I", 5 << 16 | 6, 0)), "a small element of 5 bytes"),
    ],
)
def test_what_is_wrong_is_said(written, content: bytes, complaint: str) -> None:
    with pytest.raises(DataError, match=complaint):
        read_matlab(written(content), ["X"])


def compressed(stream: bytes) -> bytes:
    return header() + struct.pack("<2I", 15, len(stream)) + stream


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (compressed(b"no zlib stream"), "incorrect header check"),
        (compressed(zlib.compress(COMPLETE)[:-1]), "incomplete compressed data"),
        (compressed(zlib.compress(COMPLETE)[:-1] + b"\x00"), "incorrect data check"),
        (compressed(zlib.compress(COMPLETE)[:10]), "incomplete compressed data"),
        (compressed(zlib.compress(COMPLETE + bytes(8))), "more bytes than its header states"),
        (compressed(zlib.compress(element(3, bytes(8)))), "type 3 instead of an array"),
        (compressed(zlib.compress(struct.pack("<2I", 14, 2**31))), "states 2,147,483,648 bytes"),
    ],
)
def test_damaged_streams_are_refused(written, content: bytes, complaint: str) -> None:
    with pytest.raises(DataError, match=complaint):
        read_matlab(written(content), ["X"])


def test_an_array_above_the_limit_is_refused_unread(tmp_path: Path) -> None:
    scipy.io.savemat(tmp_path / "a.mat", {"X": np.zeros((100, 100))}, do_compression=True)
    with pytest.raises(DataError, match="at most 1,000 bytes of data; got 80,000 bytes"):
        read_matlab(tmp_path / "a.mat", ["X"], max_bytes=1000)


def test_every_truncation_is_refused(written) -> None:
    buffer = io.BytesIO()
    scipy.io.savemat(buffer, {"X": np.arange(20.0), "y": np.uint8([1, 2])}, do_compression=True)
    whole = buffer.getvalue()
    for length in range(len(whole)):
        with pytest.raises(DataError):
            read_matlab(written(whole[:length]), ["X", "y"])


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"a.mat: expected a MATLAB 5 file; got no such file"):
        read_matlab(tmp_path / "a.mat", ["X"])

import io
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dessl.data.errors import DataError
from dessl.data.formats.zipped import open_npz


def npy(header: str, data: bytes = b"", version: bytes = b"\x01\x00") -> bytes:
    text = header.encode()
    width = "<H" if version == b"\x01\x00" else "<I"
    return b"\x93NUMPY" + version + struct.pack(width, len(text)) + text + data


def write_zip(path: Path, member: bytes, method: int = zipfile.ZIP_DEFLATED) -> None:
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("x.npy", member)


@pytest.mark.parametrize("compressed", [True, False])
@pytest.mark.parametrize(
    "array",
    [
        np.arange(24, dtype=np.int16).reshape(2, 3, 4),
        np.asfortranarray(np.arange(12.0).reshape(3, 4)),
        np.array(["a", "bcd", ""]),
        np.array(3.5),
        np.zeros((0, 4), np.float32),
        np.arange(5, dtype=">i4"),
        np.array([True, False]),
    ],
)
def test_arrays_are_read_as_numpy_reads_them(
    tmp_path: Path, array: np.ndarray, compressed: bool
) -> None:
    path = tmp_path / "a.npz"
    (np.savez_compressed if compressed else np.savez)(path, a=array, other=np.eye(2))
    with open_npz(path) as arrays:
        assert arrays.names == ("a", "other")
        read = arrays.array("a")
    expected = np.load(path)["a"]
    assert read.dtype == expected.dtype
    np.testing.assert_array_equal(read, expected)


@pytest.mark.parametrize("version", [(2, 0), (3, 0)])
def test_later_versions_of_the_header_are_read(tmp_path: Path, version: tuple[int, int]) -> None:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.arange(6), version=version)
    write_zip(tmp_path / "a.npz", buffer.getvalue())
    with open_npz(tmp_path / "a.npz") as arrays:
        np.testing.assert_array_equal(arrays.array("x"), np.arange(6))


@pytest.mark.parametrize("channels", [None, 1, 3])
def test_images_come_channels_first(tmp_path: Path, channels: int | None) -> None:
    shape = (700, 28, 28) if channels is None else (700, 28, 28, channels)
    images = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    np.savez_compressed(tmp_path / "a.npz", x=images)
    with open_npz(tmp_path / "a.npz") as arrays:
        x = arrays.images("x")
    expected = images[:, None] if channels is None else np.moveaxis(images, -1, 1)
    assert x.flags.c_contiguous
    np.testing.assert_array_equal(x, expected)


def test_images_are_turned_without_a_second_copy(
    tmp_path: Path, peak_bytes: Callable[..., int]
) -> None:
    np.savez_compressed(tmp_path / "a.npz", x=np.zeros((5000, 28, 28, 3), np.uint8))

    def read() -> object:
        with open_npz(tmp_path / "a.npz") as arrays:
            return arrays.images("x")

    assert peak_bytes(read) < 1.3 * 5000 * 28 * 28 * 3 + 2**21


def test_objects_are_never_unpickled(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return (Path.touch, (tmp_path / "sprung",))

    np.savez(tmp_path / "a.npz", x=np.array([Trap()], dtype=object))
    with (
        open_npz(tmp_path / "a.npz") as arrays,
        pytest.raises(DataError, match=r"Arrays of Python objects are not read"),
    ):
        arrays.array("x")
    assert not (tmp_path / "sprung").exists()


HEADER = "{{'descr': '{}', 'fortran_order': False, 'shape': {}, }}"


@pytest.mark.parametrize(
    ("header", "complaint"),
    [
        (HEADER.format("|u1", "(1099511627776,)"), "1,099,511,627,776 bytes in 'x'"),
        (HEADER.format("|u1", "(4611686018427387904, 4)"), "plain shape"),
        (HEADER.format("<f8", "(-3,)"), "plain shape"),
        (HEADER.format("<f8", "(True,)"), "plain shape"),
        (HEADER.format("<f8", "[3]"), "plain shape"),
        (HEADER.format("|V8", "(3,)"), "plain shape"),
        (HEADER.format("<M8[s]", "(3,)"), "plain shape"),
        (HEADER.format("<U0", "(3,)"), "plain shape"),
        (HEADER.format("<i3", "(3,)"), "plain shape"),
        ("{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (3,)}", "plain shape"),
        ("{'descr': '<f8', 'shape': (3,)}", "plain shape"),
        ("__import__('os')", "plain shape"),
        ("(" * 5000, "plain shape"),
        ("17", "plain shape"),
        (" " * 20_000, "a short npy header; got 20,000 bytes"),
    ],
)
def test_headers_are_not_believed(
    tmp_path: Path, peak_bytes: Callable[..., int], header: str, complaint: str
) -> None:
    write_zip(tmp_path / "a.npz", npy(header, bytes(24)))

    def attempt() -> None:
        with open_npz(tmp_path / "a.npz") as arrays, pytest.raises(DataError, match=complaint):
            arrays.array("x")

    assert peak_bytes(attempt) < 2**22


def test_a_zip_bomb_is_refused_before_it_unfolds(
    tmp_path: Path, peak_bytes: Callable[..., int]
) -> None:
    n = 2**26
    path = tmp_path / "bomb.npz"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as out,
        out.open("x.npy", "w") as member,
    ):
        member.write(npy(HEADER.format("|u1", f"({n},)")))
        for _ in range(n // 2**20):
            member.write(bytes(2**20))
    assert path.stat().st_size < n / 200

    def attempt() -> None:
        refused = pytest.raises(DataError, match=r"at most 16,777,216 bytes.*67,108,9")
        with open_npz(path, max_bytes=2**24) as arrays, refused:
            arrays.array("x")

    assert peak_bytes(attempt) < 2**21


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED])
def test_a_directory_that_claims_gigabytes_is_refused(
    tmp_path: Path, peak_bytes: Callable[..., int], method: int
) -> None:
    size = 2**32 - 2**16
    path = tmp_path / "a.npz"
    header = npy(HEADER.format("|u1", f"({size},)"))
    write_zip(path, header + bytes(100), method)
    data = bytearray(path.read_bytes())
    directory = data.rindex(b"PK\x01\x02")
    struct.pack_into("<I", data, directory + 24, size + len(header))
    path.write_bytes(data)

    def attempt() -> None:
        with open_npz(path) as arrays, pytest.raises(DataError, match="4,294,9"):
            arrays.array("x")

    assert peak_bytes(attempt) < 2**21


def test_other_archives_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    for content in (b"", b"\x93NUMPY", bytes(100)):
        path.write_bytes(content)
        with pytest.raises(DataError, match="expected an npz file"), open_npz(path):
            pass
    write_zip(path, npy(HEADER.format("|u1", "(3,)"), b"abc"), zipfile.ZIP_LZMA)
    with open_npz(path) as arrays, pytest.raises(DataError, match="compression method 14"):
        arrays.array("x")
    write_zip(path, b"no array, this")
    with open_npz(path) as arrays, pytest.raises(DataError, match="expected npy arrays"):
        arrays.array("x")
    with open_npz(path) as arrays, pytest.raises(DataError, match=r"named 'z'; got the arrays x"):
        arrays.array("z")


def test_a_flipped_byte_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, x=np.arange(1000))
    data = bytearray(path.read_bytes())
    data[2000] ^= 1
    path.write_bytes(data)
    with open_npz(path) as arrays, pytest.raises(DataError, match="CRC"):
        arrays.array("x")

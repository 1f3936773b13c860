import io
from pathlib import Path

import numpy as np
import pytest

from dessl.data.errors import DataError
from dessl.data.formats.reading import (
    byte_count,
    check_deflated,
    check_end,
    check_limit,
    class_indices,
    exact_bytes,
    file_size,
    fill,
    how_to_convert,
    reading,
    same_count,
    text_lines,
)
from dessl.data.parts import digit_names

PATH = Path("some.bin")


class Trickle:
    """A source that gives one byte at a time, as a socket may."""

    def __init__(self, data: bytes) -> None:
        self.source = io.BytesIO(data)

    def read(self, size: int, /) -> bytes:
        return self.source.read(min(size, 1))


def test_filling_takes_the_bytes_however_they_come() -> None:
    array = np.empty((3, 2), np.uint16)
    fill(Trickle(bytes(range(12))), array, PATH)
    assert array.tobytes() == bytes(range(12))


def test_filling_from_a_short_source_is_refused() -> None:
    with pytest.raises(DataError, match=r"some.bin: expected 10 bytes; got only 4\. The file is"):
        fill(io.BytesIO(b"abcd"), np.empty(10, np.uint8), PATH)
    with pytest.raises(DataError, match="expected 5 bytes; got only 4"):
        exact_bytes(io.BytesIO(b"abcd"), 5, PATH)


def test_exact_bytes_leave_the_rest() -> None:
    source = Trickle(b"abcdef")
    assert exact_bytes(source, 4, PATH) == b"abcd"
    assert source.read(9) == b"e"
    with pytest.raises(DataError, match="more bytes after it"):
        check_end(source, PATH)
    check_end(io.BytesIO(b""), PATH)


def test_limits_are_inclusive() -> None:
    check_limit(PATH, 100, 100)
    with pytest.raises(DataError, match=r"at most 100 bytes.*101 bytes.*larger max_bytes"):
        check_limit(PATH, 101, 100)
    check_deflated(PATH, 1032 * 5000, 5000)
    with pytest.raises(DataError, match="5,000 compressed bytes can hold"):
        check_deflated(PATH, 1032 * 5000 + 2**20 + 1, 5000)
    assert byte_count((2**40, 2**40), 4) == 2**82


def test_only_the_named_errors_are_translated() -> None:
    with (
        pytest.raises(DataError, match="expected a thing; got boom"),
        reading(PATH, "a thing", KeyError),
    ):
        raise OSError("boom")
    with (
        pytest.raises(
            DataError, match=r"got \[Errno 13\] Permission denied\. Check the path and its"
        ),
        reading(PATH, "a thing"),
    ):
        raise PermissionError(13, "Permission denied")
    with pytest.raises(ZeroDivisionError), reading(PATH, "a thing", KeyError):
        raise ZeroDivisionError


def test_missing_files_and_folders_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"absent: expected a file; got no such file\. Check"):
        file_size(tmp_path / "absent", "a file")
    with pytest.raises(DataError, match="got a folder"):
        file_size(tmp_path, "a file")


def test_lines_are_stripped_and_text_is_utf8(tmp_path: Path) -> None:
    path = tmp_path / "names.txt"
    path.write_bytes(b"cat\r\n\r\n  dog \n")
    assert text_lines(path, "names") == ("cat", "dog")
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match="expected names"):
        text_lines(path, "names")
    path.write_bytes(b"a\n" * 2**16)
    with pytest.raises(DataError, match="at most 65,536 bytes"):
        text_lines(path, "names")


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("a.csv.gz", "Unpack it first."),
        ("a.ZIP", "Unpack it first."),
        ("a.xls", "Save it as .xlsx, or the sheet as a CSV file"),
        ("a.docx", "Rename or convert it."),
    ],
)
def test_files_of_another_kind_come_with_advice(name: str, advice: str) -> None:
    assert advice in how_to_convert(Path(name))


def test_indices_count_from_the_first_class() -> None:
    labels = np.array([[1.0], [10.0], [3.0]])
    assert class_indices(Path("y"), labels, 10, first=1).tolist() == [0, 9, 2]
    assert class_indices(Path("y"), labels, 10, first=1).dtype == np.int64


@pytest.mark.parametrize("bad", [0, 11, 2.5, np.nan, np.inf, -1e300])
def test_labels_outside_the_classes_are_refused(bad: float) -> None:
    with pytest.raises(DataError, match=r"y: expected labels from 1 to 10; got label .* at row 2"):
        class_indices(Path("y"), np.array([1, 10, bad]), 10, first=1)


def test_counts_must_agree() -> None:
    same_count(Path("y"), np.zeros((3, 2)), np.zeros(3))
    with pytest.raises(DataError, match="2 labels for 3 rows"):
        same_count(Path("y"), np.zeros((3, 2)), np.zeros(2))
    assert digit_names() == tuple("0123456789")

"""Images in tar files, in any order.

Of a tar file only the places of its images are known before it is read, from one pass through its
headers. They are in a file of their own, not in memory, so that a block of any tar file is one read
at a known place: blocks can be shuffled, and a run resumes in the middle of an epoch.
"""

import hashlib
import os
import tarfile
import tempfile
import weakref
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from dessl._files import naming, neighbour, write_whole
from dessl.data.errors import DataError
from dessl.data.formats.folder import SUFFIXES
from dessl.data.formats.image_file import Colour
from dessl.data.stored.images import ImageRows
from dessl.data.stored.places import StoredFile, described

HEADER = 512  # bytes of a tar header
NAME = 100  # of which are the name


class TarRows(ImageRows):
    """Images in tar files, one after the other; other members are passed over.

    Args:
        files: The tar files, not compressed.
        index: A file (n, 2) int64 with the offset and size of each image, file after file.
        counts: Images of each tar file.
        options: Of :class:`ImageRows`, from ``size`` on.
    """

    def __init__(
        self,
        files: Sequence[StoredFile],
        index: Path,
        counts: Sequence[int],
        *,
        size: int | tuple[int, int] | None = None,
        colour: Colour | None = None,
        bits: int = 8,
    ) -> None:
        self.files, self.index = list(files), index
        self._starts = np.cumsum([0, *counts])
        self._index = StoredFile(str(index), index.stat().st_size)
        first = self._contents(0, 1)[0]
        super().__init__(files[0].name, counts, first, size, colour, bits)

    def read(self, start: int, stop: int, out: NDArray[Any]) -> None:
        """Read one stretch of a tar file, and decode the images in it."""
        for row, (content, name) in zip(out, self._contents(start, stop), strict=True):
            row[:] = self.decoded(name, content)

    def described(self) -> str:
        """Return names and sizes of the files."""
        return described(self.files)

    def _contents(self, start: int, stop: int) -> list[tuple[bytes, str]]:
        """The bytes of images of one tar file, and what errors call each."""
        file = self.files[int(np.searchsorted(self._starts, start, side="right")) - 1]
        places = np.empty((stop - start, 2), np.int64)
        self._index.read_into(16 * start, places.reshape(-1).view(np.uint8))
        low, high = int(places[0, 0]) - HEADER, int(places[-1].sum())
        stretch = file.read(low, high - low)
        found = []
        for offset, size in (places - [low, 0]).tolist():
            name = stretch[offset - HEADER : offset - HEADER + NAME].rstrip(b"\0")
            shown = f"{file.name}, member {name.decode(errors='replace')}"
            found.append((stretch[offset : offset + size], shown))
        return found


def tar_files(
    files: Sequence[StoredFile], *, index: str | Path | None = None, **options: Any
) -> TarRows:
    """Return the images of tar files, after one pass through their headers.

    Args:
        files: The tar files.
        index: Folder where the places of the images are kept for the next time; if not given, they
            are in a temporary file.
        options: Of :class:`TarRows`, from ``size`` on.

    Raises:
        DataError: A file is damaged, compressed or has no image.
    """
    if index is None:
        handle, name = tempfile.mkstemp(suffix=".index", prefix="dessl-tar-")
        try:
            with os.fdopen(handle, "wb") as file:
                counts = _written(files, file)
            found = TarRows(files, Path(name), counts, **options)
        except BaseException:
            Path(name).unlink()
            raise
        weakref.finalize(found, os.unlink, name)
        return found
    place = Path(index) / f"tar-{hashlib.sha256(described(files).encode()).hexdigest()[:16]}.index"
    sizes = place.with_suffix(".counts")
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        temporary = neighbour(place)
        try:
            with temporary.open("xb") as file, naming(place):
                write_whole(sizes, np.array(_written(files, file), np.int64).tobytes())
            temporary.replace(place)
        finally:
            temporary.unlink(missing_ok=True)
    return TarRows(files, place, np.frombuffer(sizes.read_bytes(), np.int64).tolist(), **options)


def _written(files: Sequence[StoredFile], out: IO[bytes]) -> list[int]:
    """Write the places of all images, and return how many each file has."""
    counts = []
    for file in files:
        places = _places(file)
        counts.append(len(places) // 2)
        if not counts[-1]:
            raise DataError.of(
                file.name, expected="images in a tar file", got="none", do="Leave the file out."
            )
        places.tofile(out)
    return counts


def _places(file: StoredFile) -> "array[int]":
    """Offset and size of each image of a tar file, one after the other."""
    places = array("q")
    with file.opened() as opened:
        try:
            with tarfile.open(fileobj=opened, mode="r:") as tar:
                for member in tar:
                    if member.isreg() and Path(member.name).suffix.lower() in SUFFIXES:
                        places.extend((member.offset_data, member.size))
                    tar.members = []  # type: ignore[attr-defined] # they would fill the memory
                opened.seek(tar.offset)
                if opened.read(HEADER) != bytes(HEADER):  # a header cut short ends the loop too
                    raise tarfile.ReadError("no end of the archive")
        except tarfile.TarError as error:
            raise DataError.of(
                file.name,
                expected="a whole tar file that is not compressed",
                got=" ".join(str(error).split())[:200],
                do="Replace it with an intact copy; unpack a .tar.gz file to .tar.",
            ) from error
    return places

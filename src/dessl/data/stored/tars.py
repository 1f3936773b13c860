"""Images in tar files, in any order.

Only the positions of a tar file's images are known before it is read, from one pass through its
headers. They are stored in a separate file, not in memory, so that a block of any tar file is one
read at a known position: blocks can be shuffled, and a run can resume in the middle of an epoch.
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

from dessl._files import alone, naming, neighbour, sweep, write_whole
from dessl.data.errors import DataError
from dessl.data.formats.folder_files import SUFFIXES
from dessl.data.formats.image_file import Colour
from dessl.data.stored.images import ImageRows
from dessl.data.stored.places import StoredFile, described

HEADER = 512  # bytes of a tar header
NAME = 100  # of which are the name
ENTRY = 16  # bytes of the index for each image


class TarRows(ImageRows):
    """Images in tar files, one after the other; other members are skipped.

    Args:
        files: The tar files, not compressed.
        index: A file (n, 2) int64 with the offset and size of each image, file after file.
        counts: Number of images of each tar file.
        options: Arguments of :class:`ImageRows`, from ``size`` on.
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
        """The bytes of images of one tar file, and the name of each in error messages."""
        file = self.files[int(np.searchsorted(self._starts, start, side="right")) - 1]
        places = np.empty((stop - start, 2), np.int64)
        self._index.read_into(ENTRY * start, places.reshape(-1).view(np.uint8))
        self._check(places, file)
        low, high = int(places[0, 0]) - HEADER, int(places[-1].sum())
        stretch = file.read(low, high - low)
        found = []
        for offset, size in (places - [low, 0]).tolist():
            name = stretch[offset - HEADER : offset - HEADER + NAME].rstrip(b"\0")
            shown = f"{file.name}, member {name.decode(errors='replace')}"
            found.append((stretch[offset : offset + size], shown))
        return found

    def _check(self, places: NDArray[np.int64], file: StoredFile) -> None:
        """Refuse places that are not one after the other in the file."""
        offsets, sizes = places.T
        within = ((places >= 0) & (places <= file.size)).all()  # so that their sums fit into int64
        ends = np.append(HEADER, offsets + sizes)
        if not within or (offsets < ends[:-1]).any() or ends[-1] > file.size:
            raise DataError.of(
                self.index,
                expected=f"the places of images in {file.name}",
                got="places that the file does not have",
                do="The index is damaged. Delete it, and it will be rebuilt.",
            )


def tar_files(
    files: Sequence[StoredFile], *, index: str | Path | None = None, **options: Any
) -> TarRows:
    """Return the images of tar files, after one pass through their headers.

    Args:
        files: The tar files.
        index: Folder that caches the positions of the images; by default, they
            are in a temporary file.
        options: Arguments of :class:`TarRows`, from ``size`` on.

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
    with alone(place):
        if (known := _counts(sizes, place, len(files))) is None:
            sweep(place)
            temporary = neighbour(place)
            try:
                with temporary.open("xb") as file, naming(place):
                    known = _written(files, file)
                temporary.replace(place)
                write_whole(sizes, np.array(known, np.int64).tobytes())
            finally:
                temporary.unlink(missing_ok=True)
    return TarRows(files, place, known, **options)


def _counts(sizes: Path, place: Path, n_files: int) -> list[int] | None:
    """Images of each file as an earlier call counted them; None if that cannot be used."""
    if not (sizes.is_file() and place.is_file()) or sizes.stat().st_size != 8 * n_files:
        return None
    counts: list[int] = np.frombuffer(sizes.read_bytes(), np.int64).tolist()
    whole = min(counts) > 0 and place.stat().st_size == ENTRY * sum(counts)
    return counts if whole else None


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
                    is_image = member.isreg() and Path(member.name).suffix.lower() in SUFFIXES
                    _check_size(member, file.size, is_image=is_image)
                    if is_image:
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


def _check_size(member: tarfile.TarInfo, most: int, *, is_image: bool) -> None:
    """Refuse a size that would lead backwards, and an image that is not all in the file."""
    if member.size < 0 or (is_image and member.offset_data + member.size > most):
        raise tarfile.ReadError(f"a member of {member.size:,} bytes in a file of {most:,}")
    if is_image and member.issparse():
        raise tarfile.ReadError("a sparse member, whose bytes are not in one piece")

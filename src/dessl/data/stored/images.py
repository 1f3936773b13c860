"""Images on disk, decoded when read: a folder may have millions of files.

PyTorch cannot decode images without torchvision, so Pillow does, in the reading threads; bytes go
to the device, where everything else is done.
"""

import hashlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dessl._checks import one_of, whole_number
from dessl.data.errors import DataError
from dessl.data.formats.folder_files import SUFFIXES
from dessl.data.formats.image_file import Colour, image_facts, pixels
from dessl.data.stored.places import StoredFile, file_system
from dessl.data.stored.rows import StoredRows, block_ends


class ImageRows(StoredRows):
    """Images as uint8 (channels, height, width), each resized to one size.

    Args:
        source: Name in error messages.
        counts: Number of images of each archive; for a folder, of all files together.
        first: The content of the first image, and its name.
        size: Height and width, or one number for both; by default those of the first image.
        colour: ``"grey"`` or ``"rgb"``; by default that of the first image.
        bits: Bits of grey images with more than 8 bits per pixel, as in ``SemiData.bits``.
    """

    def __init__(
        self,
        source: str,
        counts: Sequence[int],
        first: tuple[bytes, str],
        size: int | tuple[int, int] | None,
        colour: Colour | None,
        bits: int,
    ) -> None:
        facts = image_facts(Path(first[1]), content=first[0])
        if colour is not None:
            one_of("colour", colour, ("grey", "rgb"))
        self.colour: Colour = colour or ("grey" if facts.grey else "rgb")
        height, width = (size, size) if isinstance(size, int) else size or facts[:2]
        self.bits = bits
        self.source, self.dtype = source, np.dtype(np.uint8)
        sides = (whole_number("size", side, low=1) for side in (height, width))
        self.shape = (1 if self.colour == "grey" else 3, *sides)
        self.ends = block_ends(counts, self.row_bytes)

    def decoded(self, name: str, content: bytes) -> NDArray[np.uint8]:
        """Return the pixels of an image file, whose name is only for error messages."""
        _, height, width = self.shape
        return pixels(Path(name), height, width, self.colour, self.bits, content=content)


class FolderRows(ImageRows):
    """Images in a folder and the folders in it, sorted by name.

    Args:
        folder: The folder, or its path in a file system of fsspec.
        names: Names of the images relative to the folder, as bytes, and where each ends.
        system: The file system of fsspec; None for this machine's.
        options: Arguments of :class:`ImageRows`, from ``size`` on.
    """

    def __init__(
        self,
        folder: str,
        names: tuple[bytes, NDArray[np.int64]],
        system: Any = None,
        *,
        size: int | tuple[int, int] | None = None,
        colour: Colour | None = None,
        bits: int = 8,
    ) -> None:
        self.folder, self.system = folder, system
        self._names, self._name_ends = names
        first = self.file(0)
        content = (_content(first), first.name)
        super().__init__(folder, [len(self._name_ends)], content, size, colour, bits)

    def file(self, number: int) -> StoredFile:
        """Return the file of an image; its size is not known."""
        start = int(self._name_ends[number - 1]) if number else 0
        name = os.fsdecode(self._names[start : int(self._name_ends[number])])
        return StoredFile(f"{self.folder}/{name}", 0, self.system)

    def read(self, start: int, stop: int, out: NDArray[Any]) -> None:
        """Read and decode image by image."""
        for number in range(start, stop):
            file = self.file(number)
            out[number - start] = self.decoded(file.name, _content(file))

    def described(self) -> str:
        """Return the number of images and a sha256 of their names."""
        return f"{len(self._name_ends)}\0{hashlib.sha256(self._names).hexdigest()}"


def _content(file: StoredFile) -> bytes:
    """All bytes of a file."""
    with file.opened() as opened:
        return bytes(opened.read())


def image_folder(address: str, **options: Any) -> FolderRows:
    """Return the images of a folder, however many: only their names are kept in memory.

    Args:
        address: A path, or an address that fsspec knows.
        options: Arguments of :class:`FolderRows`.

    Raises:
        DataError: There are no images.
    """
    system, folder = file_system(address) if "://" in address else (None, address)
    found = _walked(folder) if system is None else _found(system, folder)
    names = sorted(name for name in found if os.path.splitext(name)[1].lower() in SUFFIXES)  # noqa: PTH122
    if not names:
        raise DataError.of(address, expected="images in a folder", got="none", do="Check the path.")
    return FolderRows(folder.rstrip("/"), _packed(names), system, **options)


def _packed(names: Sequence[str]) -> tuple[bytes, NDArray[np.int64]]:
    """Names in one piece of memory: a list of them would take three times as much."""
    coded = [os.fsencode(name) for name in names]
    return b"".join(coded), np.cumsum([len(name) for name in coded])


def _walked(folder: str) -> Iterator[str]:
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        within = os.path.relpath(place, folder)
        for name in files:
            if not name.startswith("."):
                yield name if within == "." else f"{within}/{name}"


def _found(system: Any, folder: str) -> Iterator[str]:
    root = folder.rstrip("/") + "/"
    for name in system.find(folder):
        within = name.removeprefix(root).removeprefix(root.lstrip("/"))
        if "/." not in f"/{within}":
            yield within

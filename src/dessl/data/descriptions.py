"""What a catalogue says of a data set, and of the files it is made of."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dessl.data.formats.arrays import RawData


@dataclass(frozen=True)
class RemoteFile:
    """One file to download.

    Attributes:
        path: Where it goes, below the data folder.
        urls: The publisher's address, then known mirrors.
        checksum: ``"md5:..."`` of the file as downloaded.
        members: The files to take out of it, where it is an archive; it is removed afterwards.
    """

    path: str
    urls: tuple[str, ...]
    checksum: str
    members: tuple[str, ...] = ()


@dataclass(frozen=True)
class Description:
    """One data set of the catalogue.

    Attributes:
        title: Its full name.
        class_names: The classes in order.
        shape: Of one row: (channels, height, width), or (features,).
        sizes: Rows for training (unlabelled ones included), validation and test.
        remote: What to download; nothing for sets that come with the libraries.
        read: From the folder below which the files lie to arrays.
        licence: The terms, as far as the publisher states them.
        citation: The work to cite.
        rebuilt: A file that may stand in for the publisher's, to be reported as "rebuilt".
    """

    title: str
    class_names: tuple[str, ...]
    shape: tuple[int, ...]
    sizes: tuple[int, int, int]
    remote: tuple[RemoteFile, ...]
    read: Callable[[Path], RawData]
    licence: str
    citation: str
    rebuilt: str | None = None

    @property
    def files(self) -> tuple[str, ...]:
        """The files to be there for reading; a ``.gz`` one may also lie there unzipped."""
        return tuple(path for file in self.remote for path in file.members or (file.path,))

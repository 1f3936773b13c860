"""Files of stored rows, on this machine or at an address that fsspec knows (s3://, gs://, ...).

Files are read, not memory-mapped: mapped pages count as the process's memory, and a mapped file
that shrinks or disappears kills the process without a message.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dessl.data.errors import DataError, few
from dessl.data.formats.reading import reading

Address = str | Path
WILD = "*?["
CHANGED = "The file was changed or removed while it was in use: put it back, and resume."


@dataclass(frozen=True)
class StoredFile:
    """One file: its name, its size in bytes, and fsspec's file system; None for a local file."""

    name: str
    size: int
    system: Any = None

    def read_into(self, offset: int, out: NDArray[np.uint8]) -> None:
        """Fill ``out``, (n,) bytes, starting at an offset.

        Raises:
            DataError: The file is gone, or too short.
        """
        with self.reading():
            if self.system is None:
                with open(self.name, "rb", buffering=0) as file:  # noqa: PTH123 (much faster)
                    file.seek(offset)
                    done = _filled(file, out.data)
            else:
                found = self.system.cat_file(self.name, start=offset, end=offset + len(out))
                done = min(len(found), len(out))
                out[:done] = np.frombuffer(found, np.uint8, done)
        if done < len(out):
            raise DataError.of(
                self.name,
                expected=f"{len(out):,} bytes from byte {offset:,} on",
                got=f"only {done:,}",
                do=CHANGED,
            )

    def read(self, offset: int, size: int) -> bytes:
        """Return bytes starting at an offset.

        Raises:
            DataError: The file had fewer bytes when it was found; checked before allocating memory.
        """
        if not 0 <= offset <= offset + size <= self.size:
            raise DataError.of(
                self.name,
                expected=f"{size:,} bytes from byte {offset:,} on",
                got=f"a file of {self.size:,} bytes",
                do="Replace the file with an intact copy.",
            )
        out = np.empty(size, np.uint8)
        self.read_into(offset, out)
        return out.tobytes()

    @contextmanager
    def opened(self) -> Iterator[Any]:
        """Open the file for a reader that seeks."""
        if self.system is None and os.path.exists(self.name):  # noqa: PTH110 (much faster)
            _check_file(Path(self.name))
        with (
            self.reading(),
            Path(self.name).open("rb")
            if self.system is None
            else self.system.open(self.name, "rb") as file,
        ):
            yield file

    def reading(self, *errors: type[Exception]) -> AbstractContextManager[None]:
        """Turn read errors into one that names the file."""
        do = "Check the file, its disk and its permissions."
        expected = "a file that can be read while the run lasts"
        return reading(self.name, expected, *errors, do=do, refused=do, if_missing=CHANGED)


def _filled(file: Any, view: memoryview) -> int:
    done = 0
    while done < len(view):
        n_read = file.readinto(view[done:])
        if not n_read:
            break
        done += n_read
    return done


def files_at(source: "Address | Sequence[Address]", suffixes: Sequence[str]) -> list[StoredFile]:
    """Return the files at an address, those of a folder or pattern sorted by name.

    Args:
        source: A file, a folder, a pattern with ``*``, or several of these; a path, or an address
            with ``://`` that fsspec knows.
        suffixes: Extensions of the files to take from a folder.

    Raises:
        DataError: There is no such file, or the folder has none.
    """
    several = source if isinstance(source, list | tuple) else [source]
    found = [file for one in several for file in _at_one(str(one), suffixes)]
    if not found:
        raise DataError.of(
            few([str(one) for one in several]),
            expected=f"files ending in {few(list(suffixes))}",
            got="none",
            do="Check the path.",
        )
    return found


def _at_one(address: str, suffixes: Sequence[str]) -> list[StoredFile]:
    if "://" in address:
        return _remote(address, suffixes)
    path = Path(address)
    if path.is_dir():
        return _sized(path.iterdir(), lambda one: one.suffix.lower() in suffixes)
    if path.exists() or not any(mark in address for mark in WILD):
        if not path.is_file():
            raise DataError.of(address, expected="a file", got="no such file", do="Check the path.")
        return _sized([path], lambda _: True)
    import glob

    return _sized((Path(name) for name in glob.glob(address)), Path.is_file)  # noqa: PTH207


def _sized(paths: Any, taken: Callable[[Path], bool]) -> list[StoredFile]:
    kept = sorted(path for path in paths if not path.name.startswith(".") and taken(path))
    for path in kept:
        _check_file(path)
    return [StoredFile(str(path), path.stat().st_size) for path in kept]


def _check_file(path: Path) -> None:
    """Refuse a folder, and a pipe or device, which may never end."""
    if path.exists() and not path.is_file():
        what = "a folder" if path.is_dir() else "a pipe or a device"
        raise DataError.of(path, expected="a file", got=what, do="Omit it.")


def _remote(address: str, suffixes: Sequence[str]) -> list[StoredFile]:
    system, path = file_system(address)
    with StoredFile(address, 0, system).reading(ValueError):
        if any(mark in path for mark in WILD):
            names = system.glob(path)
        elif system.isdir(path):
            names = [
                n for n in system.ls(path, detail=False) if n.lower().endswith(tuple(suffixes))
            ]
        else:
            names = [path]
        return [StoredFile(n, int(system.info(n)["size"]), system) for n in sorted(names)]


def file_system(address: str) -> tuple[Any, str]:
    """Return fsspec's file system of an address, and the path in it.

    Raises:
        ValueError: fsspec, or its part for this kind of address, is not installed.
    """
    try:
        import fsspec

        system, path = fsspec.core.url_to_fs(address)
    except (ImportError, ValueError) as error:
        raise ValueError(
            f"{address} must be an address that fsspec can open; it reports: {error}. Install the "
            "package for it (s3fs for s3://, gcsfs for gs://), or copy the files here."
        ) from error
    return system, path


def described(files: Sequence[StoredFile]) -> str:
    """Return names, without folders, and sizes of files."""
    return "\0".join(f"{os.path.basename(file.name)}\0{file.size}" for file in files)  # noqa: PTH119

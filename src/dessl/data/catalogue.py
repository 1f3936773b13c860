"""Public data sets by name: found on disk, downloaded, or reported missing with what to do."""

import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from dessl._checks import one_of, quoted
from dessl._files import alone
from dessl.data.download import download as download_file
from dessl.data.download import extract, has_checksum
from dessl.data.errors import DataError
from dessl.data.formats.reading import reading
from dessl.data.parts import RawData
from dessl.data.publishers import DATASETS, Description, Rebuilt, RemoteFile
from dessl.data.semi import SemiData

VARIABLE = "DESSL_DATA"


class Place(NamedTuple):
    """Where a data set was found: the folder, and whether its file is a rebuilt one."""

    root: Path
    rebuilt: bool


def load(
    name: str,
    *,
    root: str | Path | None = None,
    download: bool = True,
    progress: bool = True,
) -> SemiData:
    """One of the public data sets of the catalogue, with every label its publisher gives.

    The files are looked for below ``root``, below the folder named by the environment variable
    ``DESSL_DATA``, and in the user's cache. If they are not found, they are downloaded to ``root``
    or else to the cache.

    Args:
        name: A key of ``DATASETS``.
        root: A folder to look in first, and to download to.
        download: Whether to download missing files.
        progress: Whether to show a progress bar while downloading.

    Raises:
        DataError: The files cannot be found or downloaded (the message says which to put where), or
            are wrong.

    Warns:
        UserWarning: A file rebuilt from source images replaces the publisher's. The set's name then
            says "rebuilt", and so should any report.

    >>> load("digits")
    SemiData(digits: 1437 images of shape (1, 8, 8), 10 classes: 1437 labelled, 0 unlabelled,
        360 test)
    """
    one_of("name", name, tuple(DATASETS))
    description = DATASETS[name]
    place = find(name, root=root)
    if place is None and not download:
        raise _not_found(name, root, "none of them, and download=False", offline=True)
    if place is None:
        try:
            place = Place(fetch(name, root=root, progress=progress), rebuilt=False)
        except DataError as error:
            raise _not_found(name, root, str(error)) from error
    if place.rebuilt:
        return _rebuilt(name, description, place.root)
    return _semi(name, description, description.read(place.root))


def find(name: str, *, root: str | Path | None = None) -> Place | None:
    """Where the files of a data set are, the publisher's before rebuilt ones; None if not found.

    A set without files is found in the working folder.
    """
    one_of("name", name, tuple(DATASETS))
    description = DATASETS[name]
    if not description.remote:
        return Place(Path(), rebuilt=False)
    for folder in _folders(root):
        if all(_present(folder / file) for file in description.files):
            return Place(folder, rebuilt=False)
    for folder in _folders(root):
        if _rebuilt_in(folder, description):
            return Place(folder, rebuilt=True)
    return None


def fetch(name: str, *, root: str | Path | None = None, progress: bool = True) -> Path:
    """Download the missing files of a data set and verify them.

    An existing file with a different checksum from the publisher's is replaced; files unpacked from
    an archive are not checked. If several processes need a set at once, one downloads it.

    Args:
        name: A key of ``DATASETS``.
        root: Folder to put them in; the user's cache by default.
        progress: Whether to show a progress bar.

    Returns:
        The folder that now contains them.

    Raises:
        DataError: A download failed or has the wrong checksum.
    """
    one_of("name", name, tuple(DATASETS))
    folder = Path(root) if root is not None else _cache()
    for file in DATASETS[name].remote:
        if _complete(folder, file):
            continue
        target = folder / file.path
        with reading(target, "a folder that can be written to"), alone(target):
            if _complete(folder, file):  # another process has just finished it
                continue
            download_file(file.urls, target, checksum=file.checksum, progress=progress)
            if file.members:
                extract(target, folder, file.members)
                target.unlink()
    return folder


def _complete(folder: Path, file: RemoteFile) -> bool:
    """Whether a file is there with the right checksum, or the files unpacked from it are."""
    target = folder / file.path
    if file.members:
        return all((folder / path).is_file() for path in file.members)
    if target.suffix == ".gz" and target.with_suffix("").is_file():
        return True
    return target.is_file() and has_checksum(target, file.checksum)


def _folders(root: str | Path | None) -> Iterator[Path]:
    if root is not None:
        yield Path(root)
    if os.environ.get(VARIABLE):
        yield Path(os.environ[VARIABLE])
    yield _cache()


def _cache() -> Path:
    """The folder where this operating system keeps a program's cache."""
    home = Path(os.path.expanduser("~"))  # noqa: PTH111 (Path.home raises where there is none)
    if sys.platform == "win32":
        local = os.environ.get("LOCALAPPDATA")
        return (Path(local) if local else home / "AppData" / "Local") / "dessl" / "dessl" / "Cache"
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "dessl"
    return Path(os.environ.get("XDG_CACHE_HOME", "").strip() or home / ".cache") / "dessl"


def _present(path: Path) -> bool:
    return path.is_file() or (path.suffix == ".gz" and path.with_suffix("").is_file())


def _rebuilt_in(folder: Path, description: Description) -> Rebuilt | None:
    """The first of the rebuilt forms that a folder has."""
    return next((one for one in description.rebuilt if (folder / one.path).exists()), None)


def _rebuilt(name: str, description: Description, folder: Path) -> SemiData:
    found = _rebuilt_in(folder, description)
    assert found is not None  # noqa: S101 (find has just seen it)
    path = folder / found.path
    warnings.warn(
        f"{path} is not the publisher's file but rebuilt from source images: report results as "
        f"{quoted(name)} (rebuilt).",
        UserWarning,
        stacklevel=3,
    )
    return _semi(f"{name} (rebuilt)", description, found.read(path))


def _semi(name: str, description: Description, raw: RawData) -> SemiData:
    sizes = (len(raw.y), *(len(part.y) if part else 0 for part in (raw.validation, raw.test)))
    shape = tuple(raw.x.shape[1:])
    if sizes != description.sizes or shape != description.shape:
        raise DataError.of(
            name,
            expected=f"{description.sizes} rows (train, validation, test) of {description.shape}",
            got=f"{sizes} of {shape}",
            do="The files are incomplete or from another data set. Delete them, and load again.",
        )
    return SemiData.from_raw(raw, name=name)


def _not_found(name: str, root: str | Path | None, got: str, *, offline: bool = False) -> DataError:
    first, *others = _folders(root)
    remote = DATASETS[name].remote
    files = "\n".join(f"  {file}" for file in DATASETS[name].files)
    sources = "\n".join(f"  {file.urls[0]}" for file in remote)
    also = "".join(f" or {folder}" for folder in others)
    rebuilt = "".join(f"  {one}\n" for one in DATASETS[name].rebuilt)
    return DataError(
        f"{name}: expected its files on disk; got {got.rstrip('.')}. "
        f"Put these files below {first}{also}:\n{files}\nThe publisher has them at:\n{sources}\n"
        + (f"Or put a rebuilt set there, reported as such:\n{rebuilt}" if rebuilt else "")
        + f"Or set {VARIABLE} to the folder that has them"
        + (", or load with download=True." if offline else ".")
    )

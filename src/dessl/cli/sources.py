"""Kinds of DATA: table, npz file, npy files, folder of images, name of a public data set."""

import hashlib
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal

import typer

from dessl._checks import quoted
from dessl._files import file_sha256
from dessl.cli.options import AS_IT_IS, Reading
from dessl.data import DATASETS, DataError, SemiData, load
from dessl.data.errors import closest, did_you_mean, missing_label_options
from dessl.data.formats.excel import SUFFIXES as EXCEL
from dessl.data.formats.folder_files import SUFFIXES
from dessl.data.formats.json_lines import SUFFIXES as JSON_LINES
from dessl.data.formats.reading import check_name, how_to_convert
from dessl.data.formats.tables import SUFFIXES as TABLES
from dessl.data.stored.large import (
    ARRAY_BYTES,
    IMAGES,
    TABLE_BYTES,
    large_data,
    unlabelled_folders,
)
from dessl.data.stored.tables import SAMPLE

Kind = Literal["table", "npz", "npy", "images", "catalogue"]


def kind_of(source: str) -> Kind:
    """Return what DATA is; a file or folder takes precedence over a data set of the same name.

    Raises:
        DataError: It is neither on disk nor in the catalogue, or of an unsupported kind.
    """
    path = Path(source)
    if path.exists():
        check_name(path)
    if path.is_dir():
        return "images"
    if npy_files(source):
        return "npy"
    suffix = path.suffix.lower()
    if path.exists() and suffix in (*TABLES, ".npz"):
        return "npz" if suffix == ".npz" else "table"
    if not path.exists() and source in DATASETS:
        return "catalogue"
    raise DataError.of(
        source,
        expected="a table (.csv, .tsv, .parquet, .xlsx, .jsonl), an .npz or .npy file, a folder of "
        "images, or a name from dessl datasets list",
        got="an unsupported file" if path.exists() else "no such file or name",
        do=nearest_path(path) or nearest(source, DATASETS, otherwise="Check the path.")
        if not path.exists()
        else "Put the image into a folder, and pass the folder."
        if suffix in SUFFIXES
        else how_to_convert(path),
    )


def npy_files(source: str) -> tuple[Path, ...]:
    """Return the npy files in DATA, which may be separated by commas; () if it names other files.

    >>> [path.name for path in npy_files("clip.npy,dino.npy")]
    ['clip.npy', 'dino.npy']
    """
    names = [source] if Path(source).exists() else source.split(",")
    files = tuple(Path(name) for name in names)
    return files if all(file.suffix.lower() == ".npy" for file in files) else ()


def nearest(word: str, known: Iterable[str], *, otherwise: str) -> str:
    """Suggest the known word closest to a misspelt one, or return ``otherwise``.

    >>> nearest("minst", ("mnist", "toy"), otherwise="Check it.")
    "Did you mean 'mnist'?"
    """
    return did_you_mean(word, known) or otherwise


def nearest_path(path: Path) -> str:
    """Suggest the file or folder next to a misspelt one whose name is closest; "" if none is."""
    try:
        names = [name for name in os.listdir(path.parent) if not name.startswith(".")]  # noqa: PTH208
    except OSError:
        return ""
    near = closest(path.name, names)
    return "" if near is None else f"Did you mean {quoted(str(path.with_name(near)))}?"


def fingerprint(source: str) -> str | None:
    """Return a sha256 that identifies DATA.

    It is computed from a file's bytes, from the names and bytes of the images in a folder, or from
    a data set's name. None for a data set with a test part: no model is trained on those rows.
    """
    path = Path(source)
    if path.is_dir():
        return _folder_sha256(path)
    if path.is_file():
        return file_sha256(path)
    if (files := npy_files(source)) and all(file.is_file() for file in files):
        return hashlib.sha256("\0".join(map(file_sha256, files)).encode()).hexdigest()
    if source in DATASETS and not DATASETS[source].sizes[-1]:
        return hashlib.sha256(f"catalogue\0{source}".encode()).hexdigest()
    return None


def _folder_sha256(folder: Path) -> str:
    """Hash the images alone: other files are skipped; of very many images, only the sizes count."""
    paths = [*folder.glob("*"), *folder.glob("*/*"), *folder.rglob("*")]
    files = {path.relative_to(folder).as_posix(): path for path in paths if path.is_file()}
    digest = hashlib.sha256()
    large = len(files) > IMAGES
    for name in sorted(files):
        if files[name].suffix.lower() in SUFFIXES and "/." not in f"/{name}":
            what = files[name].stat().st_size if large else file_sha256(files[name])
            digest.update(f"{name}\0{what}\0".encode())
    return digest.hexdigest()


def training_data(
    source: str,
    *,
    label: str | None = None,
    ignore: Sequence[str] = (),
    categorical: Sequence[str] = (),
    size: int | None = None,
    missing_labels: Sequence[str] = (),
    all_classes: bool = False,
    labels: str | None = None,
    reading: Reading = AS_IT_IS,
    stream: bool | None = False,
    place: Path | None = None,
    seed: int = 0,
    skip_damaged: bool = False,
) -> SemiData:
    """Read DATA to train on.

    Args:
        source: The DATA argument.
        label: Column with the labels, for a table or a file of labels.
        ignore: Columns of a table to drop.
        categorical: Numeric columns of a table to treat as categories.
        size: Side length of the images, for a folder.
        missing_labels: Marks of a missing label in a table, in addition to an empty cell.
        all_classes: Whether all other labels are classes, even those that look like such a mark.
        labels: File with the labels, for npy files or a folder of images.
        reading: How a table, or a table of labels, is read.
        stream: Whether most unlabelled rows stay on disk; None: only for large files.
        place: Folder for a cache of these rows.
        seed: Seed for drawing the rows that are kept in memory.
        skip_damaged: Whether to leave out images that cannot be read, for a folder.
    """
    kind = kind_of(source)
    check_labels_file(source, kind, labels)
    beside = kind == "npy" or (kind == "images" and labels is not None)
    check_options(
        kind,
        label=None if beside else label,
        ignore=ignore,
        categorical=categorical,
        size=size,
        skip_damaged=skip_damaged,
        **_unused_here(kind, reading, beside=beside),
        missing_label=None if beside else missing_labels,
        no_missing_label=not beside and all_classes,
    )
    read_options: dict[str, Any] = {}
    if kind == "table" or beside:
        ask = partial(_missing_among, labels or source, label)
        read_options = {
            "label": label,
            "missing_labels": missing_labels,
            "ask": (lambda _: ()) if all_classes else ask,
            "text_encoding": reading.text_encoding,
            "missing": reading.missing,
        }
    if kind == "table":
        if label is None:
            raise ValueError(
                f"{source} is a table. Which column has the labels? Pass --label NAME."
            )
        read_options |= {"ignore": ignore, "categorical": categorical}
    elif beside:
        read_options["labels"] = labels
    if kind == "images":
        read_options["size"] = size
    streamed = _is_streamed(source, kind, stream, labels=labels)
    if streamed and skip_damaged:
        raise ValueError(
            "--skip-damaged needs all images in memory, but this folder is read while networks "
            "train. Remove the damaged files, or pass --no-stream."
        )
    if skip_damaged:
        read_options["skip_damaged"] = True
    if streamed:
        large = large_data(kind, source, place=place, sample=SAMPLE, seed=seed, **read_options)
        if large is not None:
            return large
    if kind == "catalogue":
        return load(source)
    if reading.sheet is not None:
        read_options["sheet"] = reading.sheet
    if kind == "images":
        return SemiData.from_folder(source, **read_options)
    return SemiData.from_file(*(npy_files(source) or (source,)), **read_options)


def _unused_here(kind: Kind, reading: Reading, *, beside: bool) -> Mapping[str, object]:
    """The options on how a table is read that DATA has no use for, if it is no table itself."""
    if not beside:
        return reading.typed
    return {"sheet": reading.sheet} if kind == "npy" else {}


def _is_streamed(source: str, kind: Kind, stream: bool | None, *, labels: str | None) -> bool:
    """Whether most rows of DATA stay on disk."""
    path = Path(source)
    if kind == "images" and labels is not None:
        if stream:
            raise ValueError(
                "--stream needs one folder 'unlabelled'; with --labels, images are read into "
                "memory. Omit one of the two."
            )
        return False
    if kind == "images":
        places = unlabelled_folders(path) if stream is None else []
        return bool(stream) or sum(1 for one in places for _ in os.scandir(one)) > IMAGES
    whole = path.suffix.lower() in (*EXCEL, *JSON_LINES)  # read into memory at once
    able = path.is_file() and kind in ("table", "npy") and not whole
    if stream and not able:
        raise ValueError(
            "--stream is for one CSV, Parquet or .npy file or a folder of images, but DATA is none "
            "of these. Convert it, or omit the option."
        )
    least = TABLE_BYTES if kind == "table" else ARRAY_BYTES
    large = able and path.stat().st_size > least
    return bool(stream) or (stream is None and large)


def _missing_among(source: str, label: str | None, marks: dict[str, int]) -> list[str]:
    """Ask on the terminal which labels mark missing ones; without a terminal, name the options."""
    listed = ", ".join(f"{quoted(mark)} in {count:,} rows" for mark, count in marks.items())
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise DataError.of(
            source,
            expected=f"classes in {'the labels' if label is None else f'column {quoted(label)}'}",
            got=f"{listed}, which may mark a missing label",
            do=f"If so, pass {missing_label_options(marks)}. If these are classes, pass "
            "--no-missing-label.",
        )
    return [
        mark
        for mark, count in marks.items()
        if typer.confirm(
            f"The label is {quoted(mark)} in {count:,} rows of {source}. Does this mark a missing "
            "label?",
            default=True,
            err=True,
        )
    ]


def check_labels_file(source: str, kind: Kind, labels: str | None) -> None:
    """Refuse npy files without a file of labels, and a file of labels for tables and the like."""
    if kind == "npy" and labels is None:
        raise ValueError(f"{source} has no labels. Which file has them? Pass --labels FILE.")
    if kind not in ("npy", "images") and labels is not None:
        raise ValueError(
            f"--labels {labels}: a file of labels is only for .npy files and folders of images. "
            "Omit it; or, in dessl fit, pass a whole number, the number of labels to keep."
        )


def check_options(kind: Kind, **given: object) -> None:
    """Refuse options that are for another kind of data."""
    belongs = {"size": "images", "skip_damaged": "images"}
    for name, value in given.items():
        wanted = belongs.get(name, "table")
        if value and wanted != kind:
            what = {"table": "a table", "images": "a folder of images"}[wanted]
            option = name.replace("_", "-")
            raise ValueError(f"--{option} is for {what}, but DATA is not one. Omit it.")

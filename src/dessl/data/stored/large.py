"""Files larger than memory: labelled rows and a sample in memory, the rest stored on disk.

``dessl fit`` reads files above these sizes this way.
"""

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import numpy as np

from dessl.data.formats.folder import LONGEST_SIDE, UNLABELLED, read_image_folder
from dessl.data.formats.folder_files import class_folders
from dessl.data.formats.image_file import Colour
from dessl.data.formats.npy import sparse_labels
from dessl.data.semi import SemiData
from dessl.data.stored.images import image_folder
from dessl.data.stored.opening import open_rows
from dessl.data.stored.rows import Without
from dessl.data.stored.tables import SAMPLE, read_large_table

TABLE_BYTES = 2**27  # of a CSV or Parquet file
ARRAY_BYTES = 2**30  # of an npy file
IMAGES = 100_000  # in a folder of unlabelled images
SAMPLE_BYTES = 2**30  # of images and arrays kept in memory; large rows make the sample smaller


def large_data(
    kind: str, source: str | Path, *, place: Path | None, **options: Any
) -> SemiData | None:
    """Return data whose unlabelled rows mostly stay on disk.

    Returns None if all of them fit into memory: then read them as usual.

    Args:
        kind: ``"table"``, ``"npy"`` or ``"images"``.
        source: The file or folder.
        place: Folder for the file of a table's rows; None leaves a table in memory.
        options: Arguments of :func:`large_table`, :func:`large_embeddings` or :func:`large_folder`.
    """
    if kind == "images":
        return large_folder(source, **options)
    if kind == "npy":
        return large_embeddings(source, **options)
    return None if place is None else large_table(source, place=place, **options)


def large_table(path: str | Path, *, place: Path, **options: Any) -> SemiData | None:
    """Return a CSV or Parquet table whose rows mostly stay on disk.

    Returns None if no more than a sample is unlabelled: then read it into memory.

    Args:
        path: The file.
        place: Folder for the file of encoded rows, which is written when a network draws from it.
        options: Arguments of :func:`dessl.data.stored.tables.read_large_table`.
    """
    found = read_large_table(path, place=place, **options)
    if found is None:
        return None
    data = SemiData.from_raw(found.raw, name=Path(path).stem)
    data.encoding = found.encoding
    return data.with_stored(found.rest)


def unlabelled_folders(folder: Path) -> list[Path]:
    """Return the subfolders of images without a label."""
    return [place for place in class_folders(folder) if place.name.lower() in UNLABELLED]


def large_folder(
    folder: str | Path,
    *,
    size: int | tuple[int, int] | None = None,
    sample: int = SAMPLE,
    seed: int = 0,
) -> SemiData | None:
    """Return a folder of images whose unlabelled ones mostly stay on disk.

    Returns None if no more than a sample is unlabelled, or they are not in one folder.

    Args:
        folder: Same as in :func:`dessl.data.formats.folder.read_image_folder`.
        size: Size of the images; by default from the labelled images and the sample.
        sample: Unlabelled images to keep in memory, drawn completely at random.
        seed: Seed of the sample.
    """
    places = unlabelled_folders(Path(folder))
    if len(places) != 1:
        return None
    listed = image_folder(str(places[0]))
    sample = min(sample, SAMPLE_BYTES // min(listed.row_bytes, 3 * LONGEST_SIDE**2))
    if len(listed) <= sample:
        return None
    drawn = np.sort(np.random.default_rng(seed).choice(len(listed), sample, replace=False))
    paths = [Path(listed.file(int(k)).name) for k in drawn]
    data = SemiData.from_raw(
        read_image_folder(folder, size=size, unlabelled=paths), name=Path(folder).name
    )
    channels, height, width = data.x.shape[1:]
    colour: Colour = "grey" if channels == 1 else "rgb"
    rest = image_folder(str(places[0]), size=(height, width), colour=colour, bits=data.bits)
    return data.with_stored(Without(rest, drawn))


def large_embeddings(
    path: str | Path,
    *,
    labels: str | Path,
    label: str | None = None,
    missing_labels: Collection[str] = (),
    ask: Callable[[dict[str, int]], Collection[str]] | None = None,
    text_encoding: str | None = None,
    missing: Collection[str] = (),
    sample: int = SAMPLE,
    seed: int = 0,
) -> SemiData | None:
    """Return an npy file whose rows mostly stay on disk.

    Returns None if no more than a sample is unlabelled.

    Args:
        path: The file.
        labels: File with the labels, see :func:`dessl.data.formats.npy.read_embeddings`.
        label: The column of the labels.
        missing_labels: Marks of a missing label.
        ask: Decides which labels are such marks.
        text_encoding: Encoding of a table of labels; UTF-8 by default.
        missing: Marks of missing cells in a table of labels.
        sample: Unlabelled rows to keep in memory, drawn completely at random.
        seed: Seed of the sample.
    """
    stored = open_rows(path)
    found = sparse_labels(
        labels,
        len(stored),
        label=label,
        missing_labels=missing_labels,
        ask=ask,
        text_encoding=text_encoding,
        missing=missing,
    )
    unlabelled = Without(stored, found.rows)
    sample = min(sample, SAMPLE_BYTES // stored.row_bytes)
    if len(unlabelled) <= sample:
        return None
    drawn = np.random.default_rng(seed).choice(len(unlabelled), sample, replace=False)
    kept = unlabelled.originals(np.sort(drawn))
    rows = np.concatenate([found.rows, kept])
    y = np.concatenate([found.y, np.full(len(kept), -1)])
    order = np.argsort(rows)
    return SemiData(
        stored.rows(rows[order]),
        y[order],
        class_names=found.class_names,
        name=Path(path).stem,
        stored=Without(stored, rows),
    )

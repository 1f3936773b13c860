"""A table about the images of a folder: a line for each, with its file name, label and more.

File names may be with or without folders and suffix; folders may be written as on Windows.
"""

import unicodedata
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PureWindowsPath
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from dessl._checks import quoted
from dessl.data.errors import DataError, did_you_mean, few
from dessl.data.formats.cells import Column, arrow_module
from dessl.data.formats.columns import class_names as names_in_column
from dessl.data.formats.columns import label_counts, missing_marks
from dessl.data.formats.encoding import TableEncoding
from dessl.data.formats.folder import read_listed_images, read_new_listed_images
from dessl.data.formats.folder_files import SUFFIXES, every_image
from dessl.data.formats.tables import Table, open_table
from dessl.data.parts import RawData

NONE, SEVERAL = -1, -2  # images that a cell names, if not one
# What dessl plan writes in place of +ve, so that no spreadsheet computes it.
GUARDED = (
    "(?s)^'('*[=+\\-@\N{FULLWIDTH EQUALS SIGN}\N{FULLWIDTH PLUS SIGN}"
    "\N{FULLWIDTH HYPHEN-MINUS}\N{FULLWIDTH COMMERCIAL AT}].*)$"
)


def read_labelled_images(
    folder: str | Path,
    *,
    labels: str | Path,
    label: str | None = None,
    missing_labels: Collection[str] = (),
    ask: Callable[[dict[str, int]], Collection[str]] | None = None,
    sheet: str | None = None,
    text_encoding: str | None = None,
    missing: Collection[str] = (),
    skip_damaged: bool = False,
    **options: Any,
) -> RawData:
    """Images in a folder and its subfolders, with their labels from a table.

    Args:
        folder: The folder; its subfolders, of any depth, are no classes.
        labels: The table, see :func:`images_of_table`. An image without a line, or with an empty
            label, is unlabelled.
        label: The column of the labels; by default the only one besides that of the file names.
        missing_labels: Marks of a missing label, besides an empty cell.
        ask: Decides which other labels are such marks; by default none is.
        sheet: Sheet of a workbook.
        text_encoding: Encoding of a CSV table; UTF-8 by default.
        missing: Marks of missing cells in the table.
        skip_damaged: Whether to leave out files that cannot be read, with a warning.
        options: ``size``, ``colour``, ``bits``, ``max_pixels`` and ``max_bytes`` of
            :func:`dessl.data.formats.folder.read_image_folder`.

    Raises:
        DataError: The table does not match the folder, or a file is damaged.
    """
    folder = Path(folder)
    paths = every_image(folder, table=labels, skip_others=skip_damaged)
    table = images_of_table(
        labels, _names(folder, paths), sheet=sheet, text_encoding=text_encoding, missing=missing
    )
    column = label_of(table, label)
    marks = missing_marks(label_counts(table, column, missing_labels), missing_labels, ask)
    classes = names_in_column(table, column, missing=marks, asked=ask is not None)
    y = TableEncoding(column, classes, (), missing_labels=marks).labels(table)
    return read_listed_images(folder, paths, y, classes, skip_damaged=skip_damaged, **options)


def read_new_labelled_images(
    folder: str | Path,
    class_names: Sequence[str],
    shape: Sequence[int],
    *,
    labels: str | Path,
    label: str | None = None,
    sheet: str | None = None,
    text_encoding: str | None = None,
    missing: Collection[str] = (),
    skip_damaged: bool = False,
    **options: Any,
) -> RawData:
    """Images as a trained model expects them, with their labels from a table.

    Args:
        folder: Same as in :func:`read_labelled_images`, like all other arguments but these.
        class_names: The model's classes, in its order.
        shape: (channels, height, width) of the model's images.
        labels: The table.
        label: Its column of labels.
        sheet: Sheet of a workbook.
        text_encoding: Encoding of a CSV table.
        missing: Marks of missing cells.
        skip_damaged: Whether to leave out files that cannot be read.
        options: ``bits``, ``training``, ``max_pixels`` and ``max_bytes`` of
            :func:`dessl.data.formats.folder.read_new_images`.

    Raises:
        DataError: The table does not match the folder, a label is not one of the classes, or a
            file is damaged.
    """
    folder = Path(folder)
    paths = every_image(folder, table=labels, skip_others=skip_damaged)
    table = images_of_table(
        labels, _names(folder, paths), sheet=sheet, text_encoding=text_encoding, missing=missing
    )
    y = TableEncoding(label_of(table, label), tuple(class_names), ()).labels(table)
    return read_new_listed_images(
        folder, paths, y, class_names, shape, skip_damaged=skip_damaged, **options
    )


def images_of_table(source: str | Path, names: Sequence[str], **reading: Any) -> Table:
    """The other columns of a table about images, with a row for each image; empty if it has none.

    Args:
        source: The table. The column that names the most images has the file names; one that
            names them with their suffix, before all others.
        names: Paths of the images (n,) within their folder.
        reading: Arguments of :func:`dessl.data.formats.tables.open_table`.

    Raises:
        DataError: No column names images, or two name different ones, or a line names several, or
            two lines name one.
    """
    table = open_table(source, **reading)
    table = replace(table, columns={n: _without_guard(one) for n, one in table.columns.items()})
    known = _Names.of(names)
    found = {name: _images(column, known) for name, column in table.columns.items()}
    best = _column_of_names(table, found)
    if best is None:
        raise DataError.of(
            table.source,
            expected=f"a column with the file names of the images, such as {quoted(names[0])}",
            got=f"the columns {few([quoted(name) for name in table.columns], most=20)}",
            do="Add such a column, with a line for each labelled image.",
        )
    images = found[best]
    _check_lines(table, best, images, names)
    lines = np.full(len(names), NONE)
    used = np.flatnonzero(images != NONE)
    lines[images[used]] = used
    columns = {n: _taken(one, lines) for n, one in table.columns.items() if n != best}
    return replace(table, columns=columns, n_rows=len(names))


def label_of(table: Table, label: str | None) -> str:
    """The column of labels: the one named, or the only one.

    Raises:
        DataError: There is no such column, or there are several.
    """
    names = [*table.columns, *table.unread]
    if label is None and len(names) == 1:
        label = names[0]
    if label in table.unread:
        raise DataError.of(
            table.source,
            expected=f"labels in column {quoted(label)}",
            got=f"type {table.unread[label]}",
            do="Convert the column.",
        )
    if label is None or label not in table.columns:
        raise DataError.of(
            table.source,
            expected="one column besides that of the file names"
            if label is None
            else f"a column {quoted(label)}",
            got=f"the columns {few([quoted(name) for name in names], most=20)}",
            do=did_you_mean(label or "", names)
            or "Which column has the labels? Pass --label NAME (label= in Python).",
        )
    return label


def _names(folder: Path, paths: Sequence[Path]) -> list[str]:
    return [path.relative_to(folder).as_posix() for path in paths]


def _parts(name: str) -> tuple[str, ...]:
    r"""The folders and the file of a path, compared without case and as Unicode composes it.

    >>> _parts(r"C:\Scans\A.PNG"), _parts("./p1/a.png")
    (('c:', 'scans', 'a.png'), ('p1', 'a.png'))
    """
    plain = unicodedata.normalize("NFC", name.strip()).lower()
    return tuple(part.rstrip("\\") for part in PureWindowsPath(plain).parts)


class _Names(NamedTuple):
    """The image, or ``SEVERAL``, of each path within the folder, and of each ending of one."""

    paths: dict[tuple[str, ...], int]
    endings: dict[tuple[str, ...], int]

    @classmethod
    def of(cls, names: Sequence[str]) -> Self:
        """Both of them with and without the file's suffix."""
        paths: dict[tuple[str, ...], int] = {}
        endings: dict[tuple[str, ...], int] = {}
        parts = [_parts(name) for name in names]
        for image, (*folders, file) in enumerate(parts):
            for last in {file, file.rpartition(".")[0]}:
                _add(paths, (*folders, last), image)
                for first in range(len(folders) + 1):
                    _add(endings, (*folders[first:], last), image)
        own: dict[tuple[str, ...], int] = {}
        for image, path in enumerate(parts):  # with its suffix, a path means itself
            _add(own, path, image)
        return cls(paths | own, endings | own)

    def image(self, parts: tuple[str, ...]) -> int:
        """The image whose path ends like this one, or that whose whole path this one ends with.

        Files of one name in different folders are different images.
        """
        if parts in self.endings:
            return self.endings[parts]
        ends = (parts[k:] for k in range(1, len(parts)))
        return next((self.paths[end] for end in ends if end in self.paths), NONE)


def _add(images: dict[tuple[str, ...], int], key: tuple[str, ...], image: int) -> None:
    images[key] = image if images.get(key, image) == image else SEVERAL


def _images(column: Column, names: _Names) -> NDArray[np.int64]:
    """The image that each cell names, (lines,), or ``NONE`` or ``SEVERAL``."""
    if column.numbers is not None:
        texts, codes = np.unique(column.numbers, return_inverse=True)
        distinct = ["" if np.isnan(value) else f"{value:.15g}" for value in texts]
    else:
        distinct, codes = column.texts.to_pylist(), column.codes
    found = [names.image(_parts(text)) for text in distinct]
    return np.array(found, np.int64)[codes]


def _column_of_names(table: Table, found: Mapping[str, NDArray[np.int64]]) -> str | None:
    """The column of the file names by the images that cells name, or None.

    Row numbers and labels such as 0 and 1 may name images too, 0.png and 1.png.
    """
    counts = {name: _named(table.columns[name], images) for name, images in found.items()}
    best = max(counts, key=counts.__getitem__, default=None)
    if best is None or not counts[best][1]:
        return None
    for name, images in found.items():
        if counts[name] == counts[best] and (images != found[best]).any():
            raise DataError.of(
                table.source,
                expected="one column with the file names of the images",
                got=f"{quoted(best)} and {quoted(name)}, which name different images",
                do="Write the file names with their suffix, or remove the other column.",
            )
    return best


def _named(column: Column, images: NDArray[np.int64]) -> tuple[int, int]:
    """How many different images a column names with the suffix of the file, and at all."""
    full = np.zeros(len(column), np.bool_)
    if column.numbers is None:
        texts = column.texts.to_pylist()
        full = np.array([one.lower().endswith(tuple(SUFFIXES)) for one in texts])[column.codes]
    known = images != NONE
    return len(np.unique(images[known & full])), len(np.unique(images[known]))


def _check_lines(
    table: Table, column: str, images: NDArray[np.int64], names: Sequence[str]
) -> None:
    """Refuse lines for several images and images of several lines; warn of lines for none."""
    cells = table.columns[column]
    if (images == SEVERAL).any():
        line = int(np.flatnonzero(images == SEVERAL)[0])
        raise DataError.of(
            table.source,
            expected=f"in column {quoted(column)} the name of one image in each line",
            got=f"{quoted(cells.cell(line))} in data row {line + 1}, the name of several",
            do="Write the path within the folder of images, with the suffix. Upper and lower case "
            "are the same.",
        )
    known = np.flatnonzero(images != NONE)
    times = np.bincount(images[known], minlength=len(names))
    if (times > 1).any():
        image = int(times.argmax())
        rows = [str(row + 1) for row in np.flatnonzero(images == image)]
        raise DataError.of(
            table.source,
            expected="one line for each image",
            got=f"{quoted(names[image])} in data rows {few(rows)}",
            do="Remove all lines but one for each image.",
        )
    if lost := np.flatnonzero(images == NONE).tolist():
        warnings.warn(
            f"{table.source}: {len(lost):,} of {len(images):,} lines name no image of the folder, "
            f"such as {quoted(cells.cell(lost[0]))}, and are not used.",
            UserWarning,
            stacklevel=2,
        )


def _without_guard(column: Column) -> Column:
    """The column without the apostrophes that keep cells from being formulas."""
    if column.numbers is not None:
        return column
    replaced = arrow_module().compute.replace_substring_regex(column.texts, GUARDED, r"\1")
    return Column.of_texts(column.name, replaced, column.codes)


def _taken(column: Column, lines: NDArray[np.int64]) -> Column:
    """The cells of these lines, (n,); those of missing lines are empty."""
    none = lines == NONE
    if column.numbers is not None:
        return Column.of_numbers(column.name, np.where(none, np.nan, column.numbers[lines]))
    texts = column.texts.to_pylist()
    codes = np.where(none, len(texts), column.codes[lines])
    return Column.of_texts(column.name, arrow_module().array([*texts, ""]), codes)

"""Read rows in the form a trained model expects: to predict, to evaluate, or to test it on."""

import dataclasses
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from dessl._checks import quoted
from dessl.cli.options import AS_IT_IS, Reading
from dessl.cli.sources import (
    Kind,
    check_labels_file,
    check_options,
    fingerprint,
    kind_of,
    npy_files,
)
from dessl.data import DataError, Part, SemiData, load
from dessl.data.errors import few
from dessl.data.formats.encoding import TableEncoding
from dessl.data.formats.fitting import read_new_table
from dessl.data.formats.folder import read_new_images
from dessl.data.formats.image_likeness import NOTHING_KNOWN, Likeness
from dessl.data.formats.image_table import read_new_labelled_images
from dessl.data.formats.npy import read_new_embeddings
from dessl.data.formats.npz import LABEL_NAMES, read_new_npz
from dessl.data.formats.tables import open_table
from dessl.data.formats.zipped import open_npz
from dessl.data.parts import RawData
from dessl.saved import SavedModel


class Expected(NamedTuple):
    """The rows a trained model expects: classes, shape, encoding of tables, looks of images."""

    class_names: tuple[str, ...]
    shape: tuple[int, ...]
    image: bool
    encoding: TableEncoding | None
    bits: int
    looks: Likeness = NOTHING_KNOWN

    @classmethod
    def of(cls, origin: SavedModel | SemiData) -> "Expected":
        """Read it from a saved model, or from the data to train one on."""
        if isinstance(origin, SavedModel):
            shape, image = origin.shape, origin.image
            looks = Likeness.read(origin.details.get("looks"))
        else:
            shape, image, looks = tuple(origin.x.shape[1:]), origin.is_image, NOTHING_KNOWN
        return cls(origin.class_names, shape, image, origin.encoding, origin.bits, looks)

    def with_classes(self, more: Iterable[str]) -> "Expected":
        """The same rows with labels of more classes, numbered after the model's own."""
        names = (*self.class_names, *more)
        encoding = self.encoding and dataclasses.replace(self.encoding, class_names=names)
        return self._replace(class_names=names, encoding=encoding)


def new_rows(
    source: str,
    model: Expected,
    *,
    labels: bool = True,
    labels_file: str | None = None,
    label: str | None = None,
    reading: Reading = AS_IT_IS,
    skip_damaged: bool = False,
) -> tuple[Part, tuple[str, ...] | tuple[int, ...]]:
    """Read DATA as a trained model expects it, with a name or number for each row.

    For a name of the catalogue, the rows are those of its test part.

    If ``labels`` is False, labels are not read and may be missing. The labels of npy files are in a
    file of their own, in the column ``label``. ``reading`` says how a table is read; what it does
    not say is as in training.
    ``skip_damaged`` leaves out images that cannot be read.

    Raises:
        DataError: The rows differ in kind from those the model was trained on.
    """
    kind = kind_of(source)
    if labels_file is not None:
        check_labels_file(source, kind, labels_file)
    wanted = "images" if model.image else "table" if model.encoding else "npz"
    if kind == "catalogue":
        rows = _catalogue_rows(source, model)
        return rows, _numbers(rows)
    numbers = kind == "npz" or (kind == "npy" and not model.image)
    if kind != wanted and not (numbers and model.encoding is None):
        known = {"images": "images", "table": "a table", "npz": "rows of numbers in an .npz file"}
        known["npy"] = "rows of numbers in an .npy file"
        either = "rows of numbers in an .npz or .npy file"
        raise DataError.of(
            source,
            expected=f"{either if wanted == 'npz' else known[wanted]}, like the training data",
            got=known[kind],
            do="Pass data of the same kind.",
        )
    if kind == "npy":
        raw = read_new_embeddings(
            npy_files(source), model.class_names, labels=labels_file, label=label,
            text_encoding=reading.text_encoding, missing=reading.missing,
        )  # fmt: skip
    elif kind == "images" and labels_file is not None:
        raw = read_new_labelled_images(
            source, model.class_names, model.shape, labels=labels_file, label=label,
            bits=model.bits, skip_damaged=skip_damaged, training=model.looks, **reading.options,
        )  # fmt: skip
    else:
        check_options(kind, **reading.typed, skip_damaged=skip_damaged)
        if kind == "images":
            raw = read_new_images(
                source, model.class_names, model.shape, bits=model.bits, labels=labels,
                skip_damaged=skip_damaged, training=model.looks,
            )  # fmt: skip
        else:
            raw = _raw_rows(source, kind, model, labels=labels, reading=reading)
    if tuple(raw.x.shape[1:]) != model.shape:
        raise DataError.of(
            source,
            expected=f"rows of shape {model.shape}, like the training data",
            got=f"{tuple(raw.x.shape[1:])}",
            do="Pass data of that shape.",
        )
    return raw.rows, raw.row_names or _numbers(raw.rows)


def _raw_rows(
    source: str, kind: Kind, model: Expected, *, labels: bool, reading: Reading
) -> RawData:
    if kind == "npz":
        return read_new_npz(source, model.class_names, labels=labels)
    assert model.encoding is not None  # noqa: S101 (new_rows looked)
    how = reading.like(model.encoding, source)
    return read_new_table(source, model.encoding, labels=labels, **how.options)


def _catalogue_rows(source: str, model: Expected) -> Part:
    data = load(source)
    if data.class_names != model.class_names or data.x.shape[1:] != model.shape:
        raise DataError.of(
            source,
            expected=f"rows of shape {model.shape} of the classes {few(model.class_names)}",
            got=f"{tuple(data.x.shape[1:])} of {few(data.class_names)}",
            do="Pass data like the training data.",
        )
    return data.test if data.test is not None else Part(data.x, data.y)


def _numbers(rows: Part) -> tuple[int, ...]:
    """Row numbers from 0, for rows without names."""
    return tuple(range(len(rows.y)))


def read_test_file(
    test_file: str, source: str, data: SemiData, *, skip_damaged: bool = False
) -> tuple[Part, tuple[str, ...] | tuple[int, ...]]:
    """Read the rows of ``--test-file`` and their names.

    Args:
        test_file: The file.
        source: DATA.
        data: The rows of DATA, all of them.
        skip_damaged: Whether to leave out images that cannot be read.

    Raises:
        DataError: They are the rows of DATA, or have no labels.
    """
    expected = Expected.of(data)
    rows, names = new_rows(test_file, expected, skip_damaged=skip_damaged)
    if _is_same_file(test_file, source) or (_equal(rows.x, data.x) and _equal(rows.y, data.y)):
        raise DataError.of(
            test_file,
            expected="test rows that the models were not trained on",
            got="the rows of DATA, the training rows",
            do="Omit --test-file to hold out a share of DATA, or pass other rows.",
        )
    check_labels_present(test_file, rows, expected)
    return rows, names


def _is_same_file(one: str, other: str) -> bool:
    """Whether both are the same file or folder, or copies. Data set names are not files."""
    if not (Path(one).exists() and Path(other).exists()):
        return False
    return Path(one).samefile(other) or fingerprint(one) == fingerprint(other)


def _equal(one: Tensor, other: Tensor) -> bool:
    return one.dtype == other.dtype and torch.equal(one, other.cpu())


def check_labels_present(
    source: str, rows: Part, model: Expected, *, reading: Reading = AS_IT_IS
) -> None:
    """Refuse rows without any label if the label column (or array of an npz file) is missing.

    If it exists but is empty, the caller decides how many labels it needs.

    Raises:
        DataError: It is missing; the message lists the others.
    """
    if bool(rows.labelled.any()):
        return
    kind = kind_of(source)
    wanted: tuple[str, ...]
    if kind == "table" and model.encoding is not None:
        table = open_table(source, **reading.like(model.encoding, source).options)
        wanted, available = (model.encoding.label,), (*table.columns, *table.unread)
        what = "column"
    elif kind == "npz":
        with open_npz(source) as arrays:
            wanted, available = LABEL_NAMES, arrays.names
        what = "array"
    elif kind == "npy":
        raise DataError.of(
            source,
            expected="rows with labels",
            got="an .npy file, which has none",
            do="Pass --labels FILE to dessl evaluate; for --test-file, save the rows and their "
            "labels in one file, numpy.savez('test.npz', x=x, y=y).",
        )
    elif kind == "images":
        raise DataError.of(
            source,
            expected="images with labels",
            got="none",
            do="Put each labelled image into a subfolder named for its class, or pass --labels "
            "FILE, a table with file names and labels.",
        )
    else:
        return
    if not set(wanted) & set(available):
        raise DataError.of(
            source,
            expected=f"the labels in the {what} {' or '.join(map(quoted, wanted))}",
            got=few([quoted(name) for name in available], most=20),
            do=f"If one of them has the labels, rename it to {quoted(wanted[0])}. Without labels, "
            "nothing can be evaluated.",
        )

"""SemiData: one copy of the features, and which rows are labelled."""

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset

from dessl._checks import ArrayLike
from dessl._html import card
from dessl.data.draw import LabelDraw, draw_of_mask
from dessl.data.errors import few
from dessl.data.features import feature_tensor
from dessl.data.labels import MISSING, label_codes, warn_of_marks
from dessl.data.parts import (
    Part,
    as_pair,
    check_draw,
    checked_stored,
    dataset_arrays,
    labelled_part,
    named_answers,
    row_groups,
    row_ids,
    row_propensity,
)
from dessl.data.row_keys import row_digests

if TYPE_CHECKING:
    from dessl.data.formats.encoding import TableEncoding
    from dessl.data.parts import RawData
    from dessl.data.stored.rows import StoredRows


class SemiData:
    """Features, labels (most of which may be missing), and parts for validation and test.

    Images are kept as uint8 without a copy, as (n, channels, height, width); tables
    and other numbers as float32. Which rows are labelled, unlabelled or held out for validation
    is kept as index tensors, so hiding labels or moving rows never copies the features. A method
    returns a new ``SemiData`` over the same memory; do not modify it.

    Args:
        x: uint8 images (n, C, H, W), (n, H, W, C) or (n, H, W); or numbers (n, features, ...).
        y: (n,) class numbers with -1 for missing; or text (or any other) labels with None, NaN
            or "" for missing, which are mapped in sorted order and remembered in ``class_names``.
        class_names: The classes in order, if the labels alone do not determine them.
        validation: A pair (x, y), fully labelled, with rows of the same kind as x.
        test: A pair (x, y) of the same kind.
        ids: (n,) different whole numbers from 0 that identify the rows in a surrogate's memory;
            0, ..., n - 1 by default.
        propensity: (n,) each row's probability of being labelled, for labels that are not missing
            completely at random; in (0, 1] for labelled rows, ignored for others.
        groups: (n,) numbers or text, the same for rows that belong together, such as those of one
            patient: ``dessl.recipes`` holds them out together.
        teachers: Answers to all rows from sources that may be wrong, by name or as a list: classes
                (n,), None for no answer, or probabilities (n, classes). Only
                :func:`dessl.teachers.learn_from_answers` uses them.
        name: Name of the data in reports.
        layout: ``"NCHW"`` or ``"NHWC"``, for images whose shape is ambiguous.
        stored: More unlabelled rows, which stay on disk, from :func:`dessl.data.open_rows`.
            Networks then draw their unlabelled rows from these alone; the unlabelled rows of x are
            for teachers and the audit. Their ids follow the largest of ``ids``.

    Example:
        >>> data = SemiData(torch.rand(5, 2), ["a", None, "b", None, "a"])
        >>> data
        SemiData(5 rows of shape (2,), 2 classes: 3 labelled, 2 unlabelled)
        >>> data.y.tolist(), data.class_names, data.unlabelled_rows.tolist()
        ([0, -1, 1, -1, 0], ('a', 'b'), [1, 3])
    """

    def __init__(
        self,
        x: "Tensor | NDArray[Any]",
        y: ArrayLike,
        *,
        class_names: Sequence[str] | None = None,
        validation: "tuple[Any, Any] | None" = None,
        test: "tuple[Any, Any] | None" = None,
        ids: "Tensor | NDArray[Any] | None" = None,
        propensity: "Tensor | NDArray[Any] | None" = None,
        groups: "Tensor | NDArray[Any] | None" = None,
        teachers: "Mapping[str, Any] | Sequence[Any] | None" = None,
        name: str = "",
        layout: str | None = None,
        stored: "StoredRows | None" = None,
    ) -> None:
        parts = {"validation": validation, "test": test}
        pairs = {key: as_pair(key, pair) for key, pair in parts.items() if pair is not None}
        self.x = feature_tensor("x", x, layout=layout)
        columns = {"y": y} | {f"{key} y": pair[1] for key, pair in pairs.items()}
        features = {"y": self.x} | {
            f"{key} y": feature_tensor(f"{key} x", pair[0], layout=layout)
            for key, pair in pairs.items()
        }
        codes, self.class_names = label_codes(
            columns, class_names, rows={key: len(its) for key, its in features.items()}
        )
        if class_names is None:
            warn_of_marks(self.class_names, where="y", do="pass None in its place")
        self.y = codes["y"].to(self.x.device)
        read = {
            key: labelled_part(key, features[f"{key} y"], codes[f"{key} y"], self.x)
            for key in pairs
        }
        self.test = read.get("test")
        self._validation = read.get("validation")
        self.ids = row_ids(ids, self.x)
        self.stored = None if stored is None else checked_stored(stored, self.x)
        self.name = name
        self.row_names: tuple[str, ...] | None = None  # of x's rows, if the files have names
        self.encoding: TableEncoding | None = None  # how a table became x, for new tables
        self.bits = 8  # of the values in image files, for new ones; x has the upper 8
        self.labelled_rows = (self.y != MISSING).nonzero().flatten()
        self.unlabelled_rows = (self.y == MISSING).nonzero().flatten()
        self.propensity = row_propensity(propensity, self.x, self.labelled_rows)
        self.groups = row_groups(groups, self.x)
        self.teachers = named_answers(teachers, len(self.x))
        self.validation_rows = self.labelled_rows.new_empty(0)
        self._validation_y = self.y.new_empty(0)
        self._digests: tuple[Tensor, NDArray[np.void]] | None = None  # cached for this x

    @classmethod
    def from_dataset(cls, dataset: "Dataset[Any]", **options: Any) -> Self:
        """Read a map-style PyTorch data set of (x, y) items once, into one array.

        Args:
            dataset: Has a length; its items are pairs of an image or row (an array, a tensor or a
                Pillow image, all of one shape and type) and a label (a number, text or None).
            options: Arguments of the constructor other than x and y.

        Example:
            >>> from torch.utils.data import TensorDataset
            >>> items = TensorDataset(torch.rand(4, 3), torch.tensor([0, 1, -1, -1]))
            >>> SemiData.from_dataset(items).n_unlabelled
            2
        """
        x, labels = dataset_arrays(dataset)
        return cls(x, labels, **options)

    @classmethod
    def from_raw(cls, raw: "RawData", *, name: str = "") -> Self:
        """Build from the result of a reader in :mod:`dessl.data.formats`, without a copy."""
        x, y = raw.rows
        data = cls(
            x,
            y,
            class_names=raw.class_names,
            validation=raw.validation,
            test=raw.test,
            name=name,
            layout="NCHW" if x.ndim == 4 and x.dtype == torch.uint8 else None,
        )
        data.row_names, data.bits = raw.row_names, raw.bits
        return data

    @classmethod
    def from_file(cls, path: str | Path, *beside: str | Path, **options: Any) -> Self:
        """Read your own file: a table, ``.npz``, or embeddings in one or several ``.npy``.

        Args:
            path: The file; its name becomes the name of the data.
            beside: More ``.npy`` files, whose columns are appended to those of the first.
            options: Arguments of :func:`~dessl.data.formats.npz.read_npz`; of
                :func:`~dessl.data.formats.npy.read_embeddings`, which needs ``labels=``, a file
                with the labels; or of :func:`~dessl.data.formats.fitting.read_table`, which needs
                ``label=``, the name of the label column. An empty label is a missing one.
        """
        from dessl.data.formats.fitting import read_table
        from dessl.data.formats.npy import read_embeddings
        from dessl.data.formats.npz import read_npz
        from dessl.data.formats.reading import check_name

        for file in (path, *beside):
            check_name(file)
        name = Path(path).stem
        suffix = Path(path).suffix.lower()
        if suffix == ".npy":
            return cls.from_raw(read_embeddings([path, *beside], **options), name=name)
        if beside:
            raise ValueError(f"several files are joined only if all are .npy; got {path}.")
        if suffix == ".npz":
            return cls.from_raw(read_npz(path, **options), name=name)
        raw, encoding = read_table(path, **options)
        data = cls.from_raw(raw, name=name)
        data.encoding = encoding
        return data

    @classmethod
    def from_folder(
        cls, folder: str | Path, *, labels: str | Path | None = None, **options: Any
    ) -> Self:
        """Read a folder of images: a subfolder for each class, ``unlabelled`` for the rest.

        Args:
            folder: The folder; its name becomes the name of the data.
            labels: A table with the file names and the labels, in place of subfolders of classes.
            options: Arguments of :func:`~dessl.data.formats.folder.read_image_folder`, such as
                ``size=``, or of :func:`~dessl.data.formats.image_table.read_labelled_images`.
        """
        from dessl.data.formats.folder import read_image_folder
        from dessl.data.formats.image_table import read_labelled_images
        from dessl.data.formats.reading import check_name

        check_name(folder)
        raw = (
            read_image_folder(folder, **options)
            if labels is None
            else read_labelled_images(folder, labels=labels, **options)
        )
        return cls.from_raw(raw, name=Path(folder).name)

    @property
    def n_classes(self) -> int:
        """Number of classes, labelled here or not."""
        return len(self.class_names)

    @property
    def n_labelled(self) -> int:
        """Number of labelled training rows."""
        return len(self.labelled_rows)

    @property
    def n_unlabelled(self) -> int:
        """Number of unlabelled rows, including stored ones, without validation rows."""
        return len(self.unlabelled_rows) + self.n_stored

    @property
    def n_stored(self) -> int:
        """Number of unlabelled rows that are not in memory."""
        return 0 if self.stored is None else len(self.stored)

    @property
    def first_stored_id(self) -> int:
        """The id of the first stored row; the next ones count up from it."""
        return int(self.ids.max()) + 1

    @property
    def is_image(self) -> bool:
        """Whether the rows are uint8 images (channels, height, width)."""
        return self.x.dtype == torch.uint8

    @property
    def device(self) -> torch.device:
        """Device of the features."""
        return self.x.device

    @property
    def validation(self) -> Part | None:
        """The validation part; rows held out by a draw are gathered each time."""
        if len(self.validation_rows):
            return Part(self.x[self.validation_rows], self._validation_y)
        return self._validation

    def with_labels(self, keep: "Tensor | NDArray[Any] | LabelDraw") -> Self:
        """The same rows with some of the labels hidden; the features are shared, not copied.

        Args:
            keep: A boolean mask (n,) of the labels to keep, which makes all other rows unlabelled;
                or a :class:`LabelDraw`. A draw's validation rows leave both the loss and the
                debiasing term: they are in neither ``labelled_rows`` nor ``unlabelled_rows``,
                and take the place of a validation part that the data came with, whose labels
                are not in the draw's budget. Rows in none of a draw's parts are not used.

        Example:
            >>> data = SemiData(torch.rand(4, 2), [0, 1, 1, 0])
            >>> data.with_labels(torch.tensor([True, True, False, False])).y.tolist()
            [0, 1, -1, -1]
        """
        if len(self.validation_rows):
            raise ValueError(
                "labels were already drawn from this data, and validation rows held out of it. "
                "Draw from the original data instead."
            )
        draw = keep if isinstance(keep, LabelDraw) else draw_of_mask(keep, self.y)
        draw = LabelDraw(*(rows.to(self.device) for rows in draw))
        check_draw(draw, self.y)
        new = copy.copy(self)
        new.y = torch.full_like(self.y, MISSING)
        new.y[draw.labelled] = self.y[draw.labelled]
        new.labelled_rows, new.validation_rows, new.unlabelled_rows = draw
        new._validation_y = self.y[draw.validation]
        return new

    def row_digests(self) -> NDArray[np.void]:
        """A few bytes for each row, (n,), equal if the rows are; computed once for the same x."""
        if self._digests is None or self._digests[0] is not self.x:
            self._digests = self.x, row_digests(self.x.numpy(force=True))
        return self._digests[1]

    def labelled_alone(self) -> Self:
        """The rows with a label, copied, and the validation part: what a complete case needs.

        Rows keep their ids.

        Example:
            >>> data = SemiData(torch.arange(3.0)[:, None], [1, -1, 0])
            >>> alone = data.labelled_alone()
            >>> alone.x.tolist(), alone.y.tolist(), alone.ids.tolist(), alone.n_unlabelled
            ([[0.0], [2.0]], [1, 0], [0, 2], 0)
        """
        new, rows = copy.copy(self), self.labelled_rows
        new.x, new.y, new.ids = self.x[rows], self.y[rows], self.ids[rows]
        new.propensity = None if self.propensity is None else self.propensity[rows]
        new.groups = None if self.groups is None else self.groups[rows]
        new.row_names, new.teachers = None, {}
        new._validation = self.validation
        new.labelled_rows = torch.arange(len(rows), device=self.device)
        new.unlabelled_rows, new.validation_rows = rows[:0], rows[:0]
        new.stored = None
        return new

    def with_stored(self, stored: "StoredRows | None") -> Self:
        """The same rows in memory, with other unlabelled rows on disk, or none."""
        new = copy.copy(self)
        new.stored = None if stored is None else checked_stored(stored, self.x)
        return new

    def to(self, device: "torch.device | str") -> Self:
        """The data on another device; tensors already there are shared."""
        new = copy.copy(self)
        for name, value in vars(self).items():
            if isinstance(value, Part):
                setattr(new, name, Part(*(tensor.to(device) for tensor in value)))
            elif isinstance(value, Tensor):
                setattr(new, name, value.to(device))
        return new

    def __len__(self) -> int:
        return len(self.x)

    def __repr__(self) -> str:
        shape = tuple(self.x.shape[1:])
        kind = "images of shape" if self.is_image else "rows of shape"
        counts = f"{self.n_labelled} labelled, {self.n_unlabelled} unlabelled"
        counts += f" ({self.n_stored} of them stored)" if self.stored is not None else ""
        for key, part in (("validation", self.validation), ("test", self.test)):
            counts += f", {len(part.y)} {key}" if part is not None else ""
        name = f"{self.name}: " if self.name else ""
        return f"SemiData({name}{len(self)} {kind} {shape}, {self.n_classes} classes: {counts})"

    def _repr_html_(self) -> str:
        counts = self.y[self.labelled_rows].bincount(minlength=self.n_classes).tolist()
        classes = [f"{name}: {n:,}" for name, n in zip(self.class_names, counts, strict=True)]
        parts = {"validation": self.validation, "test": self.test}
        sizes = {name: None if part is None else f"{len(part.y):,}" for name, part in parts.items()}
        kind = "images" if self.is_image else "rows"
        entries: dict[str, str | None] = {
            kind: f"{len(self):,} of shape {tuple(self.x.shape[1:])}",
            "labelled": f"{self.n_labelled:,} ({few(classes)})",
            "unlabelled": f"{self.n_unlabelled:,}"
            + (f" ({self.n_stored:,} stored)" if self.stored is not None else ""),
        }
        return card(f"SemiData {self.name}".rstrip(), entries | sizes)

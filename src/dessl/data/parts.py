"""Rows with labels: their type, the result of reading a file, and checks that pieces match."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from dessl.data.draw import LabelDraw
from dessl.data.features import shared_tensor
from dessl.data.labels import MISSING
from dessl.data.stored.rows import StoredRows

LARGEST_ID = 2**31 - 1


class Part(NamedTuple):
    """Rows with labels: features x (n, ...) and class numbers y (n,), -1 for a missing label.

    >>> part = Part(torch.zeros(3, 2), torch.tensor([1, -1, 0]))
    >>> part.labelled.tolist()
    [True, False, True]
    """

    x: Tensor
    y: Tensor

    @property
    def labelled(self) -> Tensor:
        """Which rows have a label, bool (n,)."""
        return self.y != MISSING

    @classmethod
    def of_arrays(cls, x: NDArray[Any], y: NDArray[np.int64]) -> "Part":
        """The part over the memory of two arrays."""
        return cls(shared_tensor("x", x), shared_tensor("y", y))


@dataclass(frozen=True)
class RawData:
    """A data set as read from files: the result of every reader in :mod:`dessl.data.formats`.

    Attributes:
        rows: uint8 images (n, channels, height, width) or a float32 table (n, features), in one
            piece of memory; and int64 class numbers (n,), -1 for a missing label.
        class_names: One name for each class number.
        validation: Rows the publisher set aside for choosing models.
        test: Rows the publisher set aside for testing.
        feature_names: One name for each column of a table.
        row_names: One name for each row of x, if the files have one (image file names).
        bits: Number of bits of the values of 16-bit image files, of which x keeps the upper 8.

    >>> images, labels = np.zeros((2, 1, 4, 4), np.uint8), np.array([1, -1])
    >>> data = RawData(Part.of_arrays(images, labels), ("cat", "dog"))
    >>> data.x.shape, data.y.tolist(), data.class_names
    (torch.Size([2, 1, 4, 4]), [1, -1], ('cat', 'dog'))
    """

    rows: Part
    class_names: tuple[str, ...]
    validation: Part | None = None
    test: Part | None = None
    feature_names: tuple[str, ...] | None = None
    row_names: tuple[str, ...] | None = None
    bits: int = 8

    @property
    def x(self) -> Tensor:
        """The features."""
        return self.rows.x

    @property
    def y(self) -> Tensor:
        """The class numbers."""
        return self.rows.y


def digit_names(n_classes: int = 10) -> tuple[str, ...]:
    """Class names for classes that are only numbered.

    >>> digit_names(3)
    ('0', '1', '2')
    """
    return tuple(str(k) for k in range(n_classes))


def as_pair(name: str, pair: Any) -> tuple[Any, Any]:
    """The features and the labels of a part; anything but two entries is refused."""
    entries = tuple(pair) if isinstance(pair, tuple | list) else (pair,)
    if len(entries) != 2:
        raise ValueError(
            f"{name} must be a pair (x, y) of features and labels; got {len(entries)} "
            f"({', '.join(type(entry).__name__ for entry in entries)})."
        )
    return entries


def labelled_part(name: str, x: Tensor, y: Tensor, like: Tensor) -> Part:
    """The part; refuse missing labels, and rows that differ in shape or type from ``like``."""
    if x.shape[1:] != like.shape[1:] or x.dtype != like.dtype:
        raise ValueError(
            f"{name} x must have rows like those of x, {tuple(like.shape[1:])} of {like.dtype}; "
            f"got {tuple(x.shape[1:])} of {x.dtype}."
        )
    missing = int((y == MISSING).sum())
    if missing:
        raise ValueError(
            f"{name} y must label every row; {missing} of {len(y)} labels are missing. "
            "Omit those rows."
        )
    return Part(x, y.to(x.device))


def checked_stored(stored: Any, like: Tensor) -> StoredRows:
    """The stored rows; refuse rows that differ in shape or type from ``like``."""
    if not isinstance(stored, StoredRows):
        raise TypeError(
            f"stored must be rows from dessl.data.open_rows; got {type(stored).__name__}. Arrays "
            "in memory go into x, with the label -1."
        )
    kind = torch.uint8 if stored.dtype == np.uint8 else torch.float32
    if stored.shape != tuple(like.shape[1:]) or kind != like.dtype:
        raise ValueError(
            f"stored rows must be like those of x, {tuple(like.shape[1:])} of {like.dtype}; got "
            f"{stored.shape} of {kind} in {stored.source}."
        )
    return stored


def check_draw(draw: LabelDraw, y: Tensor) -> None:
    """Refuse a draw that does not match the labels y (n,): from other data, or made by hand."""
    rows = torch.cat(draw)
    ends = [int(end) for end in rows.aminmax()] if len(rows) else []
    if rows.dtype != torch.int64 or not all(0 <= end < len(y) for end in ends):
        raise ValueError(
            f"the draw must have row numbers (int64) from 0 to {len(y) - 1}; got {rows.dtype} from "
            f"{' to '.join(map(str, ends)) or 'no rows'}. Draw from this data's own y."
        )
    if len(torch.unique(rows)) < len(rows):
        raise ValueError("the draw has a row twice; a row may be in only one part.")
    absent = int((y[torch.cat((draw.labelled, draw.validation))] == MISSING).sum())
    if absent:
        raise ValueError(
            f"{absent} rows of the draw have no label to keep. Draw from this data's own y."
        )


def row_ids(ids: "Tensor | NDArray[Any] | None", x: Tensor) -> Tensor:
    """The given ids (n,) as int64, all different, from 0; by default 0, ..., n - 1."""
    if ids is None:
        return torch.arange(len(x), device=x.device)
    given = shared_tensor("ids", ids)
    if given.shape != x.shape[:1] or given.is_floating_point() or given.dtype == torch.bool:
        raise ValueError(
            f"ids must have one whole number for each row, shape ({len(x)},); got {given.dtype} "
            f"of shape {tuple(given.shape)}."
        )
    if len(given) and not 0 <= int(given.min()) <= int(given.max()) <= LARGEST_ID:
        raise ValueError(
            f"ids must lie in [0, {LARGEST_ID}]; got from {int(given.min())} to "
            f"{int(given.max())}. Number the rows from 0: a term that remembers rows has a place "
            "for each number up to the largest."
        )
    repeated = len(given) - len(torch.unique(given))
    if repeated:
        raise ValueError(f"ids must differ from each other; {repeated} are repeated.")
    return given.to(device=x.device, dtype=torch.int64)


def dataset_arrays(dataset: "Dataset[Any]") -> tuple[NDArray[Any], list[Any]]:
    """The features (n, ...) and labels [n] of a map-style data set of (x, y) items.

    The array is allocated once, at the first item, and each item is copied into it.

    Example:
        >>> dataset_arrays([(np.zeros(2), "a"), (np.ones(2), None)])
        (array([[0., 0.], [1., 1.]]), ['a', None])
    """
    if isinstance(dataset, DataLoader):
        raise TypeError(
            "dataset must be a data set, but this is a DataLoader, which has batches. Pass "
            "loader.dataset."
        )
    n = len(dataset) if hasattr(dataset, "__len__") else 0
    if n == 0:
        raise ValueError(
            f"the data set must have items and a length; {type(dataset).__name__} has none. "
            "Collect an iterable data set into arrays first."
        )
    x, y = _pair(dataset, 0)
    features = np.empty((n, *x.shape), dtype=x.dtype)
    labels = [y]
    features[0] = x
    for row in range(1, n):
        x, y = _pair(dataset, row)
        if x.shape != features.shape[1:] or x.dtype != features.dtype:
            raise ValueError(
                "all items must have the same shape and type; item 0 has shape "
                f"{features.shape[1:]} of {features.dtype}, item {row} has {x.shape} of {x.dtype}. "
                "Resize or convert them in the data set."
            )
        features[row] = x
        labels.append(y)
    return features, labels


def _pair(dataset: "Dataset[Any]", row: int) -> tuple[NDArray[Any], Any]:
    item = dataset[row]
    if not isinstance(item, tuple | list) or len(item) != 2:
        raise TypeError(
            f"item {row} of the data set must be a pair (x, y); got {type(item).__name__}. "
            "Give unlabelled rows the label -1 or None."
        )
    x, y = item
    shape = tuple(getattr(y, "shape", ()))
    if math.prod(shape) != 1:
        raise ValueError(
            f"the label of item {row} must be one number or text; got shape {shape}. Turn one-hot "
            "labels into classes in the data set, with .argmax()."
        )
    features = x.detach().cpu() if isinstance(x, Tensor) else x
    return np.asarray(features), y.item() if isinstance(y, Tensor | np.ndarray | np.generic) else y


def row_groups(groups: "Tensor | NDArray[Any] | None", x: Tensor) -> Tensor | None:
    """The given group numbers (n,) as int64; None for none."""
    if groups is None:
        return None
    return torch.from_numpy(group_numbers(groups, len(x), "row")).to(x.device)


def group_numbers(groups: Any, n: int, rows: str) -> NDArray[np.int64]:
    """Return a number for the group of each of n rows, the same where the given values are.

    Args:
        groups: Numbers or text, (n,).
        n: Number of rows.
        rows: What an error calls one of them.

    >>> group_numbers(["b", "a", "b"], 3, "row").tolist()
    [1, 0, 1]
    """
    array = groups.numpy(force=True) if isinstance(groups, Tensor) else np.asarray(groups)
    if array.shape != (n,):
        raise ValueError(
            f"groups must have one value for each {rows}, shape ({n},); got shape {array.shape}."
        )
    if array.dtype == object:
        array = array.astype(str)
    return np.unique(array, return_inverse=True)[1].astype(np.int64)


def row_propensity(
    propensity: "Tensor | NDArray[Any] | None", x: Tensor, labelled: Tensor
) -> Tensor | None:
    """The given propensities (n,) as float32, those of labelled rows in (0, 1]; None for none.

    Args:
        propensity: The given propensities.
        x: The rows.
        labelled: Positions of the labelled rows.
    """
    if propensity is None:
        return None
    given = shared_tensor("propensity", propensity)
    if given.shape != x.shape[:1] or not given.is_floating_point():
        raise ValueError(
            f"propensity must have one number for each row, shape ({len(x)},); got {given.dtype} "
            f"of shape {tuple(given.shape)}. Rows without a label may have NaN."
        )
    given = given.to(device=x.device, dtype=torch.float32)
    if (given == 0).any() and not bool((given[labelled] == 0).any()):
        row = int((given == 0).nonzero()[0])
        raise ValueError(
            f"propensity is 0 for {int((given == 0).sum())} rows without a label, the first in row "
            f"{row}: no labelled row can represent one that is never labelled. Omit such rows, or "
            "pass NaN if the probability is unknown."
        )
    bad = ~((given[labelled] > 0) & (given[labelled] <= 1))
    if bad.any():
        row = int(labelled[bad][0])
        raise ValueError(
            f"propensity must lie in (0, 1] for labelled rows, as the probability that a row gets "
            f"its label; {int(bad.sum())} of {len(labelled)} do not, the first in row {row}: "
            f"{float(given[row]):g}."
        )
    return given


def teacher_names(n: int) -> list[str]:
    """The names of teachers that the user gave none.

    >>> teacher_names(1), teacher_names(2)
    (['teacher'], ['teacher 1', 'teacher 2'])
    """
    return [f"teacher {k + 1}" if n > 1 else "teacher" for k in range(n)]


def named_answers(teachers: Any, rows: int) -> dict[str, Any]:
    """Teachers' answers by name, each for all rows; their contents are checked when used.

    >>> list(named_answers([["a", "b"], ["b", None]], rows=2))
    ['teacher 1', 'teacher 2']
    """
    if teachers is None:
        return {}
    if not isinstance(teachers, Mapping | list | tuple) or not len(teachers):
        raise TypeError(
            "teachers must be a dict of answers by name, or a list with one entry for each "
            f"teacher; got {type(teachers).__name__}. Put a single teacher's answers in a list."
        )
    if not isinstance(teachers, Mapping):
        teachers = dict(zip(teacher_names(len(teachers)), teachers, strict=True))
    for name, answers in teachers.items():
        length = (
            len(answers) if hasattr(answers, "__len__") and not isinstance(answers, str) else None
        )
        if length != rows:
            got = f"{type(answers).__name__}" if length is None else f"{length}"
            raise ValueError(
                f"the answers of {name} must be one for each of the {rows} rows, labelled ones "
                f"included; got {got}. A row without an answer has None, or NaN."
            )
    return dict(teachers)

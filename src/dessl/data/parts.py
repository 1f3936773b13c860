"""The pieces of a data set that must fit together: rows, their labels, ids and propensities."""

from typing import Any, NamedTuple

import torch
from numpy.typing import NDArray
from torch import Tensor

from dessl.data.features import shared_tensor
from dessl.data.labels import MISSING

LARGEST_ID = 2**31 - 1


class Part(NamedTuple):
    """A fully labelled part of the data: features x (n, ...) and class numbers y (n,)."""

    x: Tensor
    y: Tensor


def as_pair(name: str, pair: Any) -> tuple[Any, Any]:
    """The features and the labels of a part, refusing anything but two entries."""
    entries = tuple(pair) if isinstance(pair, tuple | list) else (pair,)
    if len(entries) != 2:
        raise ValueError(
            f"{name} must be a pair (x, y) of features and labels; got {len(entries)} "
            f"({', '.join(type(entry).__name__ for entry in entries)})."
        )
    return entries


def labelled_part(name: str, x: Tensor, y: Tensor, like: Tensor) -> Part:
    """The part, refusing rows unlike those of ``like`` and missing labels."""
    if x.shape[1:] != like.shape[1:] or x.dtype != like.dtype:
        raise ValueError(
            f"{name} x must hold rows like x's, {tuple(like.shape[1:])} of {like.dtype}; "
            f"got {tuple(x.shape[1:])} of {x.dtype}."
        )
    missing = int((y == MISSING).sum())
    if missing:
        raise ValueError(
            f"{name} y must label every row; {missing} of {len(y)} labels are missing. "
            "Leave those rows out."
        )
    return Part(x, as_long_as(f"{name} y", y, x))


def as_long_as(name: str, y: Tensor, x: Tensor) -> Tensor:
    """The labels on the features' device, refusing more or fewer than there are rows."""
    if len(y) != len(x):
        raise ValueError(
            f"{name} must hold one label for each row of x; got {len(y)} labels for {len(x)} rows."
        )
    return y.to(x.device)


def row_ids(ids: "Tensor | NDArray[Any] | None", x: Tensor) -> Tensor:
    """The given ids (n,) as int64, all different, from 0; 0, ..., n - 1 where none are given."""
    if ids is None:
        return torch.arange(len(x), device=x.device)
    given = shared_tensor("ids", ids)
    if given.shape != x.shape[:1] or given.is_floating_point() or given.dtype == torch.bool:
        raise ValueError(
            f"ids must hold one whole number for each row, shape ({len(x)},); got {given.dtype} "
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


def row_propensity(
    propensity: "Tensor | NDArray[Any] | None", x: Tensor, labelled: Tensor
) -> Tensor | None:
    """The given propensities (n,) as float32, those of labelled rows in (0, 1]; None for none.

    Args:
        propensity: What was given.
        x: The rows.
        labelled: Positions of the labelled ones.
    """
    if propensity is None:
        return None
    given = shared_tensor("propensity", propensity)
    if given.shape != x.shape[:1] or not given.is_floating_point():
        raise ValueError(
            f"propensity must hold one number for each row, shape ({len(x)},); got {given.dtype} "
            f"of shape {tuple(given.shape)}. Rows without a label may have NaN."
        )
    given = given.to(device=x.device, dtype=torch.float32)
    bad = ~((given[labelled] > 0) & (given[labelled] <= 1))
    if bad.any():
        row = int(labelled[bad][0])
        raise ValueError(
            f"propensity must lie in (0, 1] for labelled rows, as the probability that a row gets "
            f"its label; {int(bad.sum())} of {len(labelled)} do not, the first in row {row}: "
            f"{float(given[row]):g}."
        )
    return given

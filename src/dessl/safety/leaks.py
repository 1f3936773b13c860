"""Exact and near copies of rows, where they do harm: in test rows and among labelled rows.

Equal rows are found by hashing their bytes. A near copy, re-encoded, resized or slightly changed,
has a nearest neighbour that is much closer than usual. For images, distances are measured on the
summary of :mod:`dessl.safety.columns`, a perceptual hash in real numbers.
"""

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dessl.data import SemiData
from dessl.data.labels import MISSING
from dessl.data.row_keys import row_digests
from dessl.safety.columns import columns_of
from dessl.teachers.neighbours import Index
from dessl.teachers.space import Space

NEAR = 0.1  # of the usual distance to the nearest row
MOST_QUERIES = 10_000  # rows whose neighbours are looked up
EXAMPLES = 5
COMMON = 0.02  # share of rows that equal one in their own part of the data: then it is usual


@dataclass(frozen=True)
class CopyPair:
    """A row and its copy, each with the part of the data that it is in."""

    row: str
    copy: str
    exact: bool


@dataclass(frozen=True)
class CopyFacts:
    """How many rows have a copy elsewhere; near copies are counted separately from exact ones.

    Attributes:
        test_labelled: Test rows with an equal labelled row: the model has seen their labels.
        test_unlabelled: Test rows with an equal unlabelled row and no labelled one.
        unlabelled: Unlabelled rows equal to a labelled row.
        labelled: Labelled rows beyond the first in each group of equal rows.
        conflicts: Labelled rows equal to a row with a different label.
        near_test: Test rows with a near copy among labelled rows.
        near_unlabelled: Unlabelled rows (of those checked) with a near copy among labelled rows.
        near_labelled: Labelled rows (of those checked) with a near copy among labelled rows.
        expected: Whether equal rows are common by chance, because rows have few possible values.
        examples: A few of the copies.
    """

    test_labelled: int
    test_unlabelled: int
    unlabelled: int
    labelled: int
    conflicts: int
    near_test: int
    near_unlabelled: int
    near_labelled: int
    expected: bool
    examples: tuple[CopyPair, ...]


def copies_in(data: SemiData, *, near: bool = True, seed: int = 0) -> CopyFacts:
    """Find copies between labelled, unlabelled and test rows.

    Args:
        data: The data, with its test part if it has one.
        near: Whether to look for near copies too.
        seed: Seed for choosing the rows whose neighbours are searched, if there are very many.

    >>> x = torch.tensor([[1.0, 2.0], [1.0, 2.0], [3.0, 4.0], [1.0, 2.0], [9.0, 9.0]])
    >>> data = SemiData(x, [0, 1, 1, -1, -1], test=(x[2:3], [1]))
    >>> found = copies_in(data, near=False)
    >>> found.test_labelled, found.unlabelled, found.labelled, found.conflicts
    (1, 1, 1, 2)
    """
    known, unknown = data.labelled_rows.cpu(), data.unlabelled_rows.cpu()
    test = data.test.x if data.test is not None else data.x[:0]
    keys = data.row_digests()
    test_keys = row_digests(test.numpy(force=True)) if len(test) else keys[:0]
    own, other = keys[known.numpy()], keys[unknown.numpy()]
    in_labelled = np.isin(test_keys, own)
    copied = np.isin(other, own)
    groups = np.unique(own, return_inverse=True)[1]
    each = other if len(other) else own
    _, group, size = np.unique(each, return_inverse=True, return_counts=True)
    pairs = _pairs(data, test_keys, in_labelled, "test", np.arange(len(test_keys)))
    pairs += _pairs(data, other, copied, "unlabelled", unknown.numpy())
    found = CopyFacts(
        test_labelled=int(in_labelled.sum()),
        test_unlabelled=int((np.isin(test_keys, other) & ~in_labelled).sum()),
        unlabelled=int(copied.sum()),
        labelled=len(own) - len(np.unique(own)),
        conflicts=_conflicts(groups, data.y.cpu().numpy()[known.numpy()]),
        near_test=0,
        near_unlabelled=0,
        near_labelled=0,
        expected=len(each) > 0 and float((size[group] > 1).mean()) > COMMON,
        examples=tuple(pairs[:EXAMPLES]),
    )
    if not near or found.expected or len(known) < 3:
        return found
    return _with_near(found, data, test, seed)


def _conflicts(groups: NDArray[np.int64], y: NDArray[np.int64]) -> int:
    """How many labelled rows have an equal row with another label."""
    if not len(groups):
        return 0
    low, high = np.full(groups.max() + 1, y.max()), np.full(groups.max() + 1, MISSING)
    np.minimum.at(low, groups, y)
    np.maximum.at(high, groups, y)
    return int((low != high)[groups].sum())


def _pairs(
    data: SemiData,
    keys: NDArray[np.void],
    copied: NDArray[np.bool_],
    part: str,
    rows: NDArray[np.int64],
) -> list[CopyPair]:
    """The first few copies of labelled rows, by name."""
    known = data.labelled_rows.cpu().numpy()
    own = data.row_digests()[known]
    found = []
    for place in np.flatnonzero(copied)[:EXAMPLES]:
        first = known[int(np.flatnonzero(own == keys[place])[0])]
        name = f"test row {rows[place]}" if part == "test" else row_name(data, int(rows[place]))
        found.append(CopyPair(name, row_name(data, int(first)), exact=True))
    return found


def _with_near(found: CopyFacts, data: SemiData, test: Tensor, seed: int) -> CopyFacts:
    """Add near copies; rows with an exact one are not counted again."""
    known = data.labelled_rows.cpu()
    generator = torch.Generator().manual_seed(seed)
    unknown = data.unlabelled_rows.cpu()
    unknown = unknown[torch.randperm(len(unknown), generator=generator)[:MOST_QUERIES]]
    known = known[torch.randperm(len(known), generator=generator)[:MOST_QUERIES]]
    x, x_u = columns_of(data, known).values, columns_of(data, unknown).values
    x_test = _test_columns(data, test[:MOST_QUERIES])
    space = Space.of(x, x_u)
    z, z_u, z_test = space(x), space(x_u), space(x_test) if len(x_test) else x_test
    index = Index(z)
    among = index.nearest_others(1)
    others = index.nearest(z_u, 1).squares.sqrt()[:, 0] if len(z_u) else z.new_empty(0)
    usual = others if len(others) else among.squares.sqrt()[:, 0]
    limit = NEAR * float(usual.median())
    is_near = _near(among.squares.sqrt()[:, 0], limit)
    near_u = _near(others, limit)
    near_test = (
        _near(index.nearest(z_test, 1).squares.sqrt()[:, 0], limit) if len(z_test) else near_u[:0]
    )
    pairs = [
        CopyPair(row_name(data, int(known[row])),
                 row_name(data, int(known[among.numbers[row, 0]])), exact=False)
        for row in is_near.nonzero().flatten()[:EXAMPLES].tolist()
    ]  # fmt: skip
    return replace(
        found,
        near_test=int(near_test.sum()),
        near_unlabelled=int(near_u.sum()),
        near_labelled=int(is_near.sum()),
        examples=(*found.examples, *pairs)[:EXAMPLES],
    )


def _near(distances: Tensor, limit: float) -> Tensor:
    return (distances > 0) & (distances < limit)


def _test_columns(data: SemiData, test: Tensor) -> Tensor:
    if not len(test):
        return torch.empty(0, 0)
    layout = "NCHW" if data.is_image else None
    as_data = SemiData(test, [0] * len(test), class_names=["0", "1"], layout=layout)
    return columns_of(as_data, torch.arange(len(test))).values


def row_name(data: SemiData, row: int) -> str:
    """A row's file, if rows have one, or its number.

    >>> row_name(SemiData(torch.rand(2, 1), [0, 1]), 1)
    'row 1'
    """
    return data.row_names[row] if data.row_names else f"row {row}"

"""Nearest neighbours in PyTorch: exact up to 20,000 rows, in k-means cells beyond that.

Beyond 20,000 rows, each query searches the 8 cells whose centres are nearest to it. Memory is
linear in the rows, time about n^1.5, and every run gives the same result. It all runs on the device
of the rows, with no library but PyTorch; benchmarks/neighbours.py compares it with three.
"""

import copy
import math
from typing import NamedTuple

import torch
from torch import Tensor

EXACT_UP_TO = 20_000
PROBES = 8  # cells searched
CELLS = 2.0  # times the root of the number of rows
SAMPLE = 32  # rows per cell used by k-means
ROUNDS = 6  # of k-means
QUERIES = 2**15  # searched at a time
ENTRIES = 2**24  # of a block of distances: 64 MB, which the allocator releases at once


class Neighbours(NamedTuple):
    """Squared distances and row numbers, (n, k) each, nearest first."""

    squares: Tensor
    numbers: Tensor


class Cells(NamedTuple):
    """A partition of rows: centres (c, d), rows in order of their cell (n,), ends of the cells."""

    centres: Tensor
    order: Tensor
    ends: Tensor


class Index:
    """An index of rows (n, d) for nearest-neighbour search.

    Args:
        rows: float32 (n, d).
        exact: Whether to compare with every row; by default up to 20,000 rows.
        seed: Seed of the initial rows of k-means.

    >>> index = Index(torch.tensor([[0.0], [1.0], [5.0]]))
    >>> index.nearest(torch.tensor([[0.9]]), 2).numbers.tolist()
    [[1, 0]]
    """

    def __init__(self, rows: Tensor, *, exact: bool | None = None, seed: int = 0) -> None:
        self.rows = rows.float().contiguous()
        if exact is None:
            exact = len(rows) <= EXACT_UP_TO
        self.cells = None if exact else partition(self.rows, seed)

    def cpu(self) -> "Index":
        """Return the same index in the host's memory."""
        new = copy.copy(self)
        new.rows = self.rows.cpu()
        new.cells = self.cells and Cells(*(part.cpu() for part in self.cells))
        return new

    def nearest(self, queries: Tensor, k: int) -> Neighbours:
        """Return the k nearest rows of each query (m, d), k at most the number of rows."""
        queries = queries.to(self.rows)
        if self.cells is None:
            return _nearest_of_all(queries, self.rows, k)
        return _nearest_in_cells(queries, self.rows, self.cells, k)

    def nearest_others(self, k: int) -> Neighbours:
        """Return the k nearest other rows of each row."""
        found = self.nearest(self.rows, k + 1)
        own = torch.arange(len(self.rows), device=self.rows.device)[:, None]
        # Move the row itself last, wherever rounding put it, then drop the last.
        last = (found.numbers == own).long()
        last[:, -1] += 1 - last.amax(1)
        keep = last.argsort(dim=1, stable=True)[:, :k]
        return Neighbours(*(part.gather(1, keep) for part in found))


def partition(rows: Tensor, seed: int) -> Cells:
    """Partition rows (n, d) by k-means on a sample of them."""
    n_cells = max(1, round(CELLS * math.sqrt(len(rows))))
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randperm(len(rows), generator=generator)[: SAMPLE * n_cells].to(rows.device)
    sample = rows[drawn]
    centres = sample[:n_cells].clone()
    for _ in range(ROUNDS):
        cell = _nearest_centre(sample, centres)
        sizes = cell.bincount(minlength=n_cells)
        # Cell by cell: scattered additions would round differently on every run on a GPU.
        ordered = sample[cell.argsort(stable=True)]
        sums = torch.segment_reduce(ordered, "sum", lengths=sizes, axis=0)
        centres = torch.where(sizes[:, None] > 0, sums / sizes.clamp(min=1)[:, None], centres)
    cell = _nearest_centre(rows, centres)
    ends = cell.bincount(minlength=n_cells).cumsum(0)
    return Cells(centres, cell.argsort(stable=True), ends)


def _nearest_centre(rows: Tensor, centres: Tensor) -> Tensor:
    half = centres.square().sum(1) / 2
    blocks = torch.split(rows, max(1, ENTRIES // len(centres)))
    return torch.cat([torch.addmm(half, b, centres.T, alpha=-1).argmin(1) for b in blocks])


def _nearest_of_all(queries: Tensor, rows: Tensor, k: int) -> Neighbours:
    half = rows.square().sum(1) / 2
    blocks = torch.split(queries, max(1, ENTRIES // len(rows)))
    found = [
        torch.addmm(half, block, rows.T, alpha=-1).topk(k, 1, largest=False).indices
        for block in blocks
    ]
    return _measured(queries, rows, torch.cat(found))


def _nearest_in_cells(queries: Tensor, rows: Tensor, cells: Cells, k: int) -> Neighbours:
    found = [_nearest_in_own_cells(some, rows, cells, k) for some in torch.split(queries, QUERIES)]
    return _measured(queries, rows, torch.cat(found))


def _nearest_in_own_cells(queries: Tensor, rows: Tensor, cells: Cells, k: int) -> Tensor:
    """Row numbers (m, k) from the cells whose centres are nearest to each query, cell by cell."""
    half = cells.centres.square().sum(1) / 2
    probes = min(PROBES, len(half))
    near = torch.cat(
        [
            torch.addmm(half, some, cells.centres.T, alpha=-1)
            .topk(probes, 1, largest=False)
            .indices
            for some in torch.split(queries, max(1, ENTRIES // len(half)))
        ]
    ).flatten()
    asking = near.argsort(stable=True)  # places of (query, probe), in order of their cell
    best = queries.new_full((len(near), k), torch.inf)
    numbers = torch.zeros(len(near), k, dtype=torch.long, device=rows.device)
    counts = near.bincount(minlength=len(half)).tolist()
    sizes = cells.ends.diff(prepend=cells.ends.new_zeros(1)).tolist()
    parts = zip(torch.split(asking, counts), torch.split(cells.order, sizes), strict=True)
    for places, own in parts:
        if not len(places) or not len(own):
            continue
        some = rows[own]
        squares = some.square().sum(1) / 2
        for block in torch.split(places, max(1, ENTRIES // len(own))):
            distances = torch.addmm(squares, queries[block // probes], some.T, alpha=-1)
            nearest = distances.topk(min(k, len(own)), 1, largest=False)
            best[block, : len(own)] = nearest.values
            numbers[block, : len(own)] = own[nearest.indices]
    best, numbers = best.view(len(queries), -1), numbers.view(len(queries), -1)
    chosen = best.topk(k, 1, largest=False)
    found = numbers.gather(1, chosen.indices)
    few = chosen.values[:, -1].isinf()  # these cells have fewer than k rows
    if few.any():
        found[few] = _nearest_of_all(queries[few], rows, k).numbers
    return found


def _measured(queries: Tensor, rows: Tensor, numbers: Tensor) -> Neighbours:
    """Squared distances from differences, exact where |a|² + |b|² − 2ab rounds, in sorted order."""
    n, k = numbers.shape
    squares = torch.empty(n, k, dtype=queries.dtype, device=queries.device)
    step = max(1, ENTRIES // (k * queries.shape[1]))
    for first in range(0, n, step):
        block = slice(first, first + step)
        squares[block] = (queries[block, None] - rows[numbers[block]]).square().sum(2)
    squares, order = squares.sort(dim=1, stable=True)
    return Neighbours(squares, numbers.gather(1, order))

"""Space: columns in which distances are meaningful, learnt from all rows without labels.

    z = (x − mean) / scale,   and its first 50 principal components if there are more than 64

Columns measured in the same unit, such as pixels, share one scale: separate scales would amplify
the noise of nearly constant columns. Columns of a smaller range among few others have another unit,
and keep their own scale. 0/1 columns that exclude each other, as one-hot columns do, share one, so
that a category counts as much as a number however many levels it has.
"""

import math
from typing import NamedTuple, Self

import torch
from torch import Tensor

from dessl.teachers.rows import SomeRows, blocks_of

ROUNDING = 1e-5  # of the difference of 0 and 1 after the mean was subtracted
LEAST_DEVIATION = 1e-6  # relative to the largest entry: anything smaller is rounding
FEW = 50  # columns; images have more
LEAST_SPREAD = 0.1  # deviation relative to the range; that of a pixel which is rarely lit is less
LEAST_SHARE = 0.2  # least deviation of a 0/1 column, so that a rare one does not dominate
MOST_COLUMNS = 64
COMPONENTS = 50
ROWS = 20_000  # used to learn the space: enough for a mean
WORK = 5 * 10**10  # multiplications for directions: 5,000 rows of 3,072 columns, 700 of 100,000
AT_ONCE = 2**22  # entries that may be float64 at one time
SOME_ROWS = 500  # enough to tell how much variance the components have


class Space(NamedTuple):
    """Mean (d,), scale (d,) and directions (d, k), all float32; k is 0 for the columns themselves.

    >>> space = Space.of(torch.tensor([[0.0, 10.0], [2.0, 50.0]]))
    >>> space(torch.tensor([[2.0, 10.0]]))
    tensor([[ 1., -1.]])
    """

    mean: Tensor
    scale: Tensor
    directions: Tensor

    @classmethod
    def of(cls, *parts: Tensor | SomeRows) -> Self:
        """Learn the space from rows (n, d), in one or several parts, on the CPU."""
        n = sum(len(part) for part in parts)
        step = -(-n // ROWS)
        rows = torch.cat([part[::step].cpu() for part in parts])
        mean, scale = column_mean(rows), column_scale(rows)
        directions = mean.new_empty(rows.shape[1], 0)
        if rows.shape[1] > MOST_COLUMNS and len(rows) > 1:
            directions = _principal(rows, mean, scale)
        return cls(mean.float(), scale.float(), directions.float())

    @classmethod
    def unchanged(cls, columns: int) -> Self:
        """Return the space of columns that have meaningful distances already."""
        return cls(torch.zeros(columns), torch.ones(columns), torch.empty(columns, 0))

    def of_columns(self) -> Self:
        """Return the space of the scaled columns themselves, without principal components."""
        return self._replace(directions=self.directions[:, :0])

    def __call__(self, x: Tensor | SomeRows) -> Tensor:
        """Return rows (n, d) in this space, float32, on their own device; a block at a time."""
        mean, scale, directions = (part.to(x.device) for part in self)
        width = directions.shape[1] or len(mean)
        found = torch.empty(len(x), width, device=x.device)
        first = 0
        for rows in blocks_of(x):
            if rows.shape[1] != len(mean):
                raise ValueError(
                    f"x must have the {len(mean)} columns of training; got {rows.shape[1]}."
                )
            scaled = (rows.float() - mean).div_(scale)
            found[first : first + len(rows)] = scaled @ directions if len(directions.T) else scaled
            first += len(rows)
        return found


def left_out(rows: Tensor) -> float:
    """Return the share of the variance of scaled rows (n, d) that is not in the components.

    It is 0 if a :class:`Space` keeps the columns themselves. At most 500 of the rows are used.

    >>> rows = torch.randn(500, 400, generator=torch.Generator().manual_seed(0))
    >>> left_out(rows[:, :64]), left_out(rows[:, :1].expand(-1, 400)) < 1e-9, left_out(rows) > 0.6
    (0.0, True, True)
    """
    n, d = rows.shape
    some = rows[:: -(-n // min(SOME_ROWS, AT_ONCE // d or 1))].cpu()
    if d <= MOST_COLUMNS or len(some) <= COMPONENTS:
        return 0.0
    scaled = (some.double() - column_mean(some)).div_(column_scale(some))
    products = scaled @ scaled.T if len(some) < d else scaled.T @ scaled
    values = torch.linalg.eigvalsh(products).clamp(min=0)
    total = float(values.sum())
    return float(values[:-COMPONENTS].sum()) / total if total else 0.0


def column_scale(rows: Tensor, *, one_hot_together: bool = True) -> Tensor:
    """Return the divisor of each column of rows (n, d), (d,); 1 for constant columns.

    There is one rule of scaling: a column is divided by its standard deviation, and columns with
    the same unit by a shared one. Columns count as having the same unit if half of them have at
    least half the range, from smallest to largest value, of the column with the largest. A column
    with a smaller range is divided by its own deviation if that is at least a tenth of its range
    and there are at most 50 columns, or if the column has two values.

    Args:
        rows: Raw rows (n, d).
        one_hot_together: Whether 0/1 columns are treated separately and those of one category share
            a scale, as distances need; otherwise they are like other columns, as networks expect.

    >>> column_scale(torch.tensor([[0.0, 5.0, 0.0], [200.0, 5.0, 1.0]])).tolist()
    [100.0, 1.0, 0.5]
    """
    lowest, highest = rows.amin(0), rows.amax(0)
    reach, deviation = highest - lowest, _deviation(rows)
    varies = deviation > LEAST_DEVIATION * torch.maximum(lowest.abs(), highest.abs())
    two_valued = ((rows == lowest) | (rows == highest)).all(0)
    # The encoding of a table has subtracted the mean of a 0/1 column.
    binary = varies & two_valued & ((reach - 1).abs() < ROUNDING)
    if not one_hot_together:
        binary = varies & False
    numeric = varies & ~binary
    scale, widest = deviation.clone(), reach[numeric].max() if numeric.any() else 0.0
    wide = numeric & (reach >= widest / 2)
    if 2 * int(wide.sum()) > int(numeric.sum()) > 1:  # in one unit
        other = (deviation >= LEAST_SPREAD * reach) & ((numeric.sum() <= FEW) | two_valued)
        shared = numeric & (wide | ~other)
        scale[shared] = deviation[shared].square().mean().sqrt()
    for group in exclusive_groups(rows > (lowest + highest) / 2, binary):
        scale[group] = deviation[group].square().sum().sqrt().clamp(min=LEAST_SHARE)
    return torch.where(varies, scale, 1.0)


def column_mean(rows: Tensor) -> Tensor:
    """Return the mean of each column of rows (n, d), float64, without a second copy of them."""
    if rows.numel() <= AT_ONCE:
        return rows.double().mean(0)
    total = torch.zeros_like(rows[0], dtype=torch.float64)
    for piece in _pieces(rows):
        total += piece.double().sum(0)
    return total / len(rows)


def _deviation(rows: Tensor) -> Tensor:
    """Return the standard deviation of each column, in the same way."""
    if rows.numel() <= AT_ONCE:
        return rows.double().std(0, correction=0)
    mean, squares = column_mean(rows), torch.zeros_like(rows[0], dtype=torch.float64)
    for piece in _pieces(rows):
        squares += (piece.double() - mean).square_().sum(0)
    return (squares / len(rows)).sqrt()


def _pieces(rows: Tensor) -> tuple[Tensor, ...]:
    return torch.split(rows, max(1, AT_ONCE // (16 * rows[0].numel())))


def exclusive_groups(rows: Tensor, binary: Tensor) -> list[list[int]]:
    """Return runs of neighbouring 0/1 columns in which no row has two ones: one-hot columns.

    Args:
        rows: Where the columns are one, (n, d) booleans.
        binary: Which columns are 0/1 columns, (d,).

    >>> rows = torch.tensor([[True, False, True], [False, True, True]])
    >>> exclusive_groups(rows, torch.tensor([True, True, True]))
    [[0, 1], [2]]
    """
    groups: list[list[int]] = []
    taken = torch.zeros(len(rows), dtype=torch.bool, device=rows.device)
    last = -2
    for column in binary.nonzero().flatten().tolist():
        if column == last + 1 and not bool((taken & rows[:, column]).any()):
            groups[-1].append(column)
            taken = taken | rows[:, column]
        else:
            groups.append([column])
            taken = rows[:, column]
        last = column
    return groups


def _principal(rows: Tensor, mean: Tensor, scale: Tensor) -> Tensor:
    """Directions (d, k) of most variance of (rows − mean) / scale, with positive largest entries.

    Uses the matrix of the smaller side and only the needed eigenvectors, which saves a few seconds
    for 3,072 columns. Very wide rows are sampled.
    """
    d = rows.shape[1]
    rows = rows[:: -(-len(rows) // max(WORK // d**2, math.isqrt(WORK // d)))]
    n = len(rows)
    k = min(COMPONENTS, d, n - 1)
    wide = n < d
    pieces = [rows] if wide else _pieces(rows)
    products = mean.new_zeros(min(n, d), min(n, d))
    for piece in pieces:
        scaled = (piece.double() - mean).div_(scale)
        products += scaled @ scaled.T if wide else scaled.T @ scaled
    found = _largest_eigenvectors(products / n, k)
    if wide:
        found = scaled.T @ found
        lengths = found.norm(dim=0)
        found = torch.where(lengths > LEAST_DEVIATION * lengths[0], found / lengths, 0.0)
    largest = found.gather(0, found.abs().argmax(0, keepdim=True))
    signed: Tensor = found * largest.sign()
    return signed


def _largest_eigenvectors(matrix: Tensor, k: int) -> Tensor:
    """The eigenvectors (d, k) of a symmetric matrix with the largest eigenvalues, largest first."""
    from scipy.linalg import LinAlgError, eigh

    last = len(matrix) - 1
    try:
        _, vectors = eigh(matrix.numpy(), subset_by_index=(last - k + 1, last))
    except LinAlgError:
        # LAPACK's solver for a few eigenvectors fails if many eigenvalues are equal, as those of
        # equally frequent categories are; the solver for all of them does not.
        _, vectors = eigh(matrix.numpy(), driver="evd")
        vectors = vectors[:, last - k + 1 :].copy()
    return torch.from_numpy(vectors).flip(1)

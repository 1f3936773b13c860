r"""Columns of whole numbers that only tell rows apart: row numbers and identifiers, in any order.

Of n whole numbers from a range of R, none is repeated with a probability of at most

    P = (1 - 1/R) (1 - 2/R) ... (1 - (n - 1)/R)  <=  exp(-n (n - 1) / (2 R)),

which is that of equally likely numbers: all others are repeated more often. Measurements have
repeats where P is tiny; numbers that somebody gave to the rows have none, shuffled or not, and nor
has any part of them.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

COUNTS = "it only numbers the rows"
IDENTIFIES = "whole numbers without a repeat, as identifiers are"
LEAST_COUNTED = 10  # rows that are numbered one after another
LEAST_ROWS = 20
LEAST_SURPRISE = 20.0  # -log P: chance would do it once in 500 million columns


def numbering(values: NDArray[Any]) -> str | None:
    """Why numbers (n,), none of them missing, only tell the rows apart; None if they may not.

    Booleans never do.

    >>> numbering(np.arange(10)), numbering(np.random.default_rng(0).permutation(80)[:60])
    ('it only numbers the rows', 'whole numbers without a repeat, as identifiers are')
    >>> numbering(np.arange(10) + 0.5), numbering(np.arange(0, 40_000, 1000))
    (None, None)
    """
    whole = np.isfinite(values) & (values == np.rint(values))
    if len(values) < LEAST_COUNTED or values.dtype == np.bool_ or not whole.all():
        return None
    if (np.diff(values) == 1).all():
        return COUNTS
    return IDENTIFIES if len(values) >= LEAST_ROWS and _without_repeats(values) else None


def how_to_keep(reasons: Iterable[str]) -> str:
    """A sentence on how to keep a column, if one was dropped because it tells the rows apart.

    >>> how_to_keep(["constant"]), how_to_keep([COUNTS])[:40]
    ('', ' To keep a column whose size matters, su')
    """
    if not {COUNTS, IDENTIFIES}.intersection(reasons):
        return ""
    return (
        " To keep a column whose size matters, such as a year or a rank, add 0.5 to its numbers: "
        "identifiers are whole."
    )


def _without_repeats(values: NDArray[Any]) -> bool:
    """Whether whole numbers are all different, although chance would have repeated some."""
    n, size = len(values), float(values.max()) - float(values.min()) + 1
    if n > size or -np.log1p(-np.arange(n) / size).sum() < LEAST_SURPRISE:
        return False
    return len(np.unique(values)) == n

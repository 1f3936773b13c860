"""Do unlabelled rows look like labelled ones? Two permutation-type tests on a model's outputs.

Every estimate from unlabelled rows assumes that labelled rows are a random sample of all rows. Then
the ranks of H of the labelled rows are those of a random sample, and so are the counts of labelled
rows in each cell of (predicted class, H above or below its median):

- the mean rank of H, compared with its permutation mean and variance (ties included);
- χ² of the counts, compared with draws from the multivariate hypergeometric distribution.

The p-value is twice the smaller one (Bonferroni). Both tests hold for any model and any H.

With labels drawn by design the two kinds of rows differ on purpose. Then the weighted mean of H
over the labelled rows must agree with the mean over all rows, which tests the propensities.
"""

import math
import warnings
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from dessl.evaluation.debiased.proxies import Proxies
from dessl.evaluation.verdict import shown_p

LEVEL = 0.01  # p-value below which an estimate warns
LEAST_LABELS = 10  # with fewer the normal approximation of a mean rank is poor
DRAWS = 1999
SEED = 0


class ShiftTest(NamedTuple):
    """Whether unlabelled rows look like labelled ones.

    Attributes:
        p_value: p-value of the null hypothesis that labelled rows are a random sample of all rows;
            NaN if there are fewer than 10 labelled or unlabelled rows.
        z: The standardised mean rank of the labelled rows' H: positive if they have larger values.
        chi_squared: χ² statistic of the labelled rows' counts in the cells.
    """

    p_value: float
    z: float
    chi_squared: float


class ShiftWarning(UserWarning):
    """Unlabelled rows do not look like labelled ones, so an estimate may be wrong."""


def shift_test(labelled: Proxies, unlabelled: Proxies) -> ShiftTest:
    """Test whether unlabelled rows look like labelled ones to a model.

    >>> h, classes = torch.linspace(0, 1, 200), torch.arange(200) % 2
    >>> def rows(which: slice) -> Proxies:
    ...     return Proxies(h[which], torch.zeros(3, len(h[which])), classes[which])
    >>> shift_test(rows(slice(0, None, 5)), rows(slice(1, None, 5))).p_value > 0.05
    True
    >>> shift_test(rows(slice(50)), rows(slice(50, None))).p_value < 0.01
    True
    """
    m = len(labelled.h)
    if min(m, len(unlabelled.h)) < LEAST_LABELS:
        return ShiftTest(math.nan, 0.0, 0.0)
    h = torch.cat([labelled.h, unlabelled.h])
    cells = (h > h.median()).long()
    if labelled.predicted is not None and unlabelled.predicted is not None:
        cells += 2 * torch.cat([labelled.predicted, unlabelled.predicted])
    z = _mean_rank(h, m)
    chi_squared, p_cells = _counts(torch.unique(cells, return_inverse=True)[1], m)
    p_rank = math.erfc(abs(z) / math.sqrt(2))
    return ShiftTest(min(1.0, 2 * min(p_rank, p_cells)), z, chi_squared)


def _mean_rank(h: Tensor, m: int) -> float:
    """The standardised mean rank of the first m values, with the permutation variance."""
    _, index, counts = torch.unique(h, return_inverse=True, return_counts=True)
    last = counts.cumsum(0)
    ranks = (last - (counts - 1) / 2.0)[index]  # tied values share their mean rank
    n = len(h)
    variance = float(ranks.double().var()) * (n - m) / (m * n)
    if variance == 0:
        return 0.0
    return float(ranks[:m].double().mean() - (n + 1) / 2) / math.sqrt(variance)


def _counts(cells: Tensor, m: int) -> tuple[float, float]:
    """χ² of the first m rows' cells, and its p-value among draws of m rows."""
    total = torch.bincount(cells).numpy()
    if len(total) == 1:
        return 0.0, 1.0
    expected = total * (m / len(cells))
    seen = torch.bincount(cells[:m], minlength=len(total)).numpy()
    drawn = np.random.default_rng(SEED).multivariate_hypergeometric(
        total, m, size=DRAWS, method="marginals"
    )
    chi_squared = float(((seen - expected) ** 2 / expected).sum())
    null = ((drawn - expected) ** 2 / expected).sum(axis=1)
    # Equal up to rounding counts as at least as large.
    p = (1 + int((null >= chi_squared * (1 - 1e-9)).sum())) / (DRAWS + 1)
    return chi_squared, p


def warn_of_shift(test: ShiftTest, *, designed: bool = False, stacklevel: int = 3) -> None:
    """Warn if the p-value is below 0.01, and say what to do."""
    if not test.p_value < LEVEL:
        return
    if designed:
        found = "with these propensities the labelled rows do not represent all rows"
        do = "Check the propensities or strata"
    else:
        found = "the unlabelled rows do not look like the labelled ones"
        do = (
            "If you know how rows were chosen for labelling, pass propensity= or strata= "
            "(--propensity, --strata). Otherwise label a random sample of all rows, or omit the "
            "unlabelled rows and report the metric for rows like the labelled ones only"
        )
    warnings.warn(
        f"{found} ({shown_p(test.p_value)}), so the estimate and its interval may be wrong: they "
        f"assume that rows were labelled at random. {do}.",
        ShiftWarning,
        stacklevel=stacklevel + 1,
    )

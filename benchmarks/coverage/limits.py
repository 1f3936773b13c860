"""What intervals can reach: coverage with few wrong rows, width at equal coverage."""

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Array = NDArray[np.float64]


def nearest_coverage(m: int, accuracy: float, nominal: float) -> float:
    """The coverage closest to nominal of any interval that depends on the number of hits alone.

    Such an interval holds the truth for a run of counts, from a least to a greatest number of hits;
    its coverage is the binomial probability of that run.
    """
    below = np.concatenate([[0.0], stats.binom.cdf(np.arange(m + 1), m, accuracy)])
    runs = below[None, :] - below[:, None]
    return float(runs.flat[np.abs(runs - nominal).argmin()])


def share_within_reach(m: int, accuracy: float, nominal: float, tolerance: float) -> float:
    """For how many truths any interval made of the count could cover to within a tolerance.

    The truths have from half to twice as many wrong rows as expected here, evenly on a log scale.
    Each chooses its own run of counts; an interval has to serve them all, and does no better.
    """
    wrong = np.minimum((1 - accuracy) * np.geomspace(0.5, 2, 201), 1.0)
    nearest = np.array([nearest_coverage(m, 1 - w, nominal) for w in wrong])
    return float((np.abs(nearest - nominal) <= tolerance).mean())


def width_at_coverage(
    low: Array, high: Array, truth: float, coverage: float, greatest: float
) -> float | None:
    """Mean width of centre ± quantile · error, with the quantile that gives it this coverage.

    None where no quantile does: intervals of zero width, from draws without variance, stay so.
    """
    centre, half = (low + high) / 2, (high - low) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        needed = np.nan_to_num(np.abs(truth - centre) / half, nan=0.0, posinf=np.inf)
    stretch = float(np.quantile(needed, coverage, method="higher"))
    if not np.isfinite(stretch):
        return None
    stretched = centre - stretch * half, centre + stretch * half
    return float((np.minimum(greatest, stretched[1]) - np.maximum(0.0, stretched[0])).mean())

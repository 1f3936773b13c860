"""Other libraries' intervals for a mean from labelled rows and proxies of all rows.

Each takes L and H of the labelled rows, H of the unlabelled ones and a confidence. A library that
is not installed does not take part. glide-py asks for Python 3.12.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from .peers import glide_ppi, student, tuned_ppi

Array = NDArray[np.float64]
Interval = Callable[[Array, Array, Array, float], tuple[float, float]]

PEERS: dict[str, Interval] = {
    "Student t": lambda loss, _, __, confidence: student(loss, confidence),
    "ppi-python": tuned_ppi,
    "glide-py": glide_ppi,
}

try:
    from ppi_aipw import aipw_mean_ci
except ImportError:
    pass
else:

    def ppi_aipw(loss: Array, h: Array, h_u: Array, confidence: float) -> tuple[float, float]:
        """The interval of ppi-aipw, with its default calibration."""
        if loss.min() == loss.max():  # it has none for losses all alike
            return float(loss[0]), float(loss[0])
        low, high = aipw_mean_ci(loss, h, h_u, alpha=1 - confidence)
        return float(np.squeeze(low)), float(np.squeeze(high))

    PEERS["ppi-aipw"] = ppi_aipw

try:
    from evalstats import judge_debias_mean_ci
except ImportError:
    pass
else:

    def evalstats(loss: Array, h: Array, h_u: Array, confidence: float) -> tuple[float, float]:
        """The interval of evalstats, by its default backend."""
        judged = np.concatenate([h, h_u])
        labelled = np.concatenate([loss, np.full(len(h_u), np.nan)])
        found = judge_debias_mean_ci(judged, labelled, alpha=1 - confidence, rng=0)
        return float(found.ci_low), float(found.ci_high)

    PEERS["evalstats"] = evalstats

"""McNemar's test: two classifiers on one test set, compared on the rows where only one is right.

Of the b + c such rows, the number b that only the first gets right is Binomial(b + c, ½) if both
are equally accurate.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dessl import _checks
from dessl._checks import ArrayLike
from dessl.evaluation.statistics.student import ALTERNATIVES, Alternative


@dataclass(frozen=True)
class McNemarTest:
    """McNemar's test of a against b; ``difference`` is accuracy of a − accuracy of b."""

    difference: float
    only_a: int
    only_b: int
    both: int
    neither: int
    p_value: float
    alternative: Alternative
    mid_p: bool


def mcnemar(
    correct_a: ArrayLike,
    correct_b: ArrayLike,
    *,
    alternative: Alternative = "two-sided",
    mid_p: bool = False,
) -> McNemarTest:
    """Test whether two classifiers are equally accurate, from their hits on the same rows.

    It compares these two trained models, not the methods: to compare methods, use folds. If both
    are right on exactly the same rows, p = 1.

    Args:
        correct_a: (n,) bool (or 0 and 1), where the first is right.
        correct_b: (n,) bool, where the second is right.
        alternative: "two-sided", "greater" (a more accurate) or "less".
        mid_p: count half of the observed outcome's probability: less conservative than the exact
            test, and within its level in practice (Fagerland, Lydersen and Laake, 2013).

    >>> test = mcnemar([1, 1, 1, 1, 1, 0], [0, 0, 0, 0, 0, 0])
    >>> test.only_a, test.only_b, test.p_value
    (5, 0, 0.0625)
    """
    from scipy import stats

    _checks.one_of("alternative", alternative, ALTERNATIVES)
    a, b = _hits("correct_a", correct_a), _hits("correct_b", correct_b)
    if a.shape != b.shape:
        raise ValueError(
            "correct_a and correct_b must have the same number of rows; "
            f"got {a.shape[0]} and {b.shape[0]}."
        )
    only_a, only_b = int((a & ~b).sum()), int((b & ~a).sum())
    law = stats.binom(only_a + only_b, 0.5)
    half = 0.5 * float(law.pmf(only_a)) if mid_p else 0.0
    above, below = float(law.sf(only_a - 1)) - half, float(law.cdf(only_a)) - half
    p_values = {"greater": above, "less": below, "two-sided": min(1.0, 2 * min(above, below))}
    return McNemarTest(
        difference=(only_a - only_b) / a.shape[0],
        only_a=only_a,
        only_b=only_b,
        both=int((a & b).sum()),
        neither=int((~a & ~b).sum()),
        p_value=1.0 if only_a + only_b == 0 else p_values[alternative],
        alternative=alternative,
        mid_p=mid_p,
    )


def _hits(name: str, values: ArrayLike) -> NDArray[np.bool_]:
    array = _checks.float64(name, values, ndim=1).cpu().numpy()
    if not np.isin(array, (0.0, 1.0)).all():
        raise ValueError(
            f"{name} must contain only True and False, or 1 and 0; got other values. "
            "Pass predicted == y, not the predictions."
        )
    return np.asarray(array == 1.0)

"""Comparisons of methods over the seeds of their runs."""

import math
from collections.abc import Mapping, Sequence

from dessl.evaluation.metrics.vocabulary import higher_is_better
from dessl.evaluation.statistics import paired_t_test, wilcoxon_test
from dessl.evaluation.verdict import OVER_SEEDS, Comparison
from dessl.results.averages import number
from dessl.results.record import Record


def over_seeds(
    metric: str,
    method: str,
    against: str,
    values: Mapping[int, float],
    other: Mapping[int, float],
    *,
    lam: float = math.nan,
) -> Comparison:
    """Compare two methods over the seeds that both have.

    Args:
        metric: Its name.
        method: The one method.
        against: The other.
        values: The metric of the one, by seed; NaN are skipped.
        other: The metric of the other, by seed.
        lam: λ of the one.

    >>> found = over_seeds("accuracy", "a", "b", {0: 0.9, 1: 0.8, 2: 0.7}, {0: 0.8, 1: 0.6, 2: 0.6})
    >>> round(found.difference, 4), found.n, found.better, found.clear
    (0.1333, 3, True, False)
    """
    shared = sorted(
        seed for seed in values.keys() & other.keys() if not math.isnan(values[seed] + other[seed])
    )
    one, two = [values[seed] for seed in shared], [other[seed] for seed in shared]
    n, nan = len(shared), math.nan
    if not n or not all(map(math.isfinite, one + two)):
        return Comparison(metric, method, against, nan, nan, nan, nan, 0.95, OVER_SEEDS, n, lam)
    if n == 1:
        only = one[0] - two[0]
        return Comparison(metric, method, against, only, nan, nan, nan, 0.95, OVER_SEEDS, n, lam)
    both = paired_t_test(one, two)
    above = paired_t_test(one, two, alternative="greater").p_value
    below = paired_t_test(one, two, alternative="less").p_value
    better, worse = (above, below) if higher_is_better(metric) else (below, above)
    return Comparison(
        metric, method, against, both.difference, both.low, both.high, both.p_value,
        both.confidence, OVER_SEEDS, n, lam, better, worse, wilcoxon_test(one, two).p_value,
    )  # fmt: skip


def by_seed(records: Sequence[Record], metric: str) -> dict[int, float]:
    """A metric of one method's records, by seed."""
    return {record.seed: number(record.metrics.get(metric)) for record in records}

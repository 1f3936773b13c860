"""Comparison of two methods over the seeds of their runs, with the paper's difference."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dessl.evaluation import verdict
from dessl.evaluation.metrics.vocabulary import higher_is_better
from dessl.evaluation.statistics import holm, paired_t_test, wilcoxon_test
from dessl.evaluation.verdict import OVER_SEEDS
from dessl.results.averages import number
from dessl.results.record import Record
from dessl.risk import RISKS
from dessl_paper.results import Block, Results
from dessl_paper.targets import printed

CLEAR = 0.05


@dataclass(frozen=True)
class Comparison(verdict.Comparison):
    """A metric of one method minus another's, split by split.

    Attributes:
        holm_better: ``p_better`` corrected for the λ grid.
        holm_worse: ``p_worse`` corrected for the λ grid.
        paper: The paper's difference of means; NaN if it has none.
    """

    holm_better: float = math.nan
    holm_worse: float = math.nan
    paper: float = math.nan

    @property
    def clear(self) -> bool:
        """Whether our interval excludes zero; never with one split."""
        return self.p_value < CLEAR

    @property
    def same_direction(self) -> bool:
        """Whether our difference and the paper's have the same sign; False if one is 0 or NaN."""
        return self.difference * self.paper > 0


def over_seeds(
    metric: str,
    method: str,
    against: str,
    values: Mapping[int, float],
    other: Mapping[int, float],
    *,
    lam: float = math.nan,
) -> verdict.Comparison:
    """Compare two methods over the seeds that both have.

    Args:
        metric: Its name.
        method: The first method.
        against: The second.
        values: The metric of the first, by seed; NaN are skipped.
        other: The metric of the second, by seed.
        lam: λ of the first.

    >>> found = over_seeds("accuracy", "a", "b", {0: 0.9, 1: 0.8, 2: 0.7}, {0: 0.8, 1: 0.6, 2: 0.6})
    >>> round(found.difference, 4), found.n, found.better, found.clear
    (0.1333, 3, True, False)
    """
    shared = sorted(
        seed for seed in values.keys() & other.keys() if not math.isnan(values[seed] + other[seed])
    )
    one, two = [values[seed] for seed in shared], [other[seed] for seed in shared]
    n, nan, names = len(shared), math.nan, (metric, method, against)
    if not n or not all(map(math.isfinite, one + two)):
        return verdict.Comparison(*names, nan, nan, nan, nan, 0.95, OVER_SEEDS, n, lam)
    if n == 1:
        only = one[0] - two[0]
        return verdict.Comparison(*names, only, nan, nan, nan, 0.95, OVER_SEEDS, n, lam)
    both = paired_t_test(one, two)
    above = paired_t_test(one, two, alternative="greater").p_value
    below = paired_t_test(one, two, alternative="less").p_value
    better, worse = (above, below) if higher_is_better(metric) else (below, above)
    return verdict.Comparison(
        *names, both.difference, both.low, both.high, both.p_value,
        both.confidence, OVER_SEEDS, n, lam, better, worse, wilcoxon_test(one, two).p_value,
    )  # fmt: skip


def by_seed(records: Sequence[Record], metric: str) -> dict[int, float]:
    """A metric of one method's records, by seed."""
    return {record.seed: number(record.metrics.get(metric)) for record in records}


def compared(
    results: Results,
    block: Block,
    metric: str,
    method: str,
    against: str,
    lam: float,
    against_lam: float,
) -> Comparison:
    """Compare two methods of a block, each at its own λ."""
    one = by_seed(results.runs(block, method, lam), metric)
    other = by_seed(results.runs(block, against, against_lam), metric)
    found = over_seeds(metric, method, against, one, other, lam=lam)
    paper = (
        printed(results, block, method, metric, lam).mean
        - printed(results, block, against, metric, against_lam).mean
    )
    return Comparison(**vars(found), paper=paper)


def over_lambda(
    results: Results, block: Block, metric: str, method: str, against: str
) -> list[Comparison]:
    """Two methods at each λ that both have, with Holm's correction over the grid.

    The complete case has no λ: each λ is compared with the same runs.
    """
    lams = results.lams(method)
    if not RISKS[results.risk(against)].unlabelled:
        pairs = [(lam, 0.0) for lam in lams]
    else:
        pairs = [(lam, lam) for lam in lams if lam in results.lams(against)]
    found = [compared(results, block, metric, method, against, *pair) for pair in pairs]
    if not found:
        return []
    better = holm([one.p_better for one in found])
    worse = holm([one.p_worse for one in found])
    return [
        dataclasses.replace(one, holm_better=float(b), holm_worse=float(w))
        for one, b, w in zip(found, better, worse, strict=True)
    ]

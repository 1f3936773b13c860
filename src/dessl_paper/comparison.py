"""Comparison: one method against another on the same splits, ours beside the paper's difference."""

import dataclasses
import math
from dataclasses import dataclass

from dessl.evaluation.statistics import holm, paired_t_test, wilcoxon_test
from dessl.report.measures import higher_is_better
from dessl_paper.averages import number
from dessl_paper.results import Block, Results
from dessl_paper.targets import printed

CLEAR = 0.05


@dataclass(frozen=True)
class Comparison:
    """A metric of one method minus another's, split by split.

    Attributes:
        metric: Name.
        method: The one.
        against: The other.
        lam: λ of the one.
        n: Splits that both have.
        difference: Mean over them; NaN without any, or if a metric is infinite in one.
        low: Lower end of the 95 % t-interval; NaN with fewer than two splits or without a
            difference, as all that follow.
        high: Its upper end.
        p_better: Of the one-sided paired t-test for the one being better.
        p_worse: For it being worse.
        p_two_sided: For the two being different.
        p_wilcoxon: The same, by signed ranks.
        holm_better: ``p_better`` corrected for the λ grid.
        holm_worse: ``p_worse`` corrected for it.
        paper: The paper's difference of means; NaN if it has none.
    """

    metric: str
    method: str
    against: str
    lam: float
    n: int
    difference: float
    low: float = math.nan
    high: float = math.nan
    p_better: float = math.nan
    p_worse: float = math.nan
    p_two_sided: float = math.nan
    p_wilcoxon: float = math.nan
    holm_better: float = math.nan
    holm_worse: float = math.nan
    paper: float = math.nan

    @property
    def clear(self) -> bool:
        """Whether our interval excludes zero; never with one split."""
        return self.p_two_sided < CLEAR

    @property
    def same_direction(self) -> bool:
        """Whether ours and the paper's have the same sign; not if either is zero or missing."""
        return self.difference * self.paper > 0


def compared(
    results: Results,
    block: Block,
    metric: str,
    method: str,
    against: str,
    lam: float,
    against_lam: float,
) -> Comparison:
    """Compare two methods of a block, each at its λ."""
    a = _by_split(results, block, metric, method, lam)
    b = _by_split(results, block, metric, against, against_lam)
    shared = sorted(set(a) & set(b))
    first, second = [a[seed] for seed in shared], [b[seed] for seed in shared]
    n = len(shared)
    finite = all(map(math.isfinite, first + second))
    mean = sum(x - y for x, y in zip(first, second, strict=True)) / n if n and finite else math.nan
    paper = (
        printed(results, block, method, metric, lam).mean
        - printed(results, block, against, metric, against_lam).mean
    )
    found = Comparison(metric, method, against, lam, n, mean, paper=paper)
    if n < 2 or not finite:
        return found
    both = paired_t_test(first, second)
    above = paired_t_test(first, second, alternative="greater").p_value
    below = paired_t_test(first, second, alternative="less").p_value
    better, worse = (above, below) if higher_is_better(metric) else (below, above)
    return dataclasses.replace(
        found,
        low=both.low,
        high=both.high,
        p_better=better,
        p_worse=worse,
        p_two_sided=both.p_value,
        p_wilcoxon=wilcoxon_test(first, second).p_value,
    )


def over_lambda(
    results: Results, block: Block, metric: str, method: str, against: str
) -> list[Comparison]:
    """Two methods at each λ that both have, with Holm's correction over the grid.

    The complete case has no λ, and is compared with at each of them.
    """
    lams = results.lams(method)
    if results.risk(against) == "complete_case":
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


def _by_split(
    results: Results, block: Block, metric: str, method: str, lam: float
) -> dict[int, float]:
    found = {
        record.seed: number(record.metrics.get(metric))
        for record in results.runs(block, method, lam)
    }
    return {seed: value for seed, value in found.items() if not math.isnan(value)}

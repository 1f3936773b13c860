"""Comparison of two methods on the same splits, ours beside the paper's difference."""

import dataclasses
import math
from dataclasses import dataclass

from dessl.evaluation import verdict
from dessl.evaluation.statistics import holm
from dessl.results.comparisons import by_seed, over_seeds
from dessl.risk import RISKS
from dessl_paper.results import Block, Results
from dessl_paper.targets import printed

CLEAR = 0.05


@dataclass(frozen=True)
class Comparison(verdict.Comparison):
    """A metric of one method minus another's, split by split.

    Attributes:
        holm_better: ``p_better`` corrected for the λ grid.
        holm_worse: ``p_worse`` corrected for it.
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

    The complete case has no λ, and is compared with at each of them.
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

"""How far our means lie from the paper's, and whether the intervals hold them."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from dessl_paper.report.averages import Average, average, values_of
from dessl_paper.report.findings.finding import Finding, Outcome
from dessl_paper.report.paper import Printed, printed
from dessl_paper.report.results import Block, Results
from dessl_paper.report.wording import amount, listed, plain, written


class Level(NamedTuple):
    """One mean of ours beside the paper's; ``name`` says of what."""

    name: str
    ours: Average
    paper: Printed

    @property
    def off(self) -> float:
        """Ours less the paper's."""
        return self.ours.mean - self.paper.mean

    @property
    def meets(self) -> bool:
        """Whether the two intervals meet; a mean without one must lie in the other's."""
        reach = (self.ours.half_width or 0.0) + (self.paper.half_width or 0.0)
        return abs(self.off) <= reach


def level(
    results: Results, block: Block, method: str, metric: str, lam: float, name: str
) -> Level | None:
    """Ours and the paper's for one cell, or None where either is missing."""
    ours = average(values_of(results.runs(block, method, lam), metric))
    found = Level(name, ours, printed(results, block, method, metric, lam))
    return found if math.isfinite(found.off) else None


def level_finding(metric: str, levels: Sequence[Level], of: str = "") -> Finding | None:
    """One sentence on a metric's levels, or None where there are none.

    From one split a level has no interval, so that nothing is claimed of it.

    Args:
        metric: Name.
        levels: What was compared.
        of: What the sentence begins with.
    """
    if not levels:
        return None
    if any(one.ours.half_width is None for one in levels):
        gaps = listed(f"{one.name} {written(metric, one.off, signed=True)}" for one in levels)
        text = f"{of}{plain(metric)} less the paper's, without an interval of ours: {gaps}."
        return Finding("open", text)
    met = [one for one in levels if one.meets]
    outcome: Outcome = "in part" if met else "differs"
    if len(met) == len(levels):
        outcome = "agrees"
    far = max(levels, key=lambda one: abs(one.off))
    text = (
        f"{of}{plain(metric)} meets the paper's within the intervals in {len(met)} of "
        f"{len(levels)} cells; the farthest is {far.name}, {gap(metric, far)}."
    )
    return Finding(outcome, text)


def gap(metric: str, one: Level) -> str:
    """Ours against the paper's, and the difference in words.

    >>> gap("accuracy", Level("a", Average(0.9292, None, 1), Printed(0.9544)))
    '92.92 against 95.44 (2.52 points below)'
    """
    side = "above" if one.off > 0 else "below"
    numbers = f"{written(metric, one.ours.mean)} against {written(metric, one.paper.mean)}"
    return f"{numbers} ({amount(metric, one.off)} {side})"

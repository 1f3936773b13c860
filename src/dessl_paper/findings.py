"""Finding: one sentence on how a number of ours compares with the paper's, and the outcome."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from dessl.results.averages import Average, average, values_of
from dessl_paper.comparison import CLEAR, Comparison
from dessl_paper.results import Block, Results
from dessl_paper.targets import Printed, printed
from dessl_paper.wording import amount, listed, located, p_text, plain, written

Outcome = Literal["agrees", "in part", "differs", "open", "fact"]
HEADINGS: dict[Outcome, str] = {
    "agrees": "Agrees with the paper",
    "in part": "Partly agrees",
    "differs": "Does not agree",
    "open": "Not clear from these runs",
    "fact": "Other observations",
}


@dataclass(frozen=True)
class Finding:
    """A sentence and the list it belongs to.

    Attributes:
        outcome: ``"fact"`` if the paper has no number to compare with.
        text: The sentence.
    """

    outcome: Outcome
    text: str


def placed(results: Results, block: Block, finding: Finding) -> Finding:
    """The finding with its data set before the sentence, if there are several."""
    return Finding(finding.outcome, located(results, block, finding.text))


def counted(findings: Sequence[Finding]) -> str:
    """One sentence on all of them.

    >>> counted([Finding("agrees", "a"), Finding("agrees", "b"), Finding("differs", "c")])
    'Of 3 comparisons with the paper, 2 agree and 1 does not agree.'
    >>> counted([Finding("fact", "a")])
    'The paper has no numbers to compare these with.'
    """
    said = {
        "agrees": ("agrees", "agree"),
        "in part": ("partly agrees", "partly agree"),
        "differs": ("does not agree", "do not agree"),
        "open": ("is not clear", "are not clear"),
    }
    counts = {key: sum(one.outcome == key for one in findings) for key in said}
    total = sum(counts.values())
    if not total:
        return "The paper has no numbers to compare these with."
    parts = [f"{n} {said[key][n > 1]}" for key, n in counts.items() if n]
    compared = "1 comparison" if total == 1 else f"{total} comparisons"
    return f"Of {compared} with the paper, {listed(parts)}."


class Level(NamedTuple):
    """One mean of ours beside the paper's; ``name`` says of what."""

    name: str
    ours: Average
    paper: Printed

    @property
    def off(self) -> float:
        """Ours minus the paper's."""
        return self.ours.mean - self.paper.mean

    @property
    def meets(self) -> bool:
        """Whether the two intervals meet; a mean without one must lie in the other's."""
        reach = (self.ours.half_width or 0.0) + (self.paper.half_width or 0.0)
        return abs(self.off) <= reach


def level(
    results: Results, block: Block, method: str, metric: str, lam: float, name: str
) -> Level | None:
    """Ours and the paper's for one cell, or None if either is missing."""
    ours = average(values_of(results.runs(block, method, lam), metric))
    found = Level(name, ours, printed(results, block, method, metric, lam))
    return found if math.isfinite(found.off) else None


def level_finding(metric: str, levels: Sequence[Level], of: str = "") -> Finding | None:
    """One sentence on a metric's levels, or None if there are none.

    A level from one split has no interval, so nothing is claimed about it.

    Args:
        metric: Name.
        levels: What was compared.
        of: The beginning of the sentence.
    """
    if not levels:
        return None
    if any(one.ours.half_width is None for one in levels):
        gaps = listed(f"{one.name} {written(metric, one.off, signed=True)}" for one in levels)
        text = f"{of}{plain(metric)} minus the paper's, without an interval of ours: {gaps}."
        return Finding("open", text)
    met = [one for one in levels if one.meets]
    outcome: Outcome = "in part" if met else "differs"
    if len(met) == len(levels):
        outcome = "agrees"
    far = max(levels, key=lambda one: abs(one.off))
    text = (
        f"{of}{plain(metric)} agrees with the paper's within the intervals in {len(met)} of "
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


def direction_finding(results: Results, one: Comparison, at: str = "") -> Finding | None:
    """One sentence on one difference, or None if we have none.

    It agrees or differs if ours is clear, and is open if ours may be chance or is infinite.

    Args:
        results: The experiment.
        one: The difference.
        at: The beginning of the sentence.
    """
    if one.n == 0:
        return None
    text = f"{at}{difference_text(results, one)}"
    if math.isnan(one.difference):
        return Finding("open", f"{text}.")
    if math.isnan(one.paper):
        return Finding("fact", f"{text}; the paper has no number here.")
    if not one.paper:
        return Finding("open", f"{text}; the paper's numbers do not differ.")
    side = "above" if one.paper > 0 else "below"
    theirs = f"{amount(one.metric, one.paper)} {side}"
    same = "the same direction" if one.same_direction else "not the same direction"
    text += f"; the paper has {theirs}: {same}"
    if not one.clear:
        return Finding("open", f"{text}, but ours may be chance.")
    return Finding("agrees" if one.same_direction else "differs", f"{text}.")


def difference_text(results: Results, one: Comparison) -> str:
    """Our difference in words, with its interval and p-value if there are several splits."""
    names = results.methods
    if math.isnan(one.difference):
        pair = f"{names[one.method]} and {names[one.against]}"
        return f"{plain(one.metric)} of {pair} cannot be compared: it is infinite in some splits"
    side = "above" if one.difference > 0 else "below"
    how = f"{amount(one.metric, one.difference)} {side}" if one.difference else "the same as"
    said = f"{plain(one.metric)} of {names[one.method]} is {how} {names[one.against]}'s"
    if one.n < 2:
        return f"{said} (one split, no test)"
    low, high = (written(one.metric, end, signed=True) for end in (one.low, one.high))
    return f"{said} ({low} to {high}, p = {p_text(one.p_value)}, {one.n} splits)"


def with_paper(found: Sequence[Comparison]) -> list[Comparison]:
    """Those that both we and the paper have."""
    return [one for one in found if not math.isnan(one.difference + one.paper)]


def with_sign(found: Sequence[Comparison]) -> list[Comparison]:
    """Those where the paper's numbers differ, so that there is a sign to compare."""
    return [one for one in with_paper(found) if one.paper]


def agreement_text(found: Sequence[Comparison], what: str) -> str:
    """How many of several differences have the paper's sign, and how many of the clear ones.

    Args:
        found: Of :func:`with_sign`.
        what: What they are counted in.
    """
    same = sum(one.same_direction for one in found)
    text = f"in {same} of {len(found)} {what}"
    clear = [one for one in found if one.clear]
    if clear:
        same = sum(one.same_direction for one in clear)
        text += f", and in {same} of the {len(clear)} where ours is clear (p < {CLEAR})"
    return text


def agreement(found: Sequence[Comparison]) -> Outcome:
    """The outcome of several differences: that of the clear ones, but partial if most disagree.

    With many differences, one may be clear by chance.
    """
    clear = [one.same_direction for one in found if one.clear]
    if not clear:
        return "open"
    if len(set(clear)) > 1:
        return "in part"
    if 2 * sum(one.same_direction == clear[0] for one in found) < len(found):
        return "in part"
    return "agrees" if clear[0] else "differs"

"""Finding: one sentence on how one of our numbers compares with the paper's, and the outcome.

A number agrees with the paper's only if it is equivalent: the 95 % interval of the difference lies
within a margin, 1 point for shares and a tenth of the paper's number for anything else. It differs
if the interval, widened for the number of cells that are looked at together (Bonferroni), excludes
zero and is not within the margin. Everything else is inconclusive.

The same holds for a difference between two methods. If it is significant and has the paper's sign,
but its size does not agree, it agrees in direction only; with the opposite sign it differs.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from dessl.evaluation.metrics.vocabulary import metric_named
from dessl.results.averages import Average, average, values_of
from dessl_paper.comparison import CLEAR, Comparison
from dessl_paper.results import Block, Results
from dessl_paper.targets import Printed, printed
from dessl_paper.wording import amount, listed, located, p_text, plain, written

Outcome = Literal["agrees", "direction", "differs", "open", "fact"]
HEADINGS: dict[Outcome, str] = {
    "agrees": "Agrees with the paper",
    "direction": "Agrees in direction only",
    "differs": "Does not agree",
    "open": "Inconclusive",
    "fact": "Other observations",
}
POINTS = 0.01  # margin for a share
RELATIVE = 0.1  # margin for anything else, relative to the paper's number


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
    wordings = {
        "agrees": ("agrees", "agree"),
        "direction": ("agrees in direction only", "agree in direction only"),
        "differs": ("does not agree", "do not agree"),
        "open": ("is inconclusive", "are inconclusive"),
    }
    counts = {key: sum(one.outcome == key for one in findings) for key in wordings}
    total = sum(counts.values())
    if not total:
        return "The paper has no numbers to compare these with."
    parts = [f"{n} {wordings[key][n > 1]}" for key, n in counts.items() if n]
    compared = "1 comparison" if total == 1 else f"{total} comparisons"
    return f"Of {compared} with the paper, {listed(parts)}."


class Level(NamedTuple):
    """One of our means and the paper's; ``name`` says what they measure."""

    name: str
    ours: Average
    paper: Printed

    @property
    def off(self) -> float:
        """Ours minus the paper's."""
        return self.ours.mean - self.paper.mean

    @property
    def reach(self) -> float:
        """Half of the 95 % interval of the difference of two independent means; NaN without ours.

        Where the paper gives no interval, its mean is assumed to be as uncertain as ours.
        """
        if self.ours.half_width is None:
            return math.nan
        theirs = self.paper.half_width
        return math.hypot(self.ours.half_width, self.ours.half_width if theirs is None else theirs)

    def outcome(self, metric: str, cells: int = 1) -> Outcome:
        """Whether the two are equivalent, differ, or the comparison is inconclusive.

        Args:
            metric: Name.
            cells: Number of cells tested together; with many, one differs by chance more often.

        >>> Level("a", Average(0.931, 0.004, 5), Printed(0.93, 0.003)).outcome("accuracy")
        'agrees'
        >>> Level("a", Average(0.931, 0.02, 5), Printed(0.93, 0.003)).outcome("accuracy")
        'open'
        >>> Level("a", Average(0.95, 0.01, 5), Printed(0.93, 0.003)).outcome("accuracy")
        'differs'
        """
        if math.isnan(self.reach):
            return "open"
        if abs(self.off) + self.reach <= margin(metric, self.paper):
            return "agrees"
        return "differs" if abs(self.off) > self.reach * widened(cells, self.ours.n) else "open"


def widened(cells: int, n: int) -> float:
    """How much wider a mean's 95 % interval gets when several cells are tested together.

    >>> widened(1, 5), round(widened(10, 5), 2)
    (1.0, 2.02)
    """
    from scipy import special

    if cells == 1 or n < 2:
        return 1.0
    return float(special.stdtrit(n - 1, 1 - 0.025 / cells) / special.stdtrit(n - 1, 0.975))


def margin(metric: str, paper: Printed) -> float:
    """The largest difference from the paper's number that counts as agreement.

    >>> margin("accuracy", Printed(0.9)), round(margin("cross_entropy", Printed(0.3)), 4)
    (0.01, 0.03)
    """
    return POINTS if metric_named(metric).percent else RELATIVE * abs(paper.mean)


def margin_text(metric: str) -> str:
    """The margin in words."""
    if metric_named(metric).percent:
        return f"±{100 * POINTS:g} point"
    return f"±{100 * RELATIVE:g} %"


def level_outcome(metric: str, one: Level) -> tuple[Outcome, str]:
    """The outcome of one level, and why, in words.

    >>> level_outcome("accuracy", Level("a", Average(0.95, 0.01, 5), Printed(0.93, 0.003)))[1]
    'the 95 % interval of the difference, +0.96 to +3.04, excludes zero'
    """
    outcome = one.outcome(metric)
    if math.isnan(one.reach):
        return outcome, "one run, no interval"
    low, high = ends(metric, one)
    interval = f"the 95 % interval of the difference, {low} to {high},"
    if outcome == "differs":
        return outcome, f"{interval} excludes zero"
    where = "is within" if outcome == "agrees" else "includes zero and extends beyond"
    return outcome, f"{interval} {where} {margin_text(metric)}"


def level(
    results: Results, block: Block, method: str, metric: str, lam: float, name: str
) -> Level | None:
    """Ours and the paper's for one cell, or None if either is missing."""
    ours = average(values_of(results.runs(block, method, lam), metric))
    found = Level(name, ours, printed(results, block, method, metric, lam))
    return found if math.isfinite(found.off) else None


def ends(metric: str, one: Level, wider: float = 1.0) -> tuple[str, str]:
    """Both ends of the interval of the difference, as text."""
    low, high = (
        written(metric, one.off + sign * wider * one.reach, signed=True) for sign in (-1, 1)
    )
    return low, high


def level_findings(metric: str, levels: Sequence[Level], of: str = "") -> list[Finding]:
    """One sentence for each outcome that occurs among a metric's levels.

    A level from one split has no interval, so it is inconclusive.

    Args:
        metric: Name.
        levels: The compared means.
        of: The beginning of the sentence.
    """
    found = []
    for outcome, words in OUTCOME_TEXT.items():
        its = [one for one in levels if one.outcome(metric, len(levels)) == outcome]
        if not its:
            continue
        count = f"in {len(its)} of {len(levels)} cells"
        text = f"{of}{plain(metric)} {words.format(margin_text(metric))} {count}"
        if outcome == "agrees":
            text += f": {listed(one.name for one in its)}"
        else:
            far = max(its, key=lambda one: abs(one.off))
            text += f"; largest difference: {far.name}, {gap(metric, far)}"
            if not math.isnan(far.reach):
                low, high = ends(metric, far, widened(len(levels), far.ours.n))
                text += f", interval of the difference {low} to {high}"
        found.append(Finding(outcome, f"{text}."))
    return found


OUTCOME_TEXT: dict[Outcome, str] = {
    "agrees": "is within {} of the paper's",
    "differs": "differs from the paper's",
    "open": "is inconclusive (neither significantly different nor within {})",
}


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

    :func:`agreement` decides; it is open if ours is infinite or the paper's is 0.

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
    text += f"; in the paper it is {theirs}: {same}"
    text += "" if one.clear else ", but our difference may be chance"
    return Finding(agreement([one]), f"{text}; {_size_text(one)}.")


def size(one: Comparison) -> Level:
    """Our difference and the paper's."""
    half = None if one.n < 2 else (one.high - one.low) / 2
    return Level("", Average(one.difference, half, one.n), Printed(one.paper))


def _size_text(one: Comparison) -> str:
    """Whether the size of our difference is the paper's, in words."""
    found = size(one)
    words = {
        "agrees": f"the size agrees within {margin_text(one.metric)}",
        "differs": "the size differs",
        "open": "whether the size agrees is inconclusive",
    }[found.outcome(one.metric)]
    if math.isnan(found.reach):
        return words
    return f"{words} (ours minus the paper's: {' to '.join(ends(one.metric, found))})"


def difference_text(results: Results, one: Comparison) -> str:
    """Our difference in words, with its interval and p-value if there are several splits."""
    names = results.methods
    if math.isnan(one.difference):
        pair = f"{names[one.method]} and {names[one.against]}"
        return (
            f"the {plain(one.metric)} of {pair} cannot be compared: it is infinite in some splits"
        )
    side = "above" if one.difference > 0 else "below"
    how = f"{amount(one.metric, one.difference)} {side}" if one.difference else "the same as"
    claim = f"the {plain(one.metric)} of {names[one.method]} is {how} that of {names[one.against]}"
    if one.n < 2:
        return f"{claim} (one split, no test)"
    low, high = (written(one.metric, end, signed=True) for end in (one.low, one.high))
    return f"{claim} ({low} to {high}, p = {p_text(one.p_value)}, {one.n} splits)"


def with_paper(found: Sequence[Comparison]) -> list[Comparison]:
    """The comparisons that both we and the paper have."""
    return [one for one in found if not math.isnan(one.difference + one.paper)]


def with_sign(found: Sequence[Comparison]) -> list[Comparison]:
    """The comparisons in which the paper's numbers differ, so that there is a sign to compare."""
    return [one for one in with_paper(found) if one.paper]


def agreement_text(found: Sequence[Comparison], what: str) -> str:
    """How many differences have the paper's sign, how many significant ones, and its size.

    Args:
        found: Result of :func:`with_sign`.
        what: What is counted, such as ``"data sets"``.
    """
    same = sum(one.same_direction for one in found)
    text = f"in {same} of {len(found)} {what}"
    clear = [one for one in found if one.clear]
    if clear:
        same = sum(one.same_direction for one in clear)
        text += f", and in {same} of the {len(clear)} where ours is significant (p < {CLEAR})"
    wordings = {"agrees": "agrees", "differs": "differs", "open": "is inconclusive"}
    sizes = [size(one).outcome(one.metric, len(found)) for one in found]
    counts = [f"{words} in {sizes.count(key)}" for key, words in wordings.items() if key in sizes]
    return f"{text}; the size {listed(counts)}"


def agreement(found: Sequence[Comparison]) -> Outcome:
    """The outcome of one difference, or of several together.

    One significant difference with the opposite sign is a disagreement, and they agree if all sizes
    do. Otherwise significant ones agree in direction only; with many differences, one may be
    significant by chance, so not if most of all differences have the opposite sign.
    """
    clear = [one.same_direction for one in found if one.clear]
    if not all(clear):
        return "differs"
    sizes = {size(one).outcome(one.metric, len(found)) for one in found}
    if sizes == {"agrees"}:
        return "agrees"
    if clear and 2 * sum(one.same_direction for one in found) >= len(found):
        return "direction"
    return "differs" if "differs" in sizes else "open"

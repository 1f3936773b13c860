"""Whether one method stands to another as it does in the paper: the sign of a difference."""

import math
from collections.abc import Sequence

from dessl_paper.report.comparison import CLEAR, Comparison
from dessl_paper.report.findings.finding import Finding, Outcome
from dessl_paper.report.results import Results
from dessl_paper.report.wording import amount, p_text, plain, written


def direction_finding(results: Results, one: Comparison, at: str = "") -> Finding | None:
    """One sentence on one difference, or None where there is none of ours.

    It agrees or differs where ours is clear, and is open where ours may be chance or is infinite.

    Args:
        results: The experiment.
        one: The difference.
        at: What the sentence begins with.
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
    """Our difference in words, with its interval and p-value where there are splits enough."""
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
    return f"{said} ({low} to {high}, p = {p_text(one.p_two_sided)}, {one.n} splits)"


def with_paper(found: Sequence[Comparison]) -> list[Comparison]:
    """Those that both we and the paper have."""
    return [one for one in found if not math.isnan(one.difference + one.paper)]


def with_sign(found: Sequence[Comparison]) -> list[Comparison]:
    """Those of them where the paper's numbers differ, so that there is a sign to share."""
    return [one for one in with_paper(found) if one.paper]


def agreement_text(found: Sequence[Comparison], what: str) -> str:
    """How many of several differences have the paper's sign, and how many of the clear ones.

    Args:
        found: Of :func:`with_sign`.
        what: What they are counted in.
    """
    same = sum(one.same_direction for one in found)
    text = f"at {same} of {len(found)} {what}"
    clear = [one for one in found if one.clear]
    if clear:
        same = sum(one.same_direction for one in clear)
        text += f", and at {same} of the {len(clear)} where ours is clear (p < {CLEAR})"
    return text


def agreement(found: Sequence[Comparison]) -> Outcome:
    """What several differences come to: what the clear ones say, and only in part against most.

    One of many that is clear may be so by chance.
    """
    clear = [one.same_direction for one in found if one.clear]
    if not clear:
        return "open"
    if len(set(clear)) > 1:
        return "in part"
    if 2 * sum(one.same_direction == clear[0] for one in found) < len(found):
        return "in part"
    return "agrees" if clear[0] else "differs"

"""Whether a debiased method stands to its twin as it does in the paper: the sign of a difference."""

from dessl.report.reproduction.comparison import Comparison
from dessl.report.reproduction.findings.finding import Finding
from dessl.report.reproduction.results import Results
from dessl.report.reproduction.wording import amount, p_text, plain, written


def direction_finding(results: Results, where: str, one: Comparison) -> Finding | None:
    """One sentence on one difference, or None where there is none of ours.

    It agrees or differs where ours is clear, and is open where ours may be chance.
    """
    if one.n == 0:
        return None
    text = f"{where}: {difference_text(results, one)}"
    if one.paper != one.paper:
        return Finding("fact", f"{text}; the paper has no number here.")
    text += f"; in the paper it is {_side(one, one.paper)}"
    if not one.clear:
        return Finding("open", f"{text}.")
    if one.same_direction:
        return Finding("agrees", f"{text}: the same direction.")
    return Finding("differs", f"{text}: the opposite direction.")


def difference_text(results: Results, one: Comparison) -> str:
    """Our difference in words, with its interval and p-value where there are splits enough."""
    names = results.methods
    said = (
        f"{plain(one.metric)} of {names[one.method]} is {_side(one, one.difference)} "
        f"{names[one.against]}'s"
    )
    if one.n < 2:
        return f"{said} (one split, no test)"
    low, high = (written(one.metric, end, signed=True) for end in (one.low, one.high))
    return f"{said} ({low} to {high}, p = {p_text(one.p_two_sided)}, {one.n} splits)"


def _side(one: Comparison, difference: float) -> str:
    if difference == 0:
        return "the same as"
    return f"{amount(one.metric, difference)} {'above' if difference > 0 else 'below'}"


def agreement_text(found: list[Comparison]) -> str:
    """How many of several differences have the paper's sign, and how many of the clear ones."""
    known = [one for one in found if one.n and one.paper == one.paper]
    same = sum(one.same_direction for one in known)
    clear = [one for one in known if one.clear]
    text = f"{same} of {len(known)}"
    if any(one.n > 1 for one in known):
        same_clear = sum(one.same_direction for one in clear)
        text += f" (of the {len(clear)} where ours is clear at 5 %: {same_clear})"
    return text

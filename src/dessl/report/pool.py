"""The pool: what each member counts for, and what the unlabelled rows brought."""

from dessl.evaluation.metrics.vocabulary import NONE, metric_text
from dessl.report.html import Child, Markup, element, named, section, table
from dessl.results.facts import RunFacts
from dessl.teachers import Member, PoolReport
from dessl.teachers.pool import ANCHOR

LOSS = metric_text("cross_entropy")
HEADINGS = ("member", "weight", f"{LOSS} alone", "minus the networks", "unlabelled rows")
STEPS = ("on held-out labels", LOSS, "change ± standard error")


def pool_section(facts: RunFacts) -> Markup | None:
    """The gain in its two parts, then the members."""
    pool = facts.pool
    if pool is None:
        return None
    return section(
        "Pool",
        element("p", _explained(pool), class_="note"),
        table(STEPS, _steps(pool), label="What the pool brought", class_="metrics"),
        element("p", _members_explained(), class_="note"),
        table(HEADINGS, map(_row, pool.members), label="Members of the pool", class_="metrics"),
    )


def shown_name(member: Member) -> str:
    """A member's name; the anchor's says what it is."""
    return "networks" if member.name == ANCHOR else member.name


def brought(pool: PoolReport) -> str:
    """What the unlabelled rows did, in words; clear means two standard errors from 0.

    >>> from dessl.teachers import Gain
    >>> brought(PoolReport(9, (), 0.5, 0.4, 0.39, Gain(0.1, 0.02), Gain(0.01, 0.02), Gain(0.1, 1)))
    'no clear difference by the unlabelled rows'
    """
    if not pool.unlabelled.clear:
        return "no clear difference by the unlabelled rows"
    way = "lowered" if pool.unlabelled.mean > 0 else "raised"
    return f"the unlabelled rows clearly {way} the {LOSS}"


def _explained(pool: PoolReport) -> str:
    return (
        f"From {pool.n:,} labels, each predicted by networks, teachers and weights that did not "
        f"see it: {brought(pool)}. Lower is better."
    )


def _members_explained() -> str:
    return (
        "The pool multiplies its members' probabilities, each to the power of its weight. A weight "
        "of 0 means that a member is left out."
    )


def _steps(pool: PoolReport) -> list[tuple[Child, ...]]:
    return [
        ("networks alone", f"{pool.anchor:.3f}", NONE),
        (
            "with other predictors of the labelled rows",
            f"{pool.without_unlabelled:.3f}",
            pool.ensembling.change,
        ),
        ("and with the unlabelled rows: the pool", f"{pool.pooled:.3f}", pool.unlabelled.change),
    ]


def _row(member: Member) -> tuple[Child, ...]:
    change = NONE if member.name == ANCHOR else member.gain.change
    uses = "used" if member.uses_unlabelled else NONE
    return named(shown_name(member)), f"{member.weight:.2f}", f"{member.score:.3f}", change, uses

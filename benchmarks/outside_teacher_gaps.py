"""Paired differences between the methods of outside_teacher.py, cell by cell."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from dessl.evaluation import mean_interval

GOLD = "gold only"
OURS, LISTENING = "correct, distil, pool, gate", "with the teacher at prediction time"
HARMLESS = ("shuffled", "permuted", "overconfident", "inverted")  # must never hurt
CORRECTABLE = tuple(f"biased {s}" for s in (0.2, 0.4, 0.6, 0.8, 1.0))  # must help
Record = dict[str, Any]


class Gap(NamedTuple):
    """A method's measure less another's, over the draws of a cell, with its 95 % interval."""

    mean: float
    low: float
    high: float


Gaps = dict[str, Gap]  # by "data, gold labels, teacher"


def gaps(records: Iterable[Record], measure: str, beside: str = GOLD) -> dict[str, Gaps]:
    """Each method's paired difference with another, in cells of two draws or more."""
    found: dict[str, Gaps] = {}
    records = list(records)
    for method in sorted({method for record in records for method in record["scores"]}):
        # A student that gold rows gave no weight was not trained: the gold-only networks stand.
        found[method] = difference(records, method, beside, measure, stand_in=GOLD)
    return {method: every for method, every in found.items() if every}


def difference(
    records: Iterable[Record],
    method: str,
    beside: str,
    measure: str = "cross_entropy",
    *,
    stand_in: str | None = None,
) -> Gaps:
    """One method's paired difference with another; draws without it are left out or filled in."""
    grouped = defaultdict(list)
    for record in records:
        scores = record["scores"]
        ours, theirs = scores.get(method, scores.get(stand_in)), scores.get(beside)
        if ours is not None and theirs is not None:
            grouped[cell_name(record)].append(ours[measure] - theirs[measure])
    spreads = {key: mean_interval(every) for key, every in grouped.items() if len(every) > 1}
    return {
        key: Gap(*(round(v, 5) for v in (spread.mean, spread.low, spread.high)))
        for key, spread in sorted(spreads.items())
    }


def cell_name(record: Record) -> str:
    """Data set, number of gold labels and teacher."""
    return f"{record['data']}, {record['n_gold']}, {record['teacher']}"


def of_teachers(found: Gaps, teachers: Sequence[str]) -> Gaps:
    """The cells of some teachers."""
    return {key: gap for key, gap in found.items() if key.split(", ")[2] in teachers}


def worse(found: Gaps) -> Gaps:
    """The cells whose whole interval lies above 0."""
    return {key: gap for key, gap in found.items() if gap.low > 0}


def better(found: Gaps) -> Gaps:
    """The cells whose whole interval lies below 0."""
    return {key: gap for key, gap in found.items() if gap.high < 0}


def table(found: dict[str, Gaps], teachers: Sequence[str], *, sign: int = 1) -> str:
    """One line a method: mean difference, and cells significantly worse or better.

    Args:
        found: As :func:`gaps` returns them; a method beside itself is left out.
        teachers: Whose cells are counted.
        sign: −1 where more is better.
    """
    head = "| method | cells | mean (95 % over cells) | sig. worse | sig. better | worst cell |"
    lines = [head, "|---|" + "---:|" * 5]
    for method, every in found.items():
        cells = of_teachers(every, teachers)
        if not cells or all(gap == (0, 0, 0) for gap in every.values()):
            continue
        counts = [len(worse(cells)), len(better(cells))][::sign]
        mean = mean_over(cells)
        worst = sign * max(sign * gap.mean for gap in cells.values())
        lines.append(
            f"| {method} | {len(cells)} | {mean} | {counts[0]} | {counts[1]} | {worst:+.3f} |"
        )
    return "\n".join(lines)


def mean_over(cells: Gaps) -> str:
    """The mean over cells with its 95 % interval, where there are two."""
    means = [gap.mean for gap in cells.values()]
    text = f"{sum(means) / len(means):+.3f}"
    if len(means) > 1:
        over = mean_interval(means)
        text += f" ({over.low:+.3f} to {over.high:+.3f})"
    return text


def only(records: Sequence[Record], *teachers: str) -> list[Record]:
    """Records of some teachers."""
    return [record for record in records if record["teacher"] in teachers]

"""What benchmarks/coverage says of the default interval, and of its peers."""

from collections.abc import Callable, Collection, Iterable
from typing import Any

from .limits import nearest_coverage, share_within_reach

DEFAULT = "score"
PEERS = ("Student t", "Wilson", "ppi-python", "glide-py")
TOLERANCE = 0.015  # how far from nominal coverage may be
ENOUGH_LABELS = 50  # from which on the default is held to it
TIE = 0.01  # widths that differ by less are level
RARE = 5  # expected number of wrong rows below which coverage can only move in jumps

Record = dict[str, Any]
Cells = dict[tuple[Any, ...], dict[str, Record]]


def by_cell(results: Iterable[Record]) -> Cells:
    """Records of one cell together, by the name of the interval."""
    cells: Cells = {}
    for r in results:
        key = (r["metric"], r["confidence"], r["population"], r["labels"])
        cells.setdefault(key, {})[r["interval"]] = r
    return cells


def verdict(results: list[Record], accuracy: dict[str, float]) -> list[str]:
    """In how many cells the default is near nominal, and narrower than the peers that cover."""
    cells = {k: c for k, c in by_cell(results).items() if k[3] >= ENOUGH_LABELS}
    off = [
        f"- {place(key)}: {off_by(cell, key[3], key[1], accuracy[key[2]])}"
        for key, cell in cells.items()
        if not near(cell[DEFAULT])
    ]
    counts, beaten = standing(cells, nearly_covers)
    strict, _ = standing(cells, covers)
    return [
        f"`{DEFAULT}` (the default), {len(cells)} cells with m ≥ {ENOUGH_LABELS}:",
        "",
        f"- within 1.5 points of nominal in {len(cells) - len(off)} ({peers_within(cells)});",
        *by_wrong_rows(cells, accuracy),
        f"  - farther off by more than two Monte-Carlo errors: in {surely_off(cells)};",
        f"- narrower than every peer that covers, to within 1.5 points, in {counts};",
        "- narrower than every peer whose coverage is not surely below nominal, by more than two "
        f"Monte-Carlo errors, in {strict}.",
        *(["", "Not within 1.5 points:", "", *off, "", *why(off)] if off else []),
        *(["", "A peer that covers is more than 1 % narrower:", "", *beaten] if beaten else []),
    ]


def standing(cells: Cells, counts: Callable[[Record], bool]) -> tuple[str, list[str]]:
    """In how many cells the default is narrower than the peers that count, and where it is not."""
    best, ties, beaten = 0, 0, []
    for key, cell in cells.items():
        ours = cell[DEFAULT]
        gaps = {
            name: ours["width"] / cell[name]["width"] - 1
            for name in PEERS
            if name in cell and counts(cell[name])
        }
        narrower = {name: gap for name, gap in gaps.items() if gap > TIE}
        ties += not narrower and any(gap > 0 for gap in gaps.values())
        best += all(gap <= 0 for gap in gaps.values())
        beaten += [
            f"- {place(key)}: {name} covers {100 * cell[name]['coverage']:.1f} and is "
            f"{100 * gap:.1f} % narrower; `{DEFAULT}` covers {100 * ours['coverage']:.1f}"
            + at_equal_coverage(ours, cell[name])
            for name, gap in narrower.items()
        ]
    wider = len(cells) - best - ties
    return f"{best}; level with one, to within 1 % of width, in {ties}; wider in {wider}", beaten


def nearly_covers(record: Record) -> bool:
    """Whether an interval's coverage is not below nominal by more than the tolerance."""
    return record["coverage"] >= record["confidence"] - TOLERANCE


def covers(record: Record) -> bool:
    """Whether an interval's coverage is not below nominal by more than chance explains."""
    return record["coverage"] >= record["confidence"] - 2 * record["coverage_error"]


def near(record: Record) -> bool:
    """Whether an interval covers to within the tolerance."""
    return abs(record["coverage"] - record["confidence"]) <= TOLERANCE


def surely_off(cells: Cells) -> int:
    """In how many cells the default's distance from nominal is past the tolerance beyond chance."""
    ours = [cell[DEFAULT] for cell in cells.values()]
    distances = [abs(r["coverage"] - r["confidence"]) - 2 * r["coverage_error"] for r in ours]
    return sum(distance > TOLERANCE for distance in distances)


def peers_within(cells: Cells) -> str:
    """The same count for the peers."""
    words = []
    for name in PEERS:
        found = [cell[name] for cell in cells.values() if name in cell]
        if found:
            words.append(f"{name} in {sum(map(near, found))} of {len(found)}")
    return ", ".join(words)


def by_wrong_rows(cells: Cells, accuracy: dict[str, float]) -> list[str]:
    """The count where wrong rows are few and where not, and what could be reached with few."""
    rare = {key for key in cells if key[3] * (1 - accuracy[key[2]]) < RARE}
    lines = [
        f"  - at least {RARE} wrong rows expected: in {within_of(cells, cells.keys() - rare)};",
    ]
    for confidence in sorted({key[1] for key in rare}):
        chosen = {key for key in rare if key[1] == confidence}
        reach = [
            share_within_reach(m, accuracy[population], confidence, TOLERANCE)
            for metric, _, population, m in chosen
            if metric == "accuracy"
        ]
        lines.append(
            f"  - fewer, nominal {100 * confidence:.0f} %: in {within_of(cells, chosen)}. An "
            "interval made of the number of right rows could be so near for "
            f"{100 * sum(reach) / len(reach):.0f} % of the accuracies around these, if it chose "
            "for each one apart;"
        )
    return lines


def within_of(cells: Cells, chosen: Collection[tuple[Any, ...]]) -> str:
    """How many of the chosen cells the default covers to within the tolerance."""
    return f"{sum(near(cells[key][DEFAULT]) for key in chosen)} of {len(chosen)}"


def place(key: tuple[Any, ...]) -> str:
    """A cell in words."""
    metric, confidence, population, m = key
    return f"{metric}, {100 * confidence:.0f} %, {population}, m = {m}"


def off_by(cell: dict[str, Record], m: int, confidence: float, accuracy: float) -> str:
    """Coverage with its error, on which side it misses, and what bounds it."""
    ours = cell[DEFAULT]
    words = (
        f"{100 * ours['coverage']:.1f} ± {100 * ours['coverage_error']:.1f}, the truth "
        f"{100 * ours['missed_above']:.1f} % below and {100 * ours['missed_below']:.1f} % above"
    )
    if "Wilson" in cell:
        reachable = nearest_coverage(m, accuracy, confidence)
        words += f"; Wilson {100 * cell['Wilson']['coverage']:.1f}"
        words += f", nearest to nominal by the count alone {100 * reachable:.1f}"
    wrong = m * (1 - accuracy)
    return words + (f"; {wrong:.1f} wrong rows expected" if wrong < RARE else "")


def why(off: list[str]) -> list[str]:
    """What the notes on misses mean."""
    rare = sum("wrong rows expected" in line for line in off)
    return [
        f"Fewer than {RARE} wrong rows are expected in {rare} of {len(off)}, where coverage moves "
        "in steps. An interval made of the number of right rows alone holds the truth for a "
        "run of counts; the coverage nearest to nominal among all runs is given. Where misses lie "
        "on one side only, the other bound hardly can miss: too many draws hold no wrong row, "
        "and all of them give nearly one bound. An interval of nominal 90 % with 5 % beyond either "
        "bound then covers 95 %.",
    ]


def at_equal_coverage(ours: Record, peer: Record) -> str:
    """How wide the peer is with the quantile that makes it cover as often as the default."""
    width = peer.get("width_at_default_coverage")
    if width is None:
        return (
            "; no quantile makes it cover as often, for draws without a wrong row give it no width"
        )
    gap = 100 * (width / ours["width"] - 1)
    words = "wider" if gap > 0 else "narrower"
    return f"; stretched to cover as often on these draws it is {abs(gap):.1f} % {words}"

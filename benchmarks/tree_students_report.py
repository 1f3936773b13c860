"""Tables of tree_students.py: paired differences with and without trees that learn."""

from collections.abc import Mapping, Sequence
from typing import Any

from machine import machine
from outside_teacher_gaps import (
    GOLD,
    Gap,
    Gaps,
    Record,
    better,
    cell_name,
    difference,
    mean_over,
    only,
    worse,
)

BEFORE, AFTER, WITHOUT = "networks learn", "trees learn too", "without answers"
LISTENING = ", with answers"
PAIRS = (
    (AFTER, BEFORE),
    (AFTER, WITHOUT),
    (BEFORE, WITHOUT),
    (AFTER, GOLD),
    (AFTER + LISTENING, BEFORE + LISTENING),
    (AFTER + LISTENING, GOLD),
)
HELPFUL, HARMFUL = "must help", "must do no harm"


def group_of(record: Record) -> str:
    """Whether a teacher must help or must do no harm."""
    return HELPFUL if record["teacher"].startswith(("biased", "region")) else HARMFUL


def summary(records: Sequence[Record], cost: Mapping[str, Any]) -> dict[str, Any]:
    """Differences of the cross-entropy in each cell, means of each set, what was kept, and time."""
    pairs = {
        f"{one} - {other}": {
            group: difference([r for r in records if group_of(r) == group], one, other)
            for group in (HELPFUL, HARMFUL)
        }
        for one, other in PAIRS
    }
    shuffled = only(records, "shuffled")
    return {
        "machine": machine(threads=1),
        "runs": len(records),
        "sets": _sets(records),
        "differences": pairs,
        "shuffled": {
            "runs": len(shuffled),
            "kept": {m: _share(shuffled, m) for m in (shuffled[0]["kept"] if shuffled else ())},
        },
        "cost": dict(cost),
    }


def _share(records: Sequence[Record], method: str) -> float:
    return round(sum(record["kept"][method] for record in records) / len(records), 4)


def _sets(records: Sequence[Record]) -> list[dict[str, Any]]:
    """Means over the draws of each set, number of gold labels and teacher."""
    cells: dict[str, list[Record]] = {}
    for record in records:
        cells.setdefault(cell_name(record), []).append(record)
    found = []
    for own in cells.values():
        means = {
            method: {
                measure: round(sum(r["scores"][method][measure] for r in own) / len(own), 5)
                for measure in ("cross_entropy", "accuracy")
            }
            for method in own[0]["scores"]
        }
        weight = round(sum(r["weight"] for r in own) / len(own), 4)
        key = {name: own[0][name] for name in ("data", "n_gold", "teacher")}
        found.append({**key, "draws": len(own), "weight": weight, "means": means})
    return found


def page(found: Mapping[str, Any]) -> str:
    """All tables as Markdown."""
    parts = [
        "# Trees that learn from a teacher's answers",
        f"{found['runs']} runs of `benchmarks/tree_students.py`, which says what was measured. "
        "Differences of the cross-entropy of test rows, paired; negative is better. A cell is a "
        "set, a number of gold labels and a teacher; *significantly* means that the 95 % interval "
        "over its draws excludes 0.",
        _pairs(found["differences"]),
        "## Teachers that must help",
        _means(found, HELPFUL),
        "## Teachers that must do no harm",
        _means(found, HARMFUL),
        "## Shuffled answers kept by the gate",
        _kept(found["shuffled"]),
        "## Time",
        _costs(found["cost"]),
    ]
    return "\n\n".join(parts) + "\n"


def _pairs(differences: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> str:
    lines = ["| teachers | compared | cells | mean (95 % over cells) | sig. worse | sig. better |"]
    lines.append("|---|---|" + "---:|" * 4)
    for group in (HELPFUL, HARMFUL):
        for pair, each in differences.items():
            cells: Gaps = {name: Gap(*gap) for name, gap in each[group].items()}
            if cells:
                counts = f"{len(worse(cells))} | {len(better(cells))}"
                title = pair.replace(" - ", " − ")
                lines.append(
                    f"| {group} | {title} | {len(cells)} | {mean_over(cells)} | {counts} |"
                )
    return "\n".join(lines)


def _means(found: Mapping[str, Any], group: str) -> str:
    methods = (GOLD, WITHOUT, BEFORE, AFTER)
    heads = [*methods, f"{AFTER} − {BEFORE}", "weight of the trees"]
    lines = [f"| set | gold labels | teacher | draws | {' | '.join(heads)} |"]
    lines.append("|---|---:|---|" + "---:|" * (len(heads) + 1))
    gaps = found["differences"][f"{AFTER} - {BEFORE}"][group]
    for one in found["sets"]:
        if group_of(one) != group:
            continue
        gap = gaps.get(cell_name(one))
        change = "" if gap is None else f"{gap[0]:+.3f} ({gap[1]:+.3f} to {gap[2]:+.3f})"
        means = " | ".join(f"{one['means'][m]['cross_entropy']:.3f}" for m in methods)
        key = f"| {one['data']} | {one['n_gold']} | {one['teacher']} | {one['draws']}"
        lines.append(f"{key} | {means} | {change} | {one['weight']:.2f} |")
    return "\n".join(lines)


def _kept(shuffled: Mapping[str, Any]) -> str:
    lines = [f"Of {shuffled['runs']} runs with shuffled answers:", ""]
    lines += ["| pool | share of runs that used the answers |", "|---|---:|"]
    return "\n".join([*lines, *(f"| {m} | {share:.1%} |" for m, share in shuffled["kept"].items())])


def _costs(cost: Mapping[str, Mapping[str, float]]) -> str:
    lines = [
        "Seconds of the processor, one thread, with 1,000 gold labels, 25 columns and 3 classes:",
        "",
        "| answers | networks learn | trees learn too | growth | saved trees, MB |",
        "|---:|---:|---:|---:|---:|",
    ]
    for n, one in cost.items():
        before, after = one["without_trees"], one["with_trees"]
        size = f"{one['megabytes']:.1f}"
        lines.append(
            f"| {int(n):,} | {before:.1f} | {after:.1f} | {after / before - 1:+.0%} | {size} |"
        )
    return "\n".join(lines)

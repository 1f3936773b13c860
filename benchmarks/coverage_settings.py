"""Over all populations of benchmarks/coverage.py: how often intervals cover, and how wide."""

from collections.abc import Iterable, Sequence
from statistics import fmean, geometric_mean
from typing import Any

Record = dict[str, Any]


def settings_table(results: Iterable[Record], default: str, peers: Sequence[str]) -> list[str]:
    """One row a metric, confidence and number of labels, one column an interval.

    An entry is the mean coverage over the populations, the one farthest from nominal, and the width
    beside the default's, as a geometric mean of ratios.
    """
    found: dict[tuple[Any, ...], dict[str, dict[str, Record]]] = {}
    for r in results:
        setting = found.setdefault((r["metric"], r["confidence"], r["labels"]), {})
        setting.setdefault(r["interval"], {})[r["population"]] = r
    names = [name for name in (default, *peers) if any(name in s for s in found.values())]
    head = ["metric", "nominal", "m", *(f"`{n}`" if n.islower() else n for n in names)]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for (metric, confidence, m), setting in sorted(found.items()):
        row = [metric, f"{100 * confidence:.0f} %", str(m)]
        row += [
            _entry(setting[name], setting[default]) if name in setting else "" for name in names
        ]
        lines.append("| " + " | ".join(row) + " |")
    return lines


def _entry(records: dict[str, Record], ours: dict[str, Record]) -> str:
    coverages = [100 * r["coverage"] for r in records.values()]
    nominal = 100 * next(iter(records.values()))["confidence"]
    farthest = max(coverages, key=lambda coverage: abs(coverage - nominal))
    ratios = [r["width"] / ours[population]["width"] for population, r in records.items()]
    words = f"{fmean(coverages):.1f} ({farthest:.1f})"
    return words if records is ours else f"{words} × {geometric_mean(ratios):.3f}"

"""Over all populations of benchmarks/coverage: how often intervals cover, and how wide."""

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
    rows = []
    for (metric, confidence, m), setting in sorted(found.items()):
        ours = setting[default]
        entries = [_entry(setting[name], ours) if name in setting else "" for name in names]
        rows.append([metric, f"{100 * confidence:.0f} %", str(m), *entries])
    return markdown_table(["metric", "nominal", "m"], names, rows)


def markdown_table(
    columns: Sequence[str], intervals: Iterable[str], rows: Iterable[Sequence[str]]
) -> list[str]:
    """The lines of a table whose last columns are intervals, those of functions set as code."""
    head = [*columns, *(f"`{name}`" if name.islower() else name for name in intervals)]
    lines = ["| " + " | ".join(row) + " |" for row in (head, *rows)]
    return [lines[0], "|" + "---|" * len(head), *lines[1:]]


def _entry(records: dict[str, Record], ours: dict[str, Record]) -> str:
    coverages = [100 * r["coverage"] for r in records.values()]
    nominal = 100 * next(iter(records.values()))["confidence"]
    farthest = max(coverages, key=lambda coverage: abs(coverage - nominal))
    ratios = [r["width"] / ours[population]["width"] for population, r in records.items()]
    words = f"{fmean(coverages):.1f} ({farthest:.1f})"
    return words if records is ours else f"{words} × {geometric_mean(ratios):.3f}"

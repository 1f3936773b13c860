"""Reliability diagrams: how often predictions of a confidence are right."""

import itertools
import math
from typing import NamedTuple

from dessl.report.averages import runs_of
from dessl.report.axis import Axis
from dessl.report.facts import RunFacts, RunResult
from dessl.report.figure import figure, section, series_styles, table
from dessl.report.html import Markup, named
from dessl.report.plot import Plot

FEW = 20  # predictions below which a bar is pale: their share says little


class Bin(NamedTuple):
    """Rows whose confidence lies between two edges, all runs together."""

    low: float
    high: float
    rows: int
    confidence: float
    accuracy: float


def reliability_section(facts: RunFacts) -> Markup | None:
    """One diagram for each method, over the predictions of all its runs."""
    found = {method.name: pooled(runs_of(facts, method.name)) for method in facts.methods}
    found = {name: bins for name, bins in found.items() if bins}
    if not found:
        return None
    styles = series_styles(facts)
    pictures = [_picture(name, bins, styles[name]) for name, bins in found.items()]
    caption = (
        "Bars: the share that was predicted right among predictions of a confidence; on the dotted "
        "diagonal, confidence is honest; below it the model is overconfident. Strips below: where "
        f"the predictions are; a pale bar has fewer than {FEW}."
    )
    numbers = table(
        ("method", "confidence", "predictions", "mean confidence", "right"),
        (
            (named(name), f"{b.low:.2f}–{b.high:.2f}", b.rows, f"{b.confidence:.1%}",
             f"{b.accuracy:.1%}")
            for name, bins in found.items()
            for b in bins
        ),
        label="Reliability of each method",
    )  # fmt: skip
    return section("Calibration", figure(caption, *pictures, key={}, numbers=numbers))


def pooled(runs: list[RunResult]) -> list[Bin]:
    """The bins of all runs together, those without rows left out; nothing where edges differ."""
    diagrams = [run.metrics["reliability"] for run in runs if run.metrics.get("reliability")]
    if not diagrams or any(diagram["edges"] != diagrams[0]["edges"] for diagram in diagrams):
        return []
    edges, bins = diagrams[0]["edges"], []
    for number, (low, high) in enumerate(itertools.pairwise(edges)):
        parts = [
            (d["rows"][number], d["confidence"][number], d["accuracy"][number]) for d in diagrams
        ]
        filled = [part for part in parts if part[0]]
        rows = sum(part[0] for part in filled)
        if rows:
            confidence, accuracy = (
                math.fsum(part[0] * part[column] for part in filled) / rows for column in (1, 2)
            )
            bins.append(Bin(low, high, int(rows), confidence, accuracy))
    return bins


def _picture(name: str, bins: list[Bin], style: str) -> Markup:
    ends = Axis(0, 1, tuple((tenth / 5, f"{20 * tenth}") for tenth in range(6)))
    up = Axis(-0.12, 1, ends.ticks)
    plot = Plot(ends, up, "confidence, %", "predicted right, %", height=300)
    most = max(b.rows for b in bins)
    bars = [
        plot.box((b.low, 0), (b.high, b.accuracy), f"bar {style}{' few' if b.rows < FEW else ''}")
        for b in bins
    ]
    strips = [
        plot.box((b.low, -0.12), (b.high, -0.12 + 0.1 * b.rows / most), "strip") for b in bins
    ]
    diagonal = plot.line([(0, 0), (1, 1)], "ideal")
    dots = plot.dots([(b.confidence, b.accuracy) for b in bins], style)
    total = sum(b.rows for b in bins)
    over = math.fsum(b.rows * (b.confidence - b.accuracy) for b in bins) / total
    described = (
        f"{total:,} predictions; mean confidence is {abs(over):.1%} "
        f"{'above' if over > 0 else 'below'} the share that is right."
    )
    label = plot.label(name, style)
    return plot.svg(f"Reliability of {name}", described, *bars, *strips, diagonal, dots, label)

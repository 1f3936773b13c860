"""Reliability diagrams: how often predictions of a given confidence are right."""

import itertools
import math
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from dessl.report.chart import INK, SOFT, Chart, Look, filling
from dessl.report.html import Markup, figure, named, section, table
from dessl.report.scores import looks
from dessl.results.facts import RunFacts
from dessl.results.record import Record

FEW = 20  # bars with fewer predictions are pale


class Bin(NamedTuple):
    """Rows whose confidence lies between two edges, over all runs."""

    low: float
    high: float
    rows: int
    confidence: float
    accuracy: float


def calibration_section(facts: RunFacts) -> Markup | None:
    """One diagram for each method, over the predictions of all its runs."""
    found = {method.name: pooled(facts.runs_of(method.name)) for method in facts.methods}
    found = {name: bins for name, bins in found.items() if bins}
    if not found:
        return None
    styles = looks(facts)
    draws = [partial(_diagram, name, bins, styles[name]) for name, bins in found.items()]
    caption = (
        "Bars: the share of correct predictions at each confidence. On the dotted diagonal, "
        "confidence matches accuracy; below it, the model is overconfident. Strips at the bottom: "
        f"the number of predictions; pale bars have fewer than {FEW}."
    )
    rows = (
        (named(name), f"{b.low:.2f}–{b.high:.2f}", b.rows, f"{b.confidence:.1%}",
         f"{b.accuracy:.1%}")
        for name, bins in found.items()
        for b in bins
    )  # fmt: skip
    headings = ("method", "confidence", "predictions", "mean confidence", "correct")
    numbers = table(headings, rows, label="Reliability of each method")
    return section("Calibration", figure(caption, *filling(draws), numbers=numbers))


def pooled(runs: Sequence[Record]) -> list[Bin]:
    """The bins of all runs together, without empty ones; none if the runs' edges differ."""
    diagrams = [run.metrics["reliability"] for run in runs if run.metrics.get("reliability")]
    if not diagrams or any(diagram["edges"] != diagrams[0]["edges"] for diagram in diagrams):
        return []
    bins = []
    for number, (low, high) in enumerate(itertools.pairwise(diagrams[0]["edges"])):
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


def _diagram(name: str, bins: list[Bin], look: Look, width: int) -> Markup:
    total = sum(b.rows for b in bins)
    over = math.fsum(b.rows * (b.confidence - b.accuracy) for b in bins) / total
    described = (
        f"{total:,} predictions; mean confidence is {abs(over):.1%} "
        f"{'above' if over > 0 else 'below'} the share of correct predictions."
    )
    lefts, widths = [100 * b.low for b in bins], [100 * (b.high - b.low) for b in bins]
    shades = [(look.colour, 0.25 if b.rows < FEW else 0.75) for b in bins]
    most = max(b.rows for b in bins)
    strips = [10 * b.rows / most for b in bins]
    places = [(100 * b.confidence, 100 * b.accuracy) for b in bins]
    chart = Chart.of("confidence, %", "correct, %", width=width, height=300)
    axes = chart.axes
    axes.bar(lefts, [100 * b.accuracy for b in bins], widths, align="edge", color=shades)
    axes.bar(lefts, strips, widths, bottom=-12, align="edge", color=(SOFT, 0.5))
    axes.plot([0, 100], [0, 100], color=INK, linewidth=1, linestyle=(0, (2, 3)))
    axes.plot(*zip(*places, strict=True), "o", color=look.colour, markersize=6)
    axes.set(xlim=(0, 100), ylim=(-12, 100), yticks=range(0, 101, 20))
    chart.label(name, look.colour)
    return chart.svg(f"Reliability of {name}", described)

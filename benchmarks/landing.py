"""Draw the figure of the first page: harm avoided and gain made, from committed results.

python benchmarks/landing.py

Left, the toy example of ``results/toy``: what usual and debiased SSL learn about a known posterior.
Right, the confirmation sets of ``benchmarks/results/gains.json``: accuracy of ``dessl fit`` minus
that of its networks alone, paired over ten draws, with 95 % t-intervals.
"""

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

from dessl.evaluation.statistics import paired_t_test
from dessl.report.chart import IN_PAGE, INK, SERIES, SETTINGS, SOFT, Chart, drawing
from dessl.report.html import Markup, element
from gains_sets import CONFIRM

ROOT = Path(__file__).parent.parent
TARGET = ROOT / "docs" / "images" / "landing.svg"
TOY = {"complete_case-lam0": SERIES[0], "pseudo_label-lam1": SERIES[1],
       "de_pseudo_label-lam1": SERIES[2]}  # fmt: skip
WIDTH, HEIGHT, TOP, GAP = 400, 290, 68, 24
# The page's colours, so that the figure follows dark mode.
STYLE = """
svg { --paper: #ffffff; --ink: #1c2329; --soft: #5a6670; --rule: #d5dbe0; --s0: #5f6b75;
  --s1: #b5500f; --s2: #1f64ad; }
@media (prefers-color-scheme: dark) { svg { --paper: #14181c; --ink: #e4e8eb; --soft: #a3aeb7;
  --rule: #353d45; --s0: #a9b4bd; --s1: #f0975a; --s2: #6fb1f2; } }
text { font: 11px system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif;
  fill: var(--soft); }
.title { font-size: 16px; font-weight: 700; fill: var(--ink); }
.note { font-size: 12px; }
"""


class Pair(NamedTuple):
    """A table and a number of labels: the difference in accuracy in points, with its interval."""

    name: str
    difference: float
    low: float
    high: float


def pairs() -> list[Pair]:
    """Every confirmation set and number of labels, the largest difference first."""
    path = ROOT / "benchmarks" / "results" / "gains.json"
    cells: dict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
    for cell in json.loads(path.read_text(encoding="utf-8")):
        if cell["set"] in CONFIRM:
            cells[cell["set"], cell["labelled"]].append(cell["methods"])
    found = []
    for (name, labels), runs in cells.items():
        ours, alone = (
            [100 * run[method]["accuracy"] for run in runs] for method in ("dessl", "complete case")
        )
        test = paired_t_test(ours, alone)
        found.append(Pair(f"{name}, {labels} labels", test.difference, test.low, test.high))
    return sorted(found, key=lambda pair: -pair.difference)


def counted(found: list[Pair]) -> str:
    """How many pairs are significantly better, significantly worse, and neither.

    >>> counted([Pair("a", 1, 0.5, 2), Pair("b", 1, -0.5, 2), Pair("c", -1, -2, -0.1)])
    '1 of 3 significantly better, 1 worse, 1 inconclusive'
    """
    better, worse = sum(one.low > 0 for one in found), sum(one.high < 0 for one in found)
    rest = len(found) - better - worse
    return f"{better} of {len(found)} significantly better, {worse} worse, {rest} inconclusive"


def posteriors() -> dict[str, Any]:
    """The records of the toy example's first split, by method and λ."""
    folder = ROOT / "results" / "toy" / "runs"
    return {
        name: json.loads((folder / f"toy-25000-{name}-seed0.json").read_text(encoding="utf-8"))
        for name in TOY
    }


def harm(found: dict[str, Any]) -> Markup:
    """The toy example's curves up to x = 5, beyond which all are 1."""
    chart = Chart.of("x", "learnt probability of class 1", width=WIDTH, height=HEIGHT)
    chart.axes.axvspan(1, 3, color=SOFT, alpha=0.12, linewidth=0)
    for name, record in found.items():
        arrays = record["arrays"]
        n = sum(x <= 5 for x in arrays["grid"])
        look = TOY[name]
        chart.axes.plot(arrays["grid"][:n], arrays["posterior"][:n], color=look.colour,
                        linestyle=look.line)  # fmt: skip
    dotted = {"color": INK, "linewidth": 1, "linestyle": (0, (2, 3))}
    chart.axes.plot(arrays["grid"][:n], arrays["truth"][:n], **dotted)
    chart.axes.set(xlim=(0, 5), ylim=(-0.02, 1.02))
    for text, y, colour in (("debiased SSL", 0.33, SERIES[2]), ("standard SSL", 0.06, SERIES[1])):
        chart.axes.text(2.05, y, text, color=colour.colour, weight="bold", ha="center")
    chart.axes.text(3.1, 0.2, "dotted: the truth, 0.25", color=INK)
    means = {name: record["metrics"]["overlap_posterior"] for name, record in found.items()}
    described = "; ".join(f"{name}: {mean:.3f}" for name, mean in means.items())
    return chart.svg("Harm avoided", f"True probability 0.25 where classes overlap. {described}")


def gain(found: list[Pair]) -> Markup:
    """A line for each pair, from the largest difference to the smallest."""
    below = f"{len(found)} combinations of table and number of labels"
    chart = Chart.of(below, "accuracy, points gained", width=WIDTH, height=HEIGHT)
    for place, one in enumerate(found):
        look = SERIES[2] if one.low > 0 else SERIES[1] if one.high < 0 else SERIES[0]
        chart.axes.plot([place] * 2, [one.low, one.high], color=look.colour, linewidth=1.5)
        chart.axes.plot([place], [one.difference], "o", color=look.colour, markersize=4)
    chart.axes.axhline(0, color=INK, linewidth=1, linestyle=(0, (2, 3)))
    chart.axes.set(xlim=(-1, len(found)), xticks=[])
    return chart.svg("Gain made", counted(found))


def picture() -> str:
    """Both charts in one SVG file."""
    found, toy = pairs(), posteriors()
    usual, debiased = (
        toy[name]["metrics"]["overlap_posterior"]
        for name in ("pseudo_label-lam1", "de_pseudo_label-lam1")
    )
    with drawing(SETTINGS | IN_PAGE):
        charts = (harm(toy), gain(found))
    texts = (
        ("Harm avoided", "Where two classes overlap, the truth is 0.25.",
         f"Standard SSL learns {usual:.3f}, debiased SSL {debiased:.3f}."),
        ("Gain made", "dessl fit against its networks trained on the labels alone:",
         f"{counted(found)}."),
    )  # fmt: skip
    width, height = 2 * WIDTH + GAP, HEIGHT + TOP
    parts = [element("rect", width="100%", height="100%", style="fill:var(--paper)")]
    for number, (chart, (title, *notes)) in enumerate(zip(charts, texts, strict=True)):
        x = number * (WIDTH + GAP)
        parts.append(element("text", title, x=x + 4, y=20, class_="title"))
        for line, note in enumerate(notes):
            parts.append(element("text", note, x=x + 4, y=40 + 16 * line, class_="note"))
        placed = f'<svg x="{x}" y="{TOP}" width="{WIDTH}" height="{HEIGHT}" '
        parts.append(Markup(chart.replace("<svg ", placed, 1)))
    return (
        element(
            "svg",
            element("style", Markup(STYLE)),
            parts,
            xmlns="http://www.w3.org/2000/svg",
            viewBox=f"0 0 {width} {height}",
            width=width,
        )
        + "\n"
    )


if __name__ == "__main__":
    TARGET.write_text(picture(), encoding="utf-8")
    sys.stdout.write(f"{TARGET}\n")

"""The figure of the toy example: the data, the posteriors that methods learn, their training."""

from typing import TYPE_CHECKING, Any

from dessl.results.record import Record
from dessl_paper.report.figures.style import (
    drawing,
    headline,
    pictures,
    shown_titles,
    styles,
)
from dessl_paper.report.paper import printed
from dessl_paper.report.results import Block, Results
from dessl_paper.report.tables.toy import METRIC, TRUTH
from dessl_paper.report.titles import title
from dessl_paper.report.wording import lambda_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

OVERLAP = (1.2, 2.8)  # where the mean posterior is taken


def toy_figure(results: Results, block: Block) -> dict[str, bytes] | None:
    """Histogram, then for each pair of methods its posterior and its training curve: one split.

    None where no method came to an end.
    """
    from matplotlib.figure import Figure

    first = {name: runs[0] for name in results.methods if (runs := results.runs(block, name))}
    if not first:
        return None
    pairs = [pair for pair in results.twins() if set(pair) <= set(first)]
    with drawing():
        columns = 1 + len(pairs)
        figure = Figure(figsize=(4.0 * columns, 6.6), layout="constrained")
        axes = figure.subplots(2, columns, squeeze=False, width_ratios=[1, *[1.2] * len(pairs)])
        one = next(iter(first.values()))
        _histogram(axes[0, 0], one)
        _means(axes[1, 0], results, block)
        for column, (usual, debiased) in enumerate(pairs, start=1):
            names = [name for name in ("complete_case", usual, debiased) if name in first]
            _posteriors(axes[0, column], results, {name: first[name] for name in names})
            _training(axes[1, column], results, {name: first[name] for name in names})
        headline(figure, f"{title(results)}: {block.labels:,} labelled points")
        return pictures(figure)


def _histogram(axes: "Axes", record: Record) -> None:
    edges = record.arrays["histogram_edges"]
    below = record.arrays["histogram_class0"]
    axes.stairs(below, edges, fill=True, color="#7f9fc6", label="class 0")
    both = [a + b for a, b in zip(below, record.arrays["histogram_class1"], strict=True)]
    axes.stairs(both, edges, baseline=below, fill=True, color="#e6b48f", label="class 1")
    axes.set(title="labelled data", xlabel="x", ylabel="points")
    axes.legend(loc="upper right")


def _means(axes: "Axes", results: Results, block: Block) -> None:
    """Each method's mean on the overlap, a dot a split, beside the truth and the paper's."""
    looks = styles(results)
    for place, name in enumerate(results.methods):
        values = [record.metrics[METRIC] for record in results.runs(block, name)]
        axes.plot(values, [place] * len(values), linestyle="none", marker=looks[name].marker,
                  color=looks[name].colour, markersize=6)  # fmt: skip
        paper = printed(results, block, name, METRIC).mean
        axes.plot([paper], [place + 0.3], linestyle="none", marker=looks[name].marker,
                  color=looks[name].colour, markerfacecolor="none", markersize=5)  # fmt: skip
    axes.axvline(TRUTH, color="black", linewidth=1, linestyle=":")
    axes.set_yticks(range(len(results.methods)), list(shown_titles(results).values()))
    axes.invert_yaxis()
    axes.set(xlabel="mean p(1|x) on [1.2, 2.8] (open: paper, dotted: truth)")


def _look(results: Results, name: str) -> dict[str, Any]:
    """The complete case is dashed and on top, so that a curve under it can be seen."""
    look = styles(results)[name]
    thin = name == "complete_case"
    return {"color": look.colour, "linestyle": look.line, "linewidth": 1.3 if thin else 2.0,
            "zorder": 3 if thin else 2, "label": shown_titles(results)[name]}  # fmt: skip


def _posteriors(axes: "Axes", results: Results, records: dict[str, Record]) -> None:
    truth = next(iter(records.values())).arrays
    axes.axvspan(*OVERLAP, color="#f0f0f0", zorder=0)
    axes.plot(
        truth["grid"], truth["truth"], color="black", linewidth=1, linestyle=":", label="truth"
    )
    for name, record in records.items():
        axes.plot(record.arrays["grid"], record.arrays["posterior"], **_look(results, name))
    lams = {record.lam for name, record in records.items() if name != "complete_case"}
    axes.set(title=f"λ = {lambda_text(max(lams))}", xlabel="x", ylabel="p(1|x)",
             xlim=(0, 10), ylim=(-0.02, 1.02))  # fmt: skip
    axes.legend(loc="lower right")


def _training(axes: "Axes", results: Results, records: dict[str, Record]) -> None:
    for name, record in records.items():
        steps, values = record.arrays["steps"], record.arrays["training_cross_entropy"]
        axes.plot(steps, values, **_look(results, name))
    axes.set(xlabel="step after the warm start", ylabel="cross-entropy on labelled data")

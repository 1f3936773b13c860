"""Learning curves: what was watched during the runs, method by method, over steps."""

import math
from collections import defaultdict
from typing import TYPE_CHECKING

from dessl.experiments.record import Record
from dessl.report.reproduction.averages import number
from dessl.report.reproduction.figures.scale import axis_name, scale
from dessl.report.reproduction.figures.style import drawing, pictures, styles
from dessl.report.reproduction.paper import printed
from dessl.report.reproduction.results import Block, Results
from dessl.report.reproduction.titles import data_title, title

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def learning_figure(results: Results, block: Block) -> dict[str, bytes] | None:
    """A panel for each metric that was watched; None where none was, twice at least."""
    from matplotlib.figure import Figure

    watched = [metric for metric in results.metrics if _curves(results, block, metric)]
    if not watched:
        return None
    part = "test" if results.experiment.get("curve") == "test" else "validation"
    with drawing():
        figure = Figure(figsize=(4.2 * len(watched), 4.2), layout="constrained")
        panels = figure.subplots(1, len(watched), squeeze=False)[0]
        for axes, metric in zip(panels, watched, strict=True):
            _panel(axes, results, block, metric)
        handles, names = panels[0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside lower center", ncols=len(names))
        figure.suptitle(
            f"{title(results)}\n{data_title(results, block)}: {part} rows over the runs"
        )
        return pictures(figure)


def mean_curve(records: list[Record], metric: str) -> dict[int, float]:
    """The mean over splits at each step that every split came to.

    Args:
        records: Of one method.
        metric: Name.
    """
    found: defaultdict[int, list[float]] = defaultdict(list)
    for record in records:
        for event in record.history:
            found[int(event["step"])].append(number((event.get("validation") or {}).get(metric)))
    means = {
        step: sum(values) / len(values)
        for step, values in sorted(found.items())
        if len(values) == len(records)
    }
    return {step: value for step, value in means.items() if math.isfinite(value)}


def _curves(results: Results, block: Block, metric: str) -> dict[str, dict[int, float]]:
    found = {
        name: mean_curve(runs, metric)
        for name in results.methods
        if (runs := results.runs(block, name))
    }
    return {name: curve for name, curve in found.items() if len(curve) > 1}


def _panel(axes: "Axes", results: Results, block: Block, metric: str) -> None:
    looks, times = styles(results), scale(metric)
    curves = _curves(results, block, metric)
    for name, curve in curves.items():
        values = [times * value for value in curve.values()]
        look = looks[name]
        axes.plot(list(curve), values, color=look.colour, linestyle=look.line, linewidth=1.6,
                  label=results.methods[name])  # fmt: skip
        given = printed(results, block, name, metric, results.lams(name)[0])
        if not math.isnan(given.mean):
            axes.axhline(times * given.mean, color=look.colour, linewidth=0.9, linestyle=":")
    _shown_range(axes, [v * times for curve in curves.values() for v in curve.values()], metric)
    axes.set(xlabel="step (dotted: the paper's final)", ylabel=axis_name(metric))


def _shown_range(axes: "Axes", values: list[float], metric: str) -> None:
    """Leave the steep beginning out of sight, so that the end can be read."""
    ordered = sorted(values)
    if len(ordered) < 20:
        return
    low, high = axes.get_ylim()
    if scale(metric) > 1:
        axes.set_ylim(max(low, ordered[len(ordered) // 10]), high)
    else:
        axes.set_ylim(low, min(high, ordered[-len(ordered) // 10]))

"""The toy example's figure, table and facts."""

import io
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from dessl.experiments.toy import ToyResult
from dessl.experiments.machine import machine_facts

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TRUTH = 0.25  # p(1|x) on [1, 3]

# Read off figure 1 and appendix A of the paper, x in [1.2, 2.8].
PAPER = {
    "complete case": 0.24,
    "PseudoLabel": 0.12,
    "DePseudoLabel": 0.26,
    "EntMin": 0.09,
    "DeEntMin": 0.23,
}
COLOURS = {
    "complete case": "#555555",
    "PseudoLabel": "#d1495b",
    "DePseudoLabel": "#00798c",
    "EntMin": "#edae49",
    "DeEntMin": "#30638e",
}
PANELS = {
    "PseudoLabel": ("complete case", "PseudoLabel", "DePseudoLabel"),
    "entropy minimisation": ("complete case", "EntMin", "DeEntMin"),
}


def toy_table(result: ToyResult) -> list[tuple[str, float, float, float]]:
    """Return, for each method, its mean posterior on [1.2, 2.8], the paper's, and ours − truth."""
    return [
        (name, run.overlap_posterior, PAPER[name], run.overlap_posterior - TRUTH)
        for name, run in result.runs.items()
    ]


def toy_facts(result: ToyResult, seconds: float) -> dict[str, Any]:
    """Return everything that the figure shows, ready for JSON."""
    return {
        "experiment": "toy",
        "plan": asdict(result.plan),
        "made_with": machine_facts(),
        "seconds": round(seconds, 2),
        "truth_on_overlap": TRUTH,
        "methods": {
            name: {
                "overlap_posterior": run.overlap_posterior,
                "overlap_posterior_paper": PAPER[name],
                "training_cross_entropy": run.training_cross_entropy,
                "posterior": [round(value, 5) for value in run.posterior.tolist()],
            }
            for name, run in result.runs.items()
        },
        "grid": [round(value, 5) for value in result.grid.tolist()],
    }


def toy_figure(result: ToyResult) -> bytes:
    """Return the figure as a PNG: histogram, posterior curves, training curves."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 7.2), layout="constrained")
    axes = figure.subplots(2, 3, width_ratios=[1, 1.25, 1.25])
    _histogram(axes[0, 0], result)
    _legend_panel(axes[1, 0], result)
    for column, (title, names) in enumerate(PANELS.items(), start=1):
        _posteriors(axes[0, column], result, names, title)
        _training_curves(axes[1, column], result, names)
    figure.suptitle(
        f"Two uniform laws, {result.data.n_labelled:,} labelled and {result.data.n_unlabelled:,} "
        "unlabelled points: SSL is biased where the classes overlap, debiased SSL is not"
    )
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=120)
    return buffer.getvalue()


def _histogram(axes: "Axes", result: ToyResult) -> None:
    rows = result.data.labelled_rows
    x, y = result.data.x[rows, 0].numpy(), result.data.y[rows].numpy()
    axes.hist([x[y == 0], x[y == 1]], bins=50, range=(0, 10), stacked=True, label=["0", "1"],
              color=["#3b6fb6", "#e07b39"])  # fmt: skip
    axes.set(title="labelled data", xlabel="x", ylabel="points")
    axes.legend(title="class")


def _legend_panel(axes: "Axes", result: ToyResult) -> None:
    """The numbers behind the curves, as a small table."""
    axes.axis("off")
    rows = [(name, f"{ours:.3f}", f"{paper:.2f}") for name, ours, paper, _ in toy_table(result)]
    table = axes.table(
        cellText=[*rows, ("truth", f"{TRUTH:.3f}", "0.25")],
        colLabels=["mean p(1|x)\non [1.2, 2.8]", "ours", "paper"],
        colWidths=[0.5, 0.25, 0.25],
        cellLoc="center",
        loc="center",
    )
    table.auto_set_font_size(False)
    table.set_fontsize(9)
    table.scale(1, 1.7)


def _line(name: str) -> dict[str, Any]:
    """The complete case is dashed and on top, so that a curve under it can be seen."""
    return {"ls": "--", "zorder": 3} if name == "complete case" else {"lw": 2}


def _posteriors(axes: "Axes", result: ToyResult, names: tuple[str, ...], title: str) -> None:
    grid = result.grid.numpy()
    axes.plot(grid, result.truth.numpy(), color="black", lw=1, ls=":", label="truth")
    for name in names:
        posterior = result.runs[name].posterior.numpy()
        axes.plot(grid, posterior, color=COLOURS[name], label=name, **_line(name))
    axes.set(title=title, xlabel="x", ylabel="p(1|x)", xlim=(0, 10), ylim=(-0.02, 1.02))
    axes.legend(loc="lower right")


def _training_curves(axes: "Axes", result: ToyResult, names: tuple[str, ...]) -> None:
    for name in names:
        losses = result.runs[name].training_cross_entropy
        values = list(losses.values())
        axes.plot(list(losses), values, color=COLOURS[name], label=name, **_line(name))
    axes.set(xlabel="step after the warm start", ylabel="cross-entropy on labelled data")

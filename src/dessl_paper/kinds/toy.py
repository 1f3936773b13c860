"""The toy example: what each method learns about two uniform distributions.

The paper's figure 1 and appendix A; :mod:`dessl_paper.toy_training` has the training.
"""

import time
from collections.abc import Iterator
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from dessl._entries import EntryError, check_call, check_name, read_as
from dessl.data import SemiData
from dessl.evaluation.metrics.vocabulary import NONE
from dessl.report.chart import COLOURS, INK, SOFT, pictures
from dessl.report.tables import Table
from dessl.results.averages import average, values_of
from dessl.results.record import Record
from dessl.risk import COMPLETE_CASE, RISKS
from dessl.training.progress import progress_bar
from dessl.training.threads import one_thread
from dessl_paper.comparison import Comparison
from dessl_paper.figures import Pictures, drawing, headline, numbered, shown_titles, styles
from dessl_paper.findings import Finding, Level, gap, level
from dessl_paper.made_with import Repeats
from dessl_paper.results import Block, Results
from dessl_paper.specification import Cell, Experiment, cells_of, check_metrics
from dessl_paper.targets import printed
from dessl_paper.toy_training import TERMS, ToyPlan, ToyRun, ToyStart, trained_toy, warm_start
from dessl_paper.training import identity, machine_and_commit
from dessl_paper.wording import beside_paper, data_title, heading, lambda_text, title, written

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PUBLIC_DATA = False
REPEATS: Repeats = "splits"

METRIC, LOSS = "overlap_posterior", "training_cross_entropy"
TRUTH = 0.25  # p(1|x) on [1, 3]
OVERLAP = (1.2, 2.8)  # where the mean posterior is taken
READ_OFF = 0.03  # the paper's numbers are read off a figure, no better than this
DIGITS = 5  # of the curves in a record
BINS = 50
GIVEN = ("n_labelled", "lam", "seed")  # settings that come from the cell


def run_cells(
    experiment: Experiment,
    cells: list[Cell],
    left: set[str],
    data: SemiData | None,  # noqa: ARG001 (its points are drawn, not read)
    folder: Path,  # noqa: ARG001 (runs are too short for checkpoints)
    *,
    progress: bool,
) -> Iterator[Record]:
    """Train some cells, on the CPU."""
    for cell in cells:
        if cell.key in left:
            with one_thread():
                record = toy_record(experiment, cell, progress=progress)
            yield record


def check(experiment: Experiment, source: str) -> None:
    """Reject settings and parts that the toy example does not have."""
    check_metrics(experiment, (METRIC, LOSS), source)
    check_call(ToyPlan, experiment.settings, given=GIVEN, source=source, at="settings")
    for name in ("model", "views", "plan"):
        if getattr(experiment, name):
            raise EntryError(f"{source}: {name} must be empty: the toy example has its own")
    for method in experiment.methods:
        if RISKS[method.risk].unlabelled:
            at = f"methods.{method.name}.surrogate"
            check_call(_term, method.surrogate, source=source, at=at)
            check_name(method.surrogate["name"], TERMS, source=source, at=f"{at}.name")
    try:
        toy_plan(experiment, cells_of(experiment)[0])
    except (TypeError, ValueError) as error:  # types are right: a number is out of range
        raise EntryError(f"{source}: settings: {error}") from error


def _term(name: str) -> str:
    """The one setting of a toy example's unlabelled term."""
    return name


def toy_plan(experiment: Experiment, cell: Cell) -> ToyPlan:
    """How a cell is trained: the experiment's settings with the cell's labels, λ and seed."""
    own = {"n_labelled": cell.data.labels, "lam": cell.lam, "seed": cell.seed}
    return read_as(ToyPlan, {**experiment.settings, **own}, at="settings")


# All methods of a split continue from the same warm start; those of a few splits are cached.
_start = lru_cache(maxsize=8)(warm_start)


def toy_record(experiment: Experiment, cell: Cell, *, progress: bool = False) -> Record:
    """Train one method of the toy example, on the CPU, and return its record."""
    plan = toy_plan(experiment, cell)
    began = time.perf_counter()
    start = _start(plan)
    term = str(cell.method.surrogate.get("name", ""))
    with progress_bar(plan.steps, 0, shown=progress) as bar:
        run = trained_toy(start, cell.method.risk, term, progress=bar.advance)
    return Record(
        **identity(experiment, cell),
        data="toy",
        labels=plan.n_labelled,
        settings={"toy": asdict(plan), "surrogate": term},
        metrics={
            METRIC: run.overlap_posterior,
            LOSS: run.training_cross_entropy[plan.steps],
        },
        arrays=_arrays(start, run),
        training={
            "diverged": None,
            "seconds": round(time.perf_counter() - began, 3),
            "runs_at_once": 1,
            "steps": plan.steps,
        },
        made_with=machine_and_commit(torch.device("cpu")),
    )


def _arrays(start: ToyStart, run: ToyRun) -> dict[str, Any]:
    rows = start.data.labelled_rows
    x, y = start.data.x[rows, 0].double(), start.data.y[rows]
    counts = {
        f"histogram_class{k}": torch.histc(x[y == k], BINS, 0, 10).long().tolist() for k in (0, 1)
    }
    return {
        "grid": _rounded(run.grid),
        "truth": _rounded(run.truth),
        "posterior": _rounded(run.posterior),
        "steps": list(run.training_cross_entropy),
        "training_cross_entropy": _rounded(torch.tensor([*run.training_cross_entropy.values()])),
        "histogram_edges": _rounded(torch.linspace(0, 10, BINS + 1)),
        **counts,
    }


def _rounded(values: Tensor) -> list[float]:
    return [round(value, DIGITS) for value in values.double().tolist()]


def tables(results: Results) -> list[Table]:
    """One table per data set: mean posterior, its distance to the truth, and training loss."""
    return [_table(results, block) for block in results.blocks]


def _table(results: Results, block: Block) -> Table:
    others = [metric for metric in results.metrics if metric != METRIC]
    columns = [heading(METRIC), "off the truth by", "paper's", "off the paper's by"]
    for metric in others:
        columns += [heading(metric), "paper's", "off by"]
    truth = written(METRIC, TRUTH)
    rows = [("truth", truth, NONE, truth, NONE, *[NONE] * (3 * len(others)))]
    for method, name in results.methods.items():
        cells: list[str] = []
        for metric in (METRIC, *others):
            ours = average(values_of(results.runs(block, method), metric))
            given = printed(results, block, method, metric)
            mine, theirs, off = beside_paper(metric, ours, given)
            cells.append(mine)
            if metric == METRIC:
                cells.append(written(metric, ours.mean - TRUTH, signed=True))
            cells += [theirs, off]
        rows.append((name, *cells))
    caption = f"{data_title(results, block)}: every method"
    return Table(caption, ("method", *columns), tuple(rows)).without_empty_columns()


def comparisons(results: Results, block: Block) -> list[Comparison]:  # noqa: ARG001 (one split)
    """None: the paper's claims are about distances to the truth."""
    return []


def figures(results: Results) -> dict[str, Pictures]:
    """One figure for each number of labels."""
    names = numbered("figure", [str(block.labels) for block in results.blocks])
    found = {
        name: toy_figure(results, block) for name, block in zip(names, results.blocks, strict=True)
    }
    return {name: pictures for name, pictures in found.items() if pictures}


def toy_figure(results: Results, block: Block) -> Pictures | None:
    """Histogram, then for each pair of methods its posterior and its training curve: one split.

    None if every run diverged.
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
            names = [name for name in (COMPLETE_CASE, usual, debiased) if name in first]
            _posteriors(axes[0, column], results, {name: first[name] for name in names})
            _training(axes[1, column], results, {name: first[name] for name in names})
        headline(figure, f"{title(results)}: {block.labels:,} labelled points")
        return pictures(figure)


def _histogram(axes: "Axes", record: Record) -> None:
    edges = record.arrays["histogram_edges"]
    below = record.arrays["histogram_class0"]
    axes.stairs(below, edges, fill=True, color=COLOURS["s2"], alpha=0.5, label="class 0")
    both = [a + b for a, b in zip(below, record.arrays["histogram_class1"], strict=True)]
    axes.stairs(
        both, edges, baseline=below, fill=True, color=COLOURS["s1"], alpha=0.5, label="class 1"
    )
    axes.set(title="labelled data", xlabel="x", ylabel="points")
    axes.legend(loc="upper right")


def _means(axes: "Axes", results: Results, block: Block) -> None:
    """Each method's mean on the overlap, one dot per split, with the truth and the paper's."""
    looks = styles(results)
    for place, name in enumerate(results.methods):
        values = [record.metrics[METRIC] for record in results.runs(block, name)]
        axes.plot(values, [place] * len(values), linestyle="none", marker=looks[name].marker,
                  color=looks[name].colour, markersize=6)  # fmt: skip
        paper = printed(results, block, name, METRIC).mean
        axes.plot([paper], [place + 0.3], linestyle="none", marker=looks[name].marker,
                  color=looks[name].colour, markerfacecolor="none", markersize=5)  # fmt: skip
    axes.axvline(TRUTH, color=INK, linewidth=1, linestyle=":")
    axes.set_yticks(range(len(results.methods)), list(shown_titles(results).values()))
    axes.invert_yaxis()
    axes.set(xlabel="mean p(1|x) on [1.2, 2.8] (open: paper, dotted: truth)")


def _look(results: Results, name: str) -> dict[str, Any]:
    """The complete case is dashed and on top, so that a curve under it can be seen."""
    look = styles(results)[name]
    thin = name == COMPLETE_CASE
    return {"color": look.colour, "linestyle": look.line, "linewidth": 1.3 if thin else 2.0,
            "zorder": 3 if thin else 2, "label": shown_titles(results)[name]}  # fmt: skip


def _posteriors(axes: "Axes", results: Results, records: dict[str, Record]) -> None:
    truth = next(iter(records.values())).arrays
    axes.axvspan(*OVERLAP, color=SOFT, alpha=0.12, linewidth=0, zorder=0)
    axes.plot(truth["grid"], truth["truth"], color=INK, linewidth=1, linestyle=":", label="truth")
    for name, record in records.items():
        axes.plot(record.arrays["grid"], record.arrays["posterior"], **_look(results, name))
    lams = {record.lam for name, record in records.items() if name != COMPLETE_CASE}
    axes.set(title=f"λ = {lambda_text(max(lams))}", xlabel="x", ylabel="p(1|x)",
             xlim=(0, 10), ylim=(-0.02, 1.02))  # fmt: skip
    axes.legend(loc="lower right")


def _training(axes: "Axes", results: Results, records: dict[str, Record]) -> None:
    for name, record in records.items():
        steps, values = record.arrays["steps"], record.arrays["training_cross_entropy"]
        axes.plot(steps, values, **_look(results, name))
    axes.set(xlabel="step after the warm start", ylabel="cross-entropy on labelled data")


def findings(results: Results) -> list[Finding]:
    """One sentence per method on the posterior, and one on the training loss."""
    return [one for block in results.blocks for one in _findings(results, block)]


def _findings(results: Results, block: Block) -> Iterator[Finding]:
    for method, name in results.methods.items():
        found = level(results, block, method, METRIC, results.lams(method)[0], name)
        if found:
            yield _posterior(found)
        else:
            ours = average(values_of(results.runs(block, method), METRIC))
            yield Finding("fact", f"{name}: mean posterior {written(METRIC, ours.mean)}.")
    yield from _training_findings(results, block)


def _posterior(found: Level) -> Finding:
    near = abs(found.off) <= READ_OFF
    text = (
        f"{found.name}: the mean posterior on the overlap is {_from_truth(found.ours.mean)}; in "
        f"the paper's figure it is {_from_truth(found.paper.mean)}. The two differ by "
        f"{abs(found.off):.3f}, {'within' if near else 'more than'} the {READ_OFF} to which "
        "the figure can be read."
    )
    return Finding("agrees" if near else "differs", text)


def _from_truth(value: float) -> str:
    off = value - TRUTH
    side = "above" if off > 0 else "below"
    return f"{value:.3f}, {abs(off):.3f} {side} the truth {TRUTH}"


def _training_findings(results: Results, block: Block) -> Iterator[Finding]:
    metric = LOSS
    levels = [
        level(results, block, method, metric, results.lams(method)[0], name)
        for method, name in results.methods.items()
    ]
    known = [one for one in levels if one]
    if known:
        far = max(known, key=lambda one: abs(one.off))
        text = f"Final training cross-entropy, largest difference: {far.name}, {gap(metric, far)}."
        yield Finding("fact", text)

"""A comparison of methods: every method and the paper's on each data set, with paired tests.

The paper's table 1 and those of its appendix, and the figures over the number of labels.
"""

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from dessl.evaluation.metrics.vocabulary import NONE
from dessl.report.chart import COLOURS, inside, pictures
from dessl.report.tables import Table
from dessl.results.averages import average, values_of
from dessl_paper.comparison import Comparison, compared
from dessl_paper.figures import (
    Pictures,
    drawing,
    headline,
    legend_below,
    numbered,
    panels,
    scale,
    shown_text,
    shown_titles,
    styles,
)
from dessl_paper.findings import (
    Finding,
    Level,
    agreement,
    agreement_text,
    difference_text,
    direction_finding,
    gap,
    level,
    level_findings,
    placed,
    with_sign,
)
from dessl_paper.kinds.learning import learning_figure
from dessl_paper.kinds.per_class import class_findings, class_tables, classes_figure
from dessl_paper.made_with import Repeats
from dessl_paper.results import Block, Results
from dessl_paper.targets import paper_p_value, printed
from dessl_paper.training import check_trained, trained_cells
from dessl_paper.wording import (
    beside_paper,
    data_title,
    heading,
    listed,
    p_text,
    plain,
    title,
    written,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PUBLIC_DATA = True
REPEATS: Repeats = "splits"
run_cells = trained_cells
check = check_trained

HEADLINE = "accuracy"
LAST = "_last"  # ends the name of a method with the weights of the last step
APART = 0.36  # between ours and the paper's on one row of dots


def tables(results: Results) -> list[Table]:
    """For each data set: every method with the paper's numbers, paired differences, classes."""
    found = []
    for block in results.blocks:
        found.append(_level_table(results, block))
        found.append(_difference_table(results, block))
        found += class_tables(results, block)
    return [table for table in found if table.rows]


def _pairs(results: Results) -> list[tuple[str, str]]:
    """Debiased against usual, each against the complete case, last weights against selected ones.

    The complete case of a method with the last weights is the one with the last weights.
    """
    names, alone = results.methods, results.complete_case()
    last = [name for name in names if name.endswith(LAST)]
    pairs = [(debiased, usual) for usual, debiased in results.twins()]
    if alone:
        alike = alone + LAST if alone + LAST in names else alone
        bases = {name: alike if name in last else alone for name in names}
        pairs += [(name, base) for name, base in bases.items() if name not in (alone, base)]
    selected = [(name, name.removesuffix(LAST)) for name in last]
    return [*pairs, *(pair for pair in selected if pair[1] in names)]


def _lam(results: Results, method: str) -> float:
    return results.lams(method)[0]


def _difference(
    results: Results, block: Block, metric: str, method: str, against: str
) -> Comparison:
    lams = _lam(results, method), _lam(results, against)
    return compared(results, block, metric, method, against, *lams)


def _level_table(results: Results, block: Block) -> Table:
    metrics = results.metrics
    columns = (text for metric in metrics for text in (heading(metric), "paper's", "off by"))
    rows = []
    for method, name in results.methods.items():
        runs = results.runs(block, method)
        if not any(record.method == method for record in results.of(block)):
            continue
        cells: list[str] = []
        for metric in metrics:
            ours, given = (
                average(values_of(runs, metric)),
                printed(results, block, method, metric, _lam(results, method)),
            )
            cells += beside_paper(metric, ours, given)
        rows.append((name, *cells))
    caption = f"{data_title(results, block)}: every method"
    return Table(caption, ("method", *columns), tuple(rows)).without_empty_columns()


def _difference_table(results: Results, block: Block) -> Table:
    names = results.methods
    rows = [
        (
            f"{names[one.method]} − {names[one.against]}",
            heading(one.metric),
            written(one.metric, one.difference, signed=True),
            NONE
            if math.isnan(one.low)
            else f"{written(one.metric, one.low, signed=True)} to "
            f"{written(one.metric, one.high, signed=True)}",
            p_text(one.p_better),
            p_text(one.p_worse),
            p_text(one.p_wilcoxon),
            written(one.metric, one.paper, signed=True),
            p_text(
                paper_p_value(results, one.method, one.metric)
                if one.against == one.method.removeprefix("de_")
                else math.nan
            ),
        )
        for one in comparisons(results, block)
    ]
    headings = (
        "difference",
        "metric",
        "ours",
        "95 % interval",
        "p, better",
        "p, worse",
        "Wilcoxon p, two-sided",
        "paper's",
        "paper's p, better",
    )
    caption = f"{data_title(results, block)}: paired differences (single tests, uncorrected)"
    return Table(caption, headings, tuple(rows)).without_empty_columns()


def comparisons(results: Results, block: Block) -> list[Comparison]:
    """The pairs of methods that are compared, metric by metric."""
    found = [
        _difference(results, block, metric, *pair)
        for metric in results.metrics
        for pair in _pairs(results)
    ]
    return [one for one in found if one.n]


def figures(results: Results) -> dict[str, Pictures]:
    """Metrics method by method or over the number of labels, learning curves, and classes."""
    sets = list(dict.fromkeys(block.data for block in results.blocks))
    over_labels = len(results.blocks) > len(sets)
    found: dict[str, Pictures | None] = {}
    if over_labels:
        found |= {
            name: labels_figure(results, data)
            for name, data in zip(numbered("figure", sets), sets, strict=True)
        }
    else:
        found["figure"] = dots_figure(results)
    if len(results.blocks) == 1:
        found["figure-learning"] = learning_figure(results, results.blocks[0])
    if not over_labels:
        found["figure-classes"] = classes_figure(results)
    return {name: pictures for name, pictures in found.items() if pictures}


def dots_figure(results: Results) -> Pictures:
    """A panel for each metric and data set, a row for each method."""
    from matplotlib.figure import Figure

    blocks, metrics = results.blocks, results.metrics
    height = 0.34 * len(results.methods) + 0.75
    with drawing():
        size = (3.1 * len(metrics) + 1.3, height * len(blocks) + 1.0)
        figure = Figure(figsize=size, layout="constrained")
        grid = figure.subplots(len(blocks), len(metrics), squeeze=False, sharey=True)
        paper = False
        for row, block in enumerate(blocks):
            for column, metric in enumerate(metrics):
                axes = grid[row, column]
                paper |= _dots(axes, results, block, metric)
                axes.set_xlabel(heading(metric))
            if len(blocks) > 1:
                grid[row, 0].set_title(
                    shown_text(data_title(results, block)), loc="left", fontsize=9
                )
        _dots_legend(figure.axes[0], paper=paper)
        figure.legend(
            *figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2
        )
        subtitle = [data_title(results, blocks[0])] if len(blocks) == 1 else []
        headline(figure, title(results), *subtitle)
        return pictures(figure)


def _dots(axes: "Axes", results: Results, block: Block, metric: str) -> bool:
    """Draw one panel; return whether the paper has numbers in it."""
    looks, times, paper = styles(results), scale(metric), False
    for place, method in enumerate(results.methods):
        look = looks[method]
        found = average(values_of(results.runs(block, method), metric))
        if found.n and math.isfinite(found.mean):
            half = None if found.half_width is None else [times * found.half_width]
            axes.errorbar([times * found.mean], [place], xerr=half, color=look.colour,
                          marker=look.marker, ls="none", capsize=3, markersize=6)  # fmt: skip
        given = printed(results, block, method, metric, _lam(results, method))
        if not math.isnan(given.mean):
            paper = True
            half = None if given.half_width is None else [times * given.half_width]
            axes.errorbar([times * given.mean], [place + APART], xerr=half, color=look.colour,
                          marker=look.marker, linestyle="none", capsize=2, markersize=5,
                          elinewidth=0.8, markerfacecolor="none")  # fmt: skip
    names = list(shown_titles(results).values())
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.35, -0.5)
    axes.margins(x=0.08)
    axes.set_xlim(inside(axes.get_xlim(), metric))
    return paper


def _dots_legend(axes: "Axes", *, paper: bool) -> None:
    look: dict[str, Any] = {"color": COLOURS["s0"], "marker": "o", "linestyle": "none"}
    axes.plot([], [], **look, label="ours, 95 % interval over splits if there are several")
    if paper:
        axes.plot([], [], **look, markerfacecolor="none", label="the paper's (open)")


def labels_figure(results: Results, data: str) -> Pictures:
    """Each method's metrics over the number of labels of one data set, with 95 % bars."""
    blocks = [block for block in results.blocks if block.data == data]
    with drawing():
        figure, axes = panels(len(results.metrics))
        for panel, metric in zip(axes, results.metrics, strict=True):
            _over_labels(panel, results, blocks, metric)
        legend_below(figure, axes[0], list(shown_titles(results).values()))
        headline(figure, title(results), data)
        return pictures(figure)


def _over_labels(axes: "Axes", results: Results, blocks: list[Block], metric: str) -> None:
    times, looks = scale(metric), styles(results)
    for place, (method, name) in enumerate(shown_titles(results).items()):
        found = {block.labels: average(values_of(results.runs(block, method), metric))
                 for block in blocks}  # fmt: skip
        kept = {labels: one for labels, one in found.items() if one.n}
        aside = 1.0 + 0.02 * (place - len(results.methods) / 2)  # so that bars do not hide bars
        axes.errorbar(
            [labels * aside for labels in kept],
            [times * one.mean for one in kept.values()],
            yerr=[times * (one.half_width or 0.0) for one in kept.values()],
            label=name,
            capsize=2,
            elinewidth=0.9,
            markersize=4.5,
            **looks[method].of_line(),
        )
    axes.set_xscale("log")
    places = [block.labels for block in blocks]
    axes.set_xticks(places, [f"{place:,}" for place in places])
    axes.set_xticks([], minor=True)
    axes.set(xlabel="labels", ylabel=heading(metric), ylim=inside(axes.get_ylim(), metric))


def findings(results: Results) -> list[Finding]:
    """The headline, the differences of twins and to the complete case, and the levels."""
    found = list(_headlines(results))
    for usual, debiased in results.twins():
        for metric in results.metrics:
            found += _twins(results, metric, usual, debiased)
    found += _to_the_complete_case(results)
    for block in results.blocks:
        found += [placed(results, block, one) for one in class_findings(results, block)]
        for metric in results.metrics:
            levels = _levels(results, block, metric)
            found += [placed(results, block, one) for one in level_findings(metric, levels)]
    return found


def _levels(results: Results, block: Block, metric: str) -> list[Level]:
    found = [
        level(results, block, method, metric, _lam(results, method), name)
        for method, name in results.methods.items()
    ]
    return [one for one in found if one]


def _headlines(results: Results) -> Iterator[Finding]:
    """How far a debiased method's accuracy is from the paper's, if there is one data set."""
    if len(results.blocks) > 1:
        return
    for _, debiased in results.twins():
        block, name = results.blocks[0], results.methods[debiased]
        found = level(results, block, debiased, HEADLINE, _lam(results, debiased), name)
        if found:
            text = f"The paper's headline number, {name}: accuracy {gap(HEADLINE, found)}."
            yield Finding("fact", text)


def _compared(results: Results, metric: str, method: str, against: str) -> dict[Block, Comparison]:
    found = {
        block: _difference(results, block, metric, method, against) for block in results.blocks
    }
    return {block: one for block, one in found.items() if one.n}


def _twins(results: Results, metric: str, usual: str, debiased: str) -> list[Finding]:
    known = _compared(results, metric, debiased, usual)
    if not with_sign([*known.values()]):
        found = [
            placed(results, block, Finding("fact", f"{difference_text(results, one)}."))
            for block, one in known.items()
        ]
    elif len(known) == 1:
        ((block, one),) = known.items()
        found = [placed(results, block, made)] if (made := direction_finding(results, one)) else []
    else:
        found = [_over_blocks(results, metric, known)]
    return found


def _over_blocks(results: Results, metric: str, known: Mapping[Block, Comparison]) -> Finding:
    """One sentence over several data sets: where the sign agrees with the paper's."""
    both = {block: one for block, one in known.items() if with_sign([one])}
    found = list(both.values())
    names = results.methods
    text = (
        f"{names[found[0].method]} minus {names[found[0].against]}, {plain(metric)}: the sign "
        f"agrees with the paper's {agreement_text(found, 'data sets')}"
    )
    other = [block.data for block, one in both.items() if not one.same_direction]
    text += f"; the sign differs on {listed(other)}." if other else "."
    return Finding(agreement(found), text)


def _to_the_complete_case(results: Results) -> Iterator[Finding]:
    """One sentence per method, over all metrics and data sets."""
    alone = results.complete_case()
    for method, name in results.methods.items():
        if alone is None or method == alone:
            continue
        cells = {
            f"{plain(metric)} on {block.data}": one
            for metric in results.metrics
            for block, one in _compared(results, metric, method, alone).items()
            if with_sign([one])
        }
        if not cells:
            continue
        found = list(cells.values())
        text = (
            f"{name} minus the complete case: the sign agrees with the paper's "
            f"{agreement_text(found, 'differences')}"
        )
        other = [what for what, one in cells.items() if not one.same_direction]
        text += f"; the sign differs for {listed(other)}." if other else "."
        yield Finding(agreement(found), text)

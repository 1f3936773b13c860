"""A sweep over λ: a usual method and its debiased twin side by side at each λ.

The paper's figures 2 and 3. The table and the figure have ours, the paper's and the paired tests;
the findings are about the complete case, large λ, and how far the levels are from the paper's.
"""

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from dessl.evaluation.metrics.vocabulary import NONE
from dessl.report.chart import INK, SOFT, inside, lambda_axis, pictures, zero_place
from dessl.report.tables import Table
from dessl.results.averages import Average, average, values_of
from dessl_paper.comparison import CLEAR, Comparison, over_lambda
from dessl_paper.figures import (
    Pictures,
    Style,
    drawing,
    headline,
    legend_below,
    numbered,
    scale,
    shown_titles,
    styles,
)
from dessl_paper.findings import (
    Finding,
    agreement,
    agreement_text,
    direction_finding,
    gap,
    level,
    level_findings,
    level_outcome,
    placed,
    with_paper,
    with_sign,
)
from dessl_paper.made_with import Repeats
from dessl_paper.results import Block, Results
from dessl_paper.targets import paper_curve, printed
from dessl_paper.training import check_trained, trained_cells
from dessl_paper.wording import (
    amount,
    beside_paper,
    data_title,
    heading,
    lambda_text,
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

LARGE = 1.0  # smallest λ for which the paper's claim about large λ is checked
LEAST = -6  # smaller p-values are drawn at ten to this power, and the tick says so


def tables(results: Results) -> list[Table]:
    """For each data set, pair of methods and metric: ours, the paper's and the tests, λ by λ."""
    found = []
    for block in results.blocks:
        for usual, debiased in results.twins():
            found += [
                _level_table(results, block, metric, usual, debiased) for metric in results.metrics
            ]
            for metric in results.metrics:
                found += _complete_case_table(results, block, metric, (usual, debiased))
    return [table.without_empty_columns() for table in found]


def _level_table(results: Results, block: Block, metric: str, usual: str, debiased: str) -> Table:
    one, other = results.methods[usual], results.methods[debiased]
    columns = (text for name in (one, other) for text in (name, "paper's", "off by"))
    caption = f"{data_title(results, block)}: {heading(metric)} over λ"
    headings = ("λ", *columns, *_test_headings(other, one))
    return Table(caption, headings, tuple(_rows(results, block, metric, usual, debiased)))


def _rows(
    results: Results, block: Block, metric: str, usual: str, debiased: str
) -> Iterator[tuple[str, ...]]:
    alone = results.complete_case()
    if alone and results.runs(block, alone):
        cells = _cells(results, block, metric, alone, 0.0)
        yield ("0 (complete case)", *cells, *cells, NONE, NONE, NONE)
    tests = {one.lam: one for one in over_lambda(results, block, metric, debiased, usual)}
    for lam in sorted({*results.lams(usual), *results.lams(debiased)}):
        yield (
            lambda_text(lam),
            *_cells(results, block, metric, usual, lam),
            *_cells(results, block, metric, debiased, lam),
            *_tested(tests.get(lam)),
        )


def _complete_case_table(
    results: Results, block: Block, metric: str, methods: tuple[str, str]
) -> list[Table]:
    alone = results.complete_case()
    if alone is None:
        return []
    against = results.methods[alone]
    tests = {
        method: {one.lam: one for one in over_lambda(results, block, metric, method, alone)}
        for method in methods
    }
    headings = (text for name in methods for text in _test_headings(results.methods[name], against))
    rows = (
        (lambda_text(lam), *(text for name in methods for text in _tested(tests[name].get(lam))))
        for lam in sorted({lam for found in tests.values() for lam in found})
    )
    caption = f"{data_title(results, block)}: {heading(metric)} minus the complete case's"
    return [Table(caption, ("λ", *headings), tuple(rows))]


def _test_headings(one: str, other: str) -> tuple[str, str, str]:
    return f"{one} − {other}", f"p, {one} better (Holm)", f"p, {other} better (Holm)"


def _cells(
    results: Results, block: Block, metric: str, method: str, lam: float
) -> tuple[str, str, str]:
    ours = average(values_of(results.runs(block, method, lam), metric))
    given = printed(results, block, method, metric, lam)
    return beside_paper(metric, ours, given)


def _tested(test: Comparison | None) -> tuple[str, str, str]:
    if test is None or math.isnan(test.difference):
        return NONE, NONE, NONE
    difference = written(test.metric, test.difference, signed=True)
    if test.n < 2:
        return difference, NONE, NONE
    return (
        difference,
        f"{p_text(test.p_better)} ({p_text(test.holm_better)})",
        f"{p_text(test.p_worse)} ({p_text(test.holm_worse)})",
    )


def comparisons(results: Results, block: Block) -> list[Comparison]:
    """Each debiased method against its twin, then all against the complete case, at each λ."""
    pairs = [(debiased, usual) for usual, debiased in results.twins()]
    if alone := results.complete_case():
        pairs += [(name, alone) for name in results.methods if name != alone]
    return [
        one
        for method, against in pairs
        for metric in results.metrics
        for one in over_lambda(results, block, metric, method, against)
        if one.n
    ]


def figures(results: Results) -> dict[str, Pictures]:
    """One figure for each data set."""
    blocks = results.blocks
    names = numbered("figure", [f"{block.data}-{block.labels}" for block in blocks])
    return {name: sweep_figure(results, block) for name, block in zip(names, blocks, strict=True)}


def sweep_figure(results: Results, block: Block) -> Pictures:
    """Metrics over λ with 95 % bands, the paper's curves, and p-values if there are splits."""
    from matplotlib.figure import Figure

    tests = any(
        len(results.runs(block, name, results.lams(name)[0])) > 1 for name in results.methods
    )
    with drawing():
        columns = len(results.metrics)
        size = (3.9 * columns, 5.9 if tests else 3.7)
        figure = Figure(figsize=size, layout="constrained")
        grid = figure.subplots(
            2 if tests else 1, columns, squeeze=False, height_ratios=[1.5, 1] if tests else [1]
        )
        for column, metric in enumerate(results.metrics):
            _metric(grid[0, column], results, block, metric)
            if tests:
                _p_values(grid[1, column], results, block, metric)
        legend_below(figure, grid[0, 0], list(shown_titles(results).values()), columns=6)
        headline(figure, title(results), data_title(results, block))
        return pictures(figure)


def _positive(results: Results) -> list[float]:
    """Every λ above 0 that is drawn, the paper's among them."""
    found = {lam for name in results.methods for lam in results.lams(name)}
    for name in results.methods:
        found |= {
            lam for metric in results.metrics for lam in paper_curve(results, name, metric)[0]
        }
    return sorted(lam for lam in found if lam > 0) or [1.0]


def _metric(axes: "Axes", results: Results, block: Block, metric: str) -> None:
    looks, lams, times = styles(results), _positive(results), scale(metric)
    names, alone = shown_titles(results), results.complete_case()
    if alone:
        found = average(values_of(results.runs(block, alone), metric))
        _level_line(axes, found, times, looks[alone], zero_place(lams), names[alone])
    paper = False
    for name in (name for name in results.methods if name != alone):
        means = {
            lam: average(values_of(results.runs(block, name, lam), metric))
            for lam in results.lams(name)
        }
        _curve(axes, means, times, looks[name], names[name])
        at, values = paper_curve(results, name, metric)
        if values:
            places = [lam or zero_place(lams) for lam in at]
            shown = [times * value for value in values]
            axes.plot(places[1:], shown[1:], **looks[name].of_paper())
            axes.plot(places[:1], shown[:1], **{**looks[alone or name].of_paper(), "zorder": 1})
            paper = True
    if paper:
        axes.plot([], [], label="paper", color=SOFT, marker="o", linestyle=":",
                  markerfacecolor="none", linewidth=1.0, markersize=4.5)  # fmt: skip
    lambda_axis(axes, lams)
    axes.set(ylabel=heading(metric), ylim=inside(axes.get_ylim(), metric))


def _level_line(
    axes: "Axes", found: Average, times: float, look: Style, place: float, name: str
) -> None:
    """The complete case: a point at λ = 0 and a level across."""
    if not math.isfinite(found.mean):
        return
    mean, half = times * found.mean, times * (found.half_width or 0.0)
    axes.axhspan(mean - half, mean + half, color=look.colour, alpha=0.12, linewidth=0)
    axes.axhline(mean, color=look.colour, linestyle="--", linewidth=1.2, zorder=1)
    axes.errorbar([place], [mean], yerr=[half] if half else None, color=look.colour,
                  marker=look.marker, ls="--", label=name, capsize=2, markersize=5)  # fmt: skip


def _curve(axes: "Axes", means: dict[float, Average], times: float, look: Style, name: str) -> None:
    kept = {lam: found for lam, found in means.items() if found.n}
    lams = list(kept)
    middle = [times * found.mean for found in kept.values()]
    half = [times * (found.half_width or 0.0) for found in kept.values()]
    if any(half):
        low = [m - h for m, h in zip(middle, half, strict=True)]
        high = [m + h for m, h in zip(middle, half, strict=True)]
        axes.fill_between(lams, low, high, color=look.colour, alpha=0.18, linewidth=0)
    axes.plot(lams, middle, **look.of_line(), markersize=4.5, linewidth=1.8, label=name)


def _p_values(axes: "Axes", results: Results, block: Block, metric: str) -> None:
    looks, lowest, cut = styles(results), 10.0**LEAST, False
    for usual, debiased in results.twins():
        found = [one for one in over_lambda(results, block, metric, debiased, usual) if one.n > 1]
        lams = [one.lam for one in found]
        better, worse = [one.p_better for one in found], [one.p_worse for one in found]
        for name, values in ((debiased, better), (usual, worse)):
            drawn = [max(value, lowest) for value in values]
            axes.plot(lams, drawn, **looks[name].of_line(), markersize=3.5)
        cut = cut or any(value < lowest for value in better + worse)
    axes.axhline(CLEAR, color=INK, linewidth=1, linestyle="--")
    axes.set_yscale("log")
    axes.set_ylim(min(axes.get_ylim()[0], CLEAR / 2), 1.6)
    if cut:
        _say_least(axes)
    lambda_axis(axes, _positive(results))
    axes.set_ylabel("p of being better")


def _say_least(axes: "Axes") -> None:
    """Label the lowest tick to show that p-values there are this small or smaller."""
    powers = range(LEAST, 1, 2)
    texts = [rf"$\mathdefault{{10^{{{power}}}}}$" for power in powers]
    axes.set_yticks([10.0**power for power in powers], [f"≤ {texts[0]}", *texts[1:]])


def findings(results: Results) -> list[Finding]:
    """Findings of every data set, pair of methods and metric."""
    return [
        placed(results, block, one) for block in results.blocks for one in _findings(results, block)
    ]


def _findings(results: Results, block: Block) -> Iterator[Finding]:
    for metric in results.metrics:
        yield from _complete_case(results, block, metric)
    for usual, debiased in results.twins():
        for metric in results.metrics:
            tests = over_lambda(results, block, metric, debiased, usual)
            yield from _at_large_lambda(results, tests)
            if metric == "accuracy":
                yield from _closeness(results, tests)
        for method in (usual, debiased):
            for metric in results.metrics:
                yield from _level_findings(results, block, method, metric)


def _complete_case(results: Results, block: Block, metric: str) -> Iterator[Finding]:
    alone = results.complete_case()
    found = level(results, block, alone, metric, 0.0, "") if alone else None
    if found is None:
        return
    outcome, why = level_outcome(metric, found)
    text = f"the {plain(metric)} of the complete case is {gap(metric, found)}; {why}."
    yield Finding(outcome, text)


def _level_findings(results: Results, block: Block, method: str, metric: str) -> Iterator[Finding]:
    found = [
        level(results, block, method, metric, lam, f"λ = {lambda_text(lam)}")
        for lam in results.lams(method)
    ]
    of = f"{results.methods[method]}: "
    yield from level_findings(metric, [one for one in found if one], of)


def _at_large_lambda(results: Results, tests: list[Comparison]) -> Iterator[Finding]:
    """The largest λ in detail, then all λ ≥ ``LARGE``, which decide the outcome."""
    large = [one for one in tests if one.n and one.lam >= LARGE]
    if not large:
        return
    last = large[-1]
    made = direction_finding(results, last, f"at λ = {lambda_text(last.lam)}, ")
    if made is None:
        return
    known = with_sign(large)
    if not known:
        yield made
        return
    more = "" if known == [last] else f" {_signs(known)}"
    yield Finding(agreement(known), made.text + more)


def _signs(known: Sequence[Comparison]) -> str:
    """At how many large λ the sign agrees with the paper's, and where it significantly does not."""
    text = f"For λ ≥ {LARGE:g} the sign agrees with the paper's {agreement_text(known, 'values')}"
    other = [lambda_text(one.lam) for one in known if one.clear and not one.same_direction]
    return (
        f"{text}; the sign significantly differs at λ = {listed(other)}." if other else f"{text}."
    )


def _closeness(results: Results, tests: list[Comparison]) -> Iterator[Finding]:
    """The largest difference of the two accuracies: the paper claims that they are similar."""
    known = [one for one in tests if not math.isnan(one.difference)]
    if not known:
        return
    far = max(known, key=lambda one: abs(one.difference))
    names = results.methods
    text = (
        f"over all λ, the mean accuracies of {names[far.method]} and {names[far.against]} "
        f"differ by at most {amount('accuracy', far.difference)} "
        f"(at λ = {lambda_text(far.lam)})"
    )
    papers = [abs(one.paper) for one in with_paper(known)]
    if papers:
        text += f"; in the paper, over the same λ, by at most {amount('accuracy', max(papers))}"
    yield Finding("fact", f"{text}.")

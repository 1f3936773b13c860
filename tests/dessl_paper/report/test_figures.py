"""Figures that can be read: nothing cut off, no method out of sight, no impossible scales."""

import dataclasses
import re
from collections.abc import Callable

import pytest
from matplotlib.figure import Figure
from scipy import stats

from dessl_paper.report.figures.classes import classes_figure
from dessl_paper.report.figures.dots import dots_figure
from dessl_paper.report.figures.labels import labels_figure
from dessl_paper.report.figures.learning import learning_figure
from dessl_paper.report.figures.panels import legend_below, panels
from dessl_paper.report.figures.sweep import sweep_figure
from dessl_paper.report.results import Results
from dessl_paper.specification import load_experiment


def texts(pictures: dict[str, bytes] | None) -> list[str]:
    """Every text of a figure: its SVG names each before drawing it."""
    assert pictures is not None
    return re.findall(r"<!-- (.*?) -->", pictures["svg"].decode())


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """The figures that are drawn while a test runs."""
    figures: list[Figure] = []
    save = Figure.savefig

    def saved(self: Figure, *arguments: object, **options: object) -> None:
        figures.append(self)
        save(self, *arguments, **options)

    monkeypatch.setattr(Figure, "savefig", saved)
    return figures


@pytest.mark.parametrize("longest", [5, 30, 60])
def test_a_legend_is_never_wider_than_its_figure(longest: int) -> None:
    figure, axes = panels(4)
    names = [f"{number} {'n' * longest}" for number in range(7)]
    for name in names:
        axes[0].plot([0, 1], [0, 1], label=name)
    legend_below(figure, axes[0], names, columns=6)
    (legend,) = figure.legends
    figure.draw_without_rendering()
    box = legend.get_window_extent()
    assert box.x0 >= 0
    assert box.x1 <= figure.bbox.width
    assert [text.get_text() for text in legend.get_texts()] == names


def test_a_title_is_drawn_as_it_is(fixmatch: Results) -> None:
    odd = "costs $x^2$ or $5\nin \\foo"
    records = tuple(
        dataclasses.replace(record, title=odd) if record.method == "fixmatch" else record
        for record in fixmatch.records
    )
    experiment = fixmatch.experiment | {"title": "from $1 to $2"}
    results = Results(experiment, records)
    block = results.blocks[0]
    figures = [dots_figure(results), classes_figure(results), learning_figure(results, block)]
    for drawn in [*figures, labels_figure(results, block.data), sweep_figure(results, block)]:
        assert "costs $x^2$ or $5 in \\foo" in texts(drawn)
        assert any("from $1 to $2" in text for text in texts(drawn))


ENDS = {
    ("complete_case", 0.0): 0.3,
    ("fixmatch", 0.5): 0.7,
    ("de_fixmatch", 0.5): 0.8,
    ("fixmatch_star", 1.0): 0.9,
}


def watched(results_of: Callable[..., Results], steps: int) -> Results:
    """Accuracies that rise to their ends, the complete case's far below the others'."""
    experiment = load_experiment("fixmatch-cifar10", "fast")
    experiment = dataclasses.replace(experiment, metrics=("accuracy", "cross_entropy"), targets="")
    results = results_of(experiment, {cell: [{"accuracy": end}] for cell, end in ENDS.items()})
    for record in results.records:
        for step in range(1, steps + 1):
            level = record.metrics["accuracy"] - 0.01 * (steps - step)
            seen = {"accuracy": level, "cross_entropy": 2 - level}
            record.history.append({"step": step, "validation": seen})
    return results


def test_every_learning_curve_is_seen_to_its_end(
    results_of: Callable[..., Results], shown: list[Figure]
) -> None:
    results = watched(results_of, steps=10)
    learning_figure(results, results.blocks[0])
    accuracy, loss = (panel.get_ylim() for panel in shown[0].axes)
    for end in ENDS.values():
        assert accuracy[0] < 100 * end < accuracy[1]
        assert loss[0] < 2 - end < loss[1]


def test_steps_are_whole_numbers_each_once(
    results_of: Callable[..., Results], shown: list[Figure]
) -> None:
    results = watched(results_of, steps=2)
    learning_figure(results, results.blocks[0])
    assert all(tick == int(tick) for tick in shown[0].axes[0].get_xticks())


def test_names_of_classes_are_whole(results_of: Callable[..., Results]) -> None:
    accuracies = {"per_class_accuracy": [0.1 * k for k in range(7)]}
    results = results_of(load_experiment("medmnist", "fast"), {("pl", 1.0): [accuracies]})
    said = texts(classes_figure(results))
    assert [said.index(line) for line in ("actinic", "keratoses and", "intraepithelial")]
    assert "carcinoma" in said[said.index("intraepithelial") :][:2]


def test_intervals_of_two_splits_do_not_stretch_an_axis_past_the_possible(
    results_of: Callable[..., Results], shown: list[Figure]
) -> None:
    experiment = load_experiment("medmnist", "fast")
    splits = [
        {"accuracy": level, "cross_entropy": level, "per_class_accuracy": [level] * 7}
        for level in (0.1, 0.9)
    ]
    results = results_of(experiment, {("pl", 1.0): splits, ("complete_case", 0.0): splits})
    classes_figure(results)
    dots_figure(results)
    sweep_figure(results, results.blocks[0])
    classes, dots, sweep = shown[::2]  # each is saved as PNG and as SVG
    for low, high in (
        classes.axes[0].get_ylim(),
        dots.axes[0].get_xlim(),
        sweep.axes[0].get_ylim(),
    ):
        assert -6 < low < 0
        assert 100 < high < 106
    assert -1 < dots.axes[1].get_xlim()[0] < 0  # a loss has no upper end
    assert dots.axes[1].get_xlim()[1] > 5


def test_each_p_value_is_drawn_in_the_look_of_the_method_that_is_better(
    results_of: Callable[..., Results], shown: list[Figure]
) -> None:
    losses = {("pl", 1.0): [0.5, 0.6, 0.8], ("de_pl", 1.0): [0.4, 0.55, 0.65]}
    cells = {cell: [{"cross_entropy": loss} for loss in row] for cell, row in losses.items()}
    experiment = dataclasses.replace(load_experiment("mnist", "paper"), metrics=("cross_entropy",))
    results = results_of(experiment, cells)
    sweep_figure(results, results.blocks[0])
    metric, tests = shown[0].axes
    looks = {line.get_label(): line.get_color() for line in metric.lines}
    single = [line for line in tests.lines if len(line.get_xdata()) == 1]
    drawn = {line.get_color(): line.get_ydata()[0] for line in single}
    p = stats.ttest_rel(losses["de_pl", 1.0], losses["pl", 1.0], alternative="less").pvalue
    assert drawn[looks["DePseudoLabel"]] == pytest.approx(p)
    assert drawn[looks["PseudoLabel"]] == pytest.approx(1 - p)


@pytest.mark.parametrize(("apart", "cut"), [(0.5, True), (0.02, False)])
def test_a_p_value_too_small_to_draw_is_said_to_be_smaller(
    results_of: Callable[..., Results], shown: list[Figure], apart: float, cut: bool
) -> None:
    losses = {
        ("pl", 1.0): [0.5 + 0.001 * k for k in range(6)],
        ("de_pl", 1.0): [0.5 - apart + 0.001 * k * (-1) ** k for k in range(6)],
    }
    cells = {cell: [{"cross_entropy": loss} for loss in row] for cell, row in losses.items()}
    experiment = dataclasses.replace(load_experiment("mnist", "paper"), metrics=("cross_entropy",))
    results = results_of(experiment, cells)
    p = stats.ttest_rel(losses["de_pl", 1.0], losses["pl", 1.0], alternative="less").pvalue
    assert (p < 1e-6) == cut
    sweep_figure(results, results.blocks[0])
    _, tests = shown[0].axes
    ticks = {
        text.get_text(): value
        for value, text in zip(tests.get_yticks(), tests.get_yticklabels(), strict=True)
    }
    said = [value for text, value in ticks.items() if text.startswith("≤")]
    assert said == ([1e-6] if cut else [])
    single = [line.get_ydata()[0] for line in tests.lines if len(line.get_xdata()) == 1]
    assert min(single) == pytest.approx(max(p, 1e-6))
    assert tests.get_ylim()[0] < min(single)


def test_an_infinite_complete_case_can_be_drawn(results_of: Callable[..., Results]) -> None:
    endless, finite = {"cross_entropy": "Infinity"}, {"cross_entropy": 0.5}
    cells = {("complete_case", 0.0): [endless], ("pl", 1.0): [finite], ("de_pl", 1.0): [finite]}
    results = results_of(load_experiment("mnist", "fast"), cells)
    assert "DePseudoLabel" in texts(sweep_figure(results, results.blocks[0]))

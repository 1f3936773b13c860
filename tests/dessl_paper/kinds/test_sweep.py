"""A λ-sweep: its tables, figure, and what is said of large λ."""

import dataclasses
import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy import stats

from dessl.report.tables import Table
from dessl_paper.catalogue import load_experiment
from dessl_paper.findings import Finding
from dessl_paper.kinds import sweep
from dessl_paper.kinds.sweep import sweep_figure
from dessl_paper.results import Results, read_results
from dessl_paper.writing import findings_of


def cell(table: Table, row: str, heading: str, nth: int = 0) -> str:
    (found,) = [cells for cells in table.rows if cells[0] == row]
    places = [k for k, name in enumerate(table.headings) if name == heading]
    return found[places[nth]]


def test_a_sweep_has_means_intervals_and_tests_at_each_lambda(smoke: Callable[[str], Path]) -> None:
    results = read_results(smoke("mnist"))
    tables = sweep.tables(results)
    assert len(tables) == 6  # a metric each: the twins, and both against the complete case
    table = tables[1]
    assert "cross-entropy over λ" in table.caption
    assert "200 rows" in table.caption
    values = [
        record.metrics["cross_entropy"]
        for record in results.records
        if record.method == "pl" and record.lam == 0.1
    ]
    half = stats.t.ppf(0.975, 1) * np.std(values, ddof=1) / np.sqrt(2)
    assert cell(table, "0.1", "PseudoLabel") == f"{np.mean(values):.3f} ± {half:.3f} (2)"
    assert cell(table, "0.1", "paper's") == "0.297"
    off = f"{np.mean(values) - 0.2969:+.3f}".replace("-", "−")
    assert cell(table, "0.1", "off by") == off
    assert cell(table, "1", "paper's") == "–"


def test_each_p_value_of_a_sweep_stands_beside_its_own_correction(
    results_of: Callable[..., Results],
) -> None:
    experiment = dataclasses.replace(load_experiment("mnist", "paper"), metrics=("accuracy",))
    splits = {
        ("pl", 0.1): [0.90, 0.91, 0.93],
        ("de_pl", 0.1): [0.91, 0.93, 0.94],
        ("pl", 10.0): [0.90, 0.91, 0.93],
        ("de_pl", 10.0): [0.88, 0.90, 0.90],
    }
    cells = {cell: [{"accuracy": value} for value in row] for cell, row in splits.items()}
    (table,) = sweep.tables(results_of(experiment, cells))
    for side, name in (("greater", "DePseudoLabel"), ("less", "PseudoLabel")):
        p = {
            lam: stats.ttest_rel(splits["de_pl", lam], splits["pl", lam], alternative=side).pvalue
            for lam in (0.1, 10.0)
        }
        least = min(p, key=p.__getitem__)
        for lam, value in p.items():
            holm = min(1.0, 2 * p[least] if lam == least else max(2 * p[least], value))
            shown = cell(table, f"{lam:g}", f"p, {name} better (Holm)")
            assert shown == f"{value:.3f} ({holm:.3f})"


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


def swept(
    results_of: Callable[..., Results], usual: Sequence[float], debiased: Sequence[float]
) -> Results:
    """Cross-entropies at λ = 10, where the paper has 0.8914 and 0.2706."""
    experiment = load_experiment("mnist", "paper")
    experiment = dataclasses.replace(experiment, metrics=("cross_entropy",))
    cells = {
        (method, 10.0): [{"cross_entropy": value} for value in values]
        for method, values in (("pl", usual), ("de_pl", debiased))
    }
    return results_of(experiment, cells)


def about(findings: list[Finding], *words: str) -> Finding:
    (found,) = [one for one in findings if all(word in one.text for word in words)]
    return found


def test_a_clear_difference_with_the_papers_sign_agrees_in_direction(
    results_of: Callable[..., Results],
) -> None:
    usual, debiased = [0.9, 1.0, 0.8], [0.3, 0.35, 0.36]
    found = about(findings_of(swept(results_of, usual, debiased)), "At λ = 10")
    p = stats.ttest_rel(debiased, usual).pvalue
    assert found.outcome == "direction"
    assert "0.563 below that of PseudoLabel" in found.text
    assert f"p = {p:.3f}, 3 splits" in found.text
    assert "in the paper it is 0.621 below: the same direction; whether the size" in found.text


def test_a_difference_of_the_papers_size_agrees(results_of: Callable[..., Results]) -> None:
    usual, debiased = [0.9, 1.0, 0.8], [0.275, 0.38, 0.182]
    found = about(findings_of(swept(results_of, usual, debiased)), "At λ = 10")
    assert found.outcome == "agrees"
    assert "the same direction; the size agrees within ±10 %" in found.text


def test_a_clear_difference_of_the_other_sign_differs(results_of: Callable[..., Results]) -> None:
    results = swept(results_of, [0.3, 0.35, 0.36], [0.9, 1.0, 0.95])
    found = about(findings_of(results), "At λ = 10")
    assert found.outcome == "differs"
    assert "not the same direction" in found.text


@pytest.mark.parametrize(
    ("usual", "debiased"), [([0.9], [0.2]), ([0.9, 0.2, 0.5], [0.3, 0.4, 0.45])]
)
def test_one_split_or_noise_decides_nothing(
    results_of: Callable[..., Results], usual: list[float], debiased: list[float]
) -> None:
    found = about(findings_of(swept(results_of, usual, debiased)), "At λ = 10")
    assert found.outcome == "open"
    assert "may be chance" in found.text


def test_levels_agree_only_where_they_are_equivalent(
    results_of: Callable[..., Results],
) -> None:
    results = swept(results_of, [0.85, 0.93, 0.88], [0.40, 0.41, 0.405])
    findings = findings_of(results)
    near = about(findings, "PseudoLabel: ", "neither", "1 of 1 cells", "λ = 10")
    assert near.outcome == "open"  # ±0.100 and the paper's likewise reach past a tenth of 0.891
    off = about(findings, "DePseudoLabel: ", "differs", "1 of 1 cells")
    assert off.outcome == "differs"
    assert "0.405 against 0.271 (0.134 above)" in off.text


@pytest.mark.parametrize(
    ("at_3_59", "at_10", "outcome"),
    [  # of three splits; the paper's difference is above zero at λ = 3.59 and below at λ = 10
        ([+0.004, +0.006, +0.005], [-0.010, -0.012, -0.011], "agrees"),
        ([+0.010, +0.012, +0.011], [-0.010, -0.012, -0.011], "direction"),
        ([-0.010, -0.012, -0.011], [-0.010, -0.012, -0.011], "differs"),
        ([-0.010, -0.012, -0.011], [-0.010, +0.012, +0.011], "differs"),
        ([-0.010, +0.012, -0.011], [-0.010, -0.012, -0.011], "direction"),
        ([-0.010, +0.012, -0.011], [-0.010, +0.012, -0.011], "open"),
        ([-0.010, -0.012, -0.011], [math.inf, math.inf, math.inf], "differs"),
    ],
)
def test_every_large_lambda_has_a_say_in_what_agrees(
    results_of: Callable[..., Results], at_3_59: list[float], at_10: list[float], outcome: str
) -> None:
    experiment = dataclasses.replace(load_experiment("mnist", "paper"), metrics=("accuracy",))
    cells = {}
    for lam, gaps in ((3.59381366, at_3_59), (10.0, at_10)):
        cells["pl", lam] = [{"accuracy": 0.94} for _ in gaps]
        cells["de_pl", lam] = [{"accuracy": 0.94 + gap} for gap in gaps]
    findings = findings_of(results_of(experiment, cells))
    (found,) = [one for one in findings if "For λ ≥ 1" in one.text]
    assert found.text.startswith("At λ = 10, ")
    assert found.outcome == outcome
    clearly_not = "sign significantly differs at λ = 3.59." in found.text
    assert clearly_not == (at_3_59 == [-0.010, -0.012, -0.011])

"""λ_opt of each term: its table, its figure, and what is said beside the paper."""

from collections.abc import Callable
from typing import Any

import pytest
from matplotlib.figure import Figure

from dessl_paper.catalogue import load_experiment
from dessl_paper.kinds import probe
from dessl_paper.kinds.lambda_opt import (
    QUANTITIES,
    lambda_figure,
    lambda_findings,
    lambda_names,
    lambda_table,
    terms_of,
)
from dessl_paper.results import Results

PAPER = {"entropy": 1.67, "pseudo_label": 31.16, "fixmatch": 0.66}
Made = Callable[..., Results]


@pytest.fixture
def made(results_of: Callable[..., Results]) -> Made:
    """Results of some models, each with λ_opt by term; a range of λ goes from 0 to 2 λ_opt."""

    def build(*models: dict[str, float | None]) -> Results:
        experiment = load_experiment("lambda-opt", "fast")
        (method,) = [one.name for one in experiment.methods]
        splits = []
        for lams in models:
            metrics: dict[str, Any] = {}
            for term, lam in lams.items():
                metrics[f"lam_opt.{term}"] = lam
                if lam is not None:
                    metrics[f"standard_error.{term}"] = 0.05
                    metrics[f"regime_low.{term}"] = min(0.0, 2 * lam)
                    metrics[f"regime_high.{term}"] = max(0.0, 2 * lam)
            splits.append(metrics)
        return results_of(experiment, {(method, 0.0): splits})

    return build


def at(results: Results) -> tuple[Results, Any, str]:
    return results, results.blocks[0], next(iter(results.methods))


def test_each_term_has_its_quantities() -> None:
    names = lambda_names(load_experiment("lambda-opt", "fast"))
    assert len(names) == len(set(names)) == 6 * len(QUANTITIES)
    assert {"lam_opt.entropy", "rows.pseudo_label_confident"} < set(names)


def test_the_table_has_ours_the_paper_s_and_the_shared_range(made: Made) -> None:
    found = at(made({"entropy": 1.5, "other_term": -0.5}, {"entropy": 1.7, "other_term": 0.5}))
    assert terms_of(*found) == ["entropy", "other_term"]
    table = lambda_table(*found)
    entropy, other = (dict(zip(table.headings, row, strict=True)) for row in table.rows)
    assert entropy["unlabelled term"] == "entropy"
    assert entropy["λ_opt"].startswith("1.600 ± ")
    assert entropy["λ_opt"].endswith("(2)")
    assert entropy["paper's"] == "1.670"
    assert entropy["off by"] == "−0.070"
    assert entropy["its standard error over test rows"] == "0.050"
    last = table.headings[-1]
    assert entropy[last] == "0.000 to 3.000"
    assert other["unlabelled term"] == "other term"
    assert other["paper's"] == "–"
    assert other[last] == "none"  # from −1 to 0, and from 0 to 1
    assert "ρ(L, H)" not in table.headings  # nobody has one


def test_a_model_that_is_confident_in_no_row_is_ignored(made: Made) -> None:
    found = at(made({"entropy": 1.5}, {"entropy": None}))
    (row,) = lambda_table(*found).rows
    assert row[-1] == "0.000 to 3.000"
    assert row[1] == "1.500 (1)"


def test_findings_compare_each_term_and_their_order(made: Made) -> None:
    near = {term: value * 1.0001 for term, value in PAPER.items()}
    *each, order = lambda_findings(*at(made(PAPER, near)))
    assert [one.outcome for one in each] == ["agrees"] * 3
    assert "λ_opt of pseudo label: " in each[1].text
    assert order.outcome == "agrees"
    assert order.text == (
        "In increasing order of λ_opt: fixmatch, entropy and pseudo label; in the paper: fixmatch, "
        "entropy and pseudo label."
    )


def test_another_order_is_said(made: Made) -> None:
    other = {"entropy": 40.0, "pseudo_label": 30.0}
    near = {"entropy": 40.01, "pseudo_label": 30.01}
    first, _, order = lambda_findings(*at(made(other, near)))
    assert first.outcome == order.outcome == "differs"
    assert "order of λ_opt: pseudo label and entropy; in the paper: entropy and" in order.text


def test_one_run_leaves_everything_open(made: Made) -> None:
    found = list(lambda_findings(*at(made(PAPER))))
    assert {one.outcome for one in found} == {"open"}
    assert "one run, no interval" in found[0].text
    (alone,) = lambda_findings(*at(made({"entropy": 1.67, "unknown": 2.0})))
    assert "entropy" in alone.text  # the paper has no number for the other


@pytest.mark.parametrize(("lam", "scale"), [(0.5, "log"), (-0.5, "linear")])
def test_the_axis_is_logarithmic_where_it_can_be(
    made: Made, shown: list[Figure], lam: float, scale: str
) -> None:
    found = at(made({"entropy": lam, "fixmatch": 0.7}))
    assert lambda_figure(*found) is not None
    (axes,) = shown[0].axes
    assert axes.get_xscale() == scale
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["entropy", "fixmatch"]
    paper = [line.get_xdata()[0] for line in axes.lines if line.get_markerfacecolor() == "none"]
    assert paper == [1.67, 0.66]


def test_without_terms_there_is_no_figure(made: Made) -> None:
    found = at(made({}))
    assert lambda_figure(*found) is None
    assert list(lambda_findings(*found)) == []


def test_of_several_models_each_table_and_figure_names_its_own(
    results_of: Callable[..., Results], shown: list[Figure]
) -> None:
    experiment = load_experiment("confidence", "paper")
    lams = [{"lam_opt.entropy": 1.0}, {"lam_opt.entropy": 1.2}]
    results = results_of(experiment, {("complete_case", 0.0): lams, ("longer", 0.0): lams})
    captions = [table.caption for table in probe.tables(results)]
    assert captions == [
        "cifar10, 4,000 labels, 23,000 steps: λ_opt of each term",
        "cifar10, 4,000 labels, 60,000 steps: λ_opt of each term",
    ]
    assert len(probe.figures(results)) == 2
    titles = [figure.get_suptitle().splitlines()[-1] for figure in shown]
    assert list(dict.fromkeys(titles)) == [caption.split(":")[0] for caption in captions]

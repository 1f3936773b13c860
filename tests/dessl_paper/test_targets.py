"""The paper's numbers, in our units."""

import math
from collections.abc import Callable
from pathlib import Path

import pytest

from dessl_paper.catalogue import load_experiment
from dessl_paper.results import Block, Results, read_results
from dessl_paper.targets import (
    GRIDS,
    paper_classes,
    paper_curve,
    paper_p_value,
    paper_targets,
    printed,
)


@pytest.mark.parametrize("name", sorted(paper_targets()["curves"]))
def test_every_curve_has_a_lambda_for_each_value(name: str) -> None:
    for values in paper_targets()["curves"][name].values():
        assert len(values) == len(GRIDS[name])


def test_the_grids_are_those_of_the_experiments() -> None:
    for name in ("mnist", "cifar10-pseudo-label"):
        experiment = load_experiment(name, "paper")
        ours = experiment.method("pl").lams
        theirs = GRIDS[experiment.targets.removeprefix("curves.")][1:]
        assert ours == pytest.approx(theirs, rel=1e-3)


def test_curves_are_found_by_lambda_and_side(results_of: Callable[..., Results]) -> None:
    experiment = load_experiment("mnist", "paper")
    cells = {("complete_case", 0.0): [{}], ("pl", 10.0): [{}], ("de_pl", 10.0): [{}]}
    results = results_of(experiment, cells)
    block = results.blocks[0]
    assert printed(results, block, "pl", "cross_entropy", 10.0).mean == 0.8914
    assert printed(results, block, "de_pl", "cross_entropy", 10.0).mean == 0.2706
    assert printed(results, block, "complete_case", "accuracy", 0.0).mean == 0.9371
    assert math.isnan(printed(results, block, "pl", "accuracy", 7.0).mean)
    assert math.isnan(printed(results, block, "pl", "brier", 10.0).mean)
    assert paper_curve(results, "complete_case", "ece") == ((0.0,), (0.0336,))


def test_tables_are_percentages_in_the_paper_and_fractions_here(fixmatch: Results) -> None:
    block = fixmatch.blocks[0]
    accuracy = printed(fixmatch, block, "de_fixmatch", "accuracy", 0.5)
    assert accuracy == pytest.approx((0.9544, 0.0010))
    assert printed(fixmatch, block, "fixmatch", "worst_class_accuracy") == pytest.approx(
        (0.8225, 0.0227)
    )
    assert printed(fixmatch, block, "fixmatch", "brier") == (0.101, 0.003)
    assert math.isnan(printed(fixmatch, block, "supervised", "accuracy").mean)
    assert paper_p_value(fixmatch, "de_fixmatch", "accuracy") == 6.5e-5
    assert paper_classes(fixmatch, "de_fixmatch")[3] == pytest.approx(0.8716)
    assert paper_classes(fixmatch, "de_fixmatch_br")[3] == 0.78


def test_medical_sets_are_found_by_name(smoke: Callable[[str], Path]) -> None:
    results = read_results(smoke("medmnist"))
    derma, breast = results.blocks
    assert printed(results, derma, "pl", "balanced_accuracy") == pytest.approx((0.2203, 0.0145))
    assert printed(results, breast, "complete_case", "auc") == pytest.approx((0.7467, 0.0368))
    assert math.isnan(printed(results, breast, "pl", "balanced_accuracy").mean)


def test_the_toy_example_and_lambda_opt_have_their_own(smoke: Callable[[str], Path]) -> None:
    toy = read_results(smoke("toy"))
    assert printed(toy, toy.blocks[0], "de_entropy", "overlap_posterior").mean == 0.23
    assert printed(toy, toy.blocks[0], "entropy", "training_cross_entropy").mean == 0.326
    probe = read_results(smoke("lambda-opt"))
    found = printed(probe, Block("cifar10", 1), "complete_case", "lam_opt.pseudo_label")
    assert found.mean == 31.16
    assert math.isnan(printed(probe, Block("a", 1), "complete_case", "lam_opt.other").mean)

"""The demonstration: paired runs, each as it would be alone."""

import dataclasses

import pytest
import torch

from dessl.data import draw_labels, load
from dessl.evaluation import evaluate
from dessl.surrogates import PseudoLabel
from dessl.training import train
from dessl_paper.demo import ALL_LABELS, METHODS, VIEW, DemoPlan, network, run_demo, shown


def test_a_run_of_the_demonstration_is_the_run_that_train_gives() -> None:
    plan = DemoPlan(steps=6, seeds=2, first_seed=4)
    result = run_demo(plan, progress=False)
    assert [(run.method, run.seed) for run in result.runs] == [
        (method, seed) for method in (*METHODS, ALL_LABELS) for seed in (4, 5)
    ]
    assert [(run.method, run.lam) for run in result.sweep[::2]] == [
        (method, lam) for method in list(METHODS)[1:] for lam in plan.other_lams
    ]
    data = load("digits")
    generator = torch.Generator().manual_seed(5)
    drawn = data.with_labels(draw_labels(data.y, 100, n_validation=20, generator=generator))
    alone = train(
        network,
        PseudoLabel(plan.threshold, view=VIEW),
        drawn,
        dataclasses.replace(plan.training, seed=5, risk="debiased"),
        transform=shown,
    )
    assert data.test is not None
    wanted = evaluate(alone.model, data.test.x, data.test.y, transform=shown)
    found = result.runs[5]
    assert (found.method, found.seed) == ("DePseudoLabel", 5)
    assert found.metrics["cross_entropy"] == pytest.approx(wanted.cross_entropy, rel=0.02)
    assert found.history[0]["loss"] == pytest.approx(alone.history[0].loss, rel=0.02)


def test_all_labels_are_all_but_those_that_choose_the_step() -> None:
    result = run_demo(DemoPlan(steps=60, seeds=2), progress=False)
    accuracy = {
        method: [run.metrics["accuracy"] for run in result.runs if run.method == method]
        for method in (ALL_LABELS, "complete case")
    }
    assert min(accuracy[ALL_LABELS]) > max(accuracy["complete case"])
    assert result.data.n_labelled == 80


@pytest.mark.parametrize("wrong", [{"steps": 0}, {"seeds": 1}, {"labels": 1.5}, {"first_seed": -1}])
def test_settings_that_cannot_run_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises((TypeError, ValueError), match=f"{next(iter(wrong))} must be"):
        DemoPlan(**wrong)

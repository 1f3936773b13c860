"""What runs of a population have of their own, and what they must agree in to resume."""

import copy
import dataclasses
from typing import Any

import pytest
import torch
from torch import nn

from dessl import SemiData
from dessl.data import LabelDraw, draw_labels
from dessl.surrogates import Entropy
from dessl.training import TrainPlan, train, train_population
from dessl.training.stacked_runs import Population, PopulationRun

PLAN = TrainPlan(steps=4, labelled_batch=4, unlabelled_batch=6, evaluate_every=2, lam=9.0, seed=9)


def rows() -> SemiData:
    x = torch.randn(60, 3, generator=torch.Generator().manual_seed(0))
    return SemiData(x, (x[:, 0] > 0).long())


def drawn(split: int, *, validation: int = 10) -> LabelDraw:
    generator = torch.Generator().manual_seed(split)
    return draw_labels(rows().y, 24, n_validation=validation, generator=generator)


def population(plan: TrainPlan = PLAN, *, validation: int = 10, **other: Any) -> Population:
    runs = [
        PopulationRun(0, drawn(0, validation=validation), 0.5, "debiased"),
        PopulationRun(1, drawn(1, validation=validation), 2.0, "debiased"),
    ]
    runs[1] = dataclasses.replace(runs[1], **other)
    models = []
    for run in runs:
        torch.manual_seed(run.seed)
        models.append(nn.Linear(3, 2))
    return Population(models, Entropy(), rows(), runs, plan, None)


@pytest.mark.parametrize(
    ("risk", "keeps"), [("debiased", True), ("ssl", False), ("complete_case", False)]
)
def test_a_run_s_plan_is_the_shared_one_with_its_own_numbers(risk: Any, *, keeps: bool) -> None:
    shared = dataclasses.replace(PLAN, on="all", bound="nonnegative")
    own = PopulationRun(3, drawn(0), 0.25, risk).plan(shared)
    kept = {"on": "all", "bound": "nonnegative"} if keeps else {"on": "unlabelled", "bound": None}
    assert own == dataclasses.replace(shared, seed=3, lam=0.25, risk=risk, **kept)


def test_steps_move_each_model_and_results_have_the_selected_weights() -> None:
    made = population()
    before = [model.weight.detach().clone() for model in made.originals]
    for step in range(2):
        made.take(step)
        made.done = step + 1
    events = made.observe(0.0)
    assert [event.step for event in events] == [2, 2]
    made.take(2)  # after the evaluation: it is not selected
    first, second = made.results()
    for k, result in enumerate((first, second)):
        weight = result.model.weight.detach()  # type: ignore[union-attr]
        assert not torch.equal(weight, before[k])
        assert torch.equal(weight, made.kept["weight"][k])
        assert not torch.equal(weight, made.models.parameters["weight"][k])
        assert result.mode.startswith("population")
    assert (first.plan.lam, second.plan.lam) == (0.5, 2.0)


def test_a_state_that_is_put_back_goes_on_bit_for_bit() -> None:
    one, other = population(), population()
    one.take(0)
    saved = one.own_state()
    copied = saved._replace(
        state=copy.deepcopy(saved.state),
        weights={
            part: {name: value.detach().clone() for name, value in tensors.items()}
            for part, tensors in saved.weights.items()
        },
    )
    other.restore_from(copied)
    for made in (one, other):
        made.take(1)
    for name, value in one.models.parameters.items():
        assert torch.equal(value, other.models.parameters[name])


def test_identities_differ_in_what_matters() -> None:
    first = population().identity()
    assert first == population().identity()
    assert first["runs"] == 2
    for change in ({"lam": 0.6}, {"seed": 2}, {"risk": "ssl"}):
        assert population(**change).identity()["runs_sha256"] != first["runs_sha256"]
    moved = population(draw=drawn(5)).identity()
    assert moved["data"]["rows_sha256"] != first["data"]["rows_sha256"]
    longer = population(dataclasses.replace(PLAN, steps=5)).identity()
    assert longer["plan"] != first["plan"]


def test_only_the_chosen_runs_are_kept() -> None:
    made = population()
    before = {name: value.clone() for name, value in made.kept.items()}
    made.take(0)
    made._keep(torch.tensor([False, True]))
    for name, value in made.kept.items():
        assert torch.equal(value[0], before[name][0])
        assert torch.equal(value[1], made.models.parameters[name][1])
    assert not torch.equal(made.kept["weight"][1], before["weight"][1])


def test_selection_needs_validation_rows() -> None:
    population(dataclasses.replace(PLAN, select="last"), validation=0)
    with pytest.raises(ValueError, match="select='accuracy' needs validation rows"):
        population(dataclasses.replace(PLAN, select="accuracy"), validation=0)


def test_a_run_of_no_draw_or_an_unknown_risk_is_refused_when_it_is_made() -> None:
    with pytest.raises(ValueError, match=r"risk must be one of 'complete_case', .*; got 'deb'"):
        PopulationRun(0, drawn(0), 1.0, "deb")  # type: ignore[arg-type]
    for draw in (None, tuple(drawn(0))):
        with pytest.raises(TypeError, match=r"draw must be a LabelDraw; got .*draw_labels"):
            PopulationRun(0, draw)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("bias", "optimiser"), [(True, "adamw"), (False, "adamw"), (True, "sgd")], ids=str
)
def test_adamw_moves_no_more_than_a_cancelled_bias_by_rounding(
    *, bias: bool, optimiser: Any
) -> None:
    def normalised() -> nn.Module:
        first = nn.Linear(3, 8, bias=bias)
        return nn.Sequential(first, nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 2))

    shared = dataclasses.replace(
        PLAN, steps=10, learning_rate=0.01, optimiser=optimiser, labelled_batch=12
    )
    run = PopulationRun(3, drawn(0), 0.5, "ssl")
    (found,) = train_population(normalised, "entropy", rows(), [run], shared, progress=False)
    alone = train(
        normalised, "entropy", rows().with_labels(run.draw), run.plan(shared), progress=False
    )
    noise = {"0.bias", "1.running_mean"} if bias and optimiser == "adamw" else set()
    mine, theirs = found.model.state_dict(), alone.model.state_dict()
    for name in mine.keys() - noise:
        torch.testing.assert_close(mine[name], theirs[name], rtol=1e-4, atol=1e-4)

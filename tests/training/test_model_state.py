"""A model is kept whole, with buffers outside its ``state_dict``; what cannot be is refused."""

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from dessl.data import LabelDraw
from dessl.evaluation import evaluate
from dessl.surrogates import Entropy, MeanTeacher, Surrogate, as_is
from dessl.training import Event, PopulationRun, train, train_population
from dessl.training.model_state import begin_training, load_state_into, state_of


class StopError(Exception):
    pass


def stop_at_8(event: Event) -> None:
    if event.step == 8:
        raise StopError


class Centred(nn.Module):
    """Two layers with one weight, and a running mean that no ``state_dict`` has."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 2)
        self.second.weight = self.first.weight
        self.register_buffer("mean", torch.zeros(4), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.mean.lerp_(x.detach().mean(0), 0.1)
        return self.last(self.second(self.first(x - self.mean).relu()).relu())


class Telling(nn.Linear):
    """A layer with state outside its tensors."""

    def get_extra_state(self) -> dict[str, int]:
        return {"calls": 3}

    def set_extra_state(self, state: dict[str, int]) -> None:
        pass


def equal(one: nn.Module, other: nn.Module) -> bool:
    pairs = zip(state_of(one).items(), state_of(other).items(), strict=True)
    return all(mine == its and torch.equal(a, b) for (mine, a), (its, b) in pairs)


@pytest.mark.parametrize("ema", [0.0, 0.9])
def test_what_is_selected_is_what_was_evaluated(ema: float, make_data: Any, make_plan: Any) -> None:
    data = make_data()
    plan = make_plan(steps=60, select="cross_entropy", ema=ema)
    result = train(Centred, Entropy(), data, plan)
    chosen = next(event for event in result.history if event.step == result.step)
    assert result.step < result.steps  # or the test shows nothing
    found = evaluate(result.model, *data.validation)
    assert found.cross_entropy == chosen.validation["cross_entropy"]
    assert result.model.first.weight is result.model.second.weight


@pytest.mark.parametrize("select", ["last", "cross_entropy"])
@pytest.mark.parametrize("ema", [0.0, 0.9])
@pytest.mark.parametrize("surrogate", [Entropy, lambda: MeanTeacher(view=as_is)])
def test_a_resumed_run_has_every_buffer(
    surrogate: Any, ema: float, select: str, make_data: Any, make_plan: Any, tmp_path: Path
) -> None:
    plan = make_plan(ema=ema, select=select)

    def run(**options: Any) -> tuple[nn.Module, Surrogate]:
        term = surrogate()
        return train(Centred, term, make_data(), plan, **options).model, term

    model, term = run()
    with pytest.raises(StopError):
        run(out=tmp_path, callbacks=[stop_at_8])
    resumed, resumed_term = run(out=tmp_path)
    assert equal(model, resumed)
    assert equal(term, resumed_term)


def test_the_state_of_another_model_is_refused() -> None:
    wide, narrow = nn.Linear(4, 2), nn.Linear(4, 1)
    with pytest.raises(ValueError, match=r"does not fit the model: 'bias' of shape \(1,\)"):
        load_state_into(wide, state_of(narrow))  # which would broadcast
    with pytest.raises(ValueError, match=r"'bias' of shape \(2,\) is missing from it"):
        load_state_into(wide, {"weight": wide.weight})


@pytest.mark.parametrize("changes", [{"select": "accuracy"}, {"ema": 0.9}, {"out": True}])
def test_state_outside_of_tensors_is_refused_where_it_would_be_lost(
    changes: dict[str, Any], make_data: Any, make_plan: Any, tmp_path: Path
) -> None:
    out = tmp_path / "run" if changes.pop("out", False) else None
    with pytest.raises(ValueError, match=r"Telling has state outside.*Keep it in buffers"):
        train(Telling(4, 2), Entropy(), make_data(), make_plan(**changes), out=out)
    assert train(Telling(4, 2), Entropy(), make_data(), make_plan()).steps == 12


@pytest.mark.parametrize(
    ("model", "complaint"),
    [
        (lambda: Telling(4, 2), "Telling has state outside"),
        (lambda: nn.LazyLinear(2), "'weight' has no shape yet"),
    ],
)
def test_a_population_refuses_them_too(
    model: Any, complaint: str, make_data: Any, make_plan: Any
) -> None:
    rows = torch.arange(120)
    run = PopulationRun(0, LabelDraw(rows[:20], rows[:0], rows[20:]))
    with pytest.raises(ValueError, match=complaint):
        train_population(model, Entropy(), make_data(), [run, run], make_plan())


@pytest.mark.parametrize("changes", [{"weight_decay": 0.1}, {"optimiser": "muon"}, {"ema": 0.9}])
def test_layers_without_a_shape_are_refused(
    changes: dict[str, Any], make_data: Any, make_plan: Any
) -> None:
    model, data, plan = nn.LazyLinear(2), make_data(), make_plan(**changes)
    with pytest.raises(ValueError, match="Pass one batch through the model first"):
        train(model, Entropy(), data, plan)
    model(data.x[:1])
    assert train(model, Entropy(), data, plan).steps == 12


class Normed(nn.Module):
    """A model whose BatchNorm is frozen, as in fine-tuning."""

    def __init__(self, *, frozen: bool) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 2)
        self.norm.train(not frozen)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.last(self.norm(self.first(x)).relu())
        return logits


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize("frozen", [True, False])
def test_frozen_norms_keep_their_statistics(
    frozen: bool, alone: bool, make_data: Any, make_plan: Any
) -> None:
    data, plan = make_data(), make_plan(steps=6, evaluate_every=2, lam=0.5)
    if alone:
        model = train(Normed(frozen=frozen), "entropy", data, plan, progress=False).model
    else:
        draw = LabelDraw(data.labelled_rows, data.validation_rows, data.unlabelled_rows)
        runs = [PopulationRun(seed, draw, 0.5, "debiased") for seed in (0, 1)]
        found = train_population(lambda: Normed(frozen=frozen), "entropy", data, runs, plan)
        model = found[1].model
    assert isinstance(model, Normed)
    assert bool(model.norm.running_mean.any()) is not frozen
    assert not model.training


def test_a_backbone_loaded_in_evaluation_mode_is_trained() -> None:
    model = nn.Sequential(Normed(frozen=False).eval(), nn.Linear(2, 2))
    assert all(module.training for module in begin_training(model).modules())


@pytest.mark.parametrize("mode", ["frozen", "training", "evaluation"])
def test_only_statistics_that_follow_the_weights_can_be_too_slow(
    mode: str, make_data: Any, make_plan: Any
) -> None:
    model = Normed(frozen=False).train(mode != "evaluation")
    model.norm.train(mode == "training")
    model.norm.momentum = 0.01
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        train(model, MeanTeacher(), make_data(), make_plan(steps=2, lam=0.5), progress=False)
    said = [str(one.message) for one in caught if "momentum of 0.01" in str(one.message)]
    assert len(said) == (mode != "frozen")

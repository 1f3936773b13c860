"""The divergence guard: which term, which step, is λ past the bound, and what is kept."""

import math
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from dessl.surrogates import Combine, Entropy, FixMatch, FromFunction, MixMatch, Surrogate
from dessl.training import DivergenceError, train
from dessl.training.checkpoint import usable_checkpoints


def runs_off(logits: Tensor) -> Tensor:
    """An H whose debiased risk has no lower bound at any λ > 0."""
    return logits.square().sum(-1)


def test_an_exploding_risk_is_stopped_with_a_diagnosis(
    make_data: Any, make_model: Any, make_plan: Any, tmp_path: Path
) -> None:
    plan = make_plan(lam=1.0, steps=4000, learning_rate=0.02, risk_limit=1e3, evaluate_every=5)
    h = FromFunction(runs_off, bounded_up_to=0.0)
    with (
        pytest.warns(UserWarning, match="past FromFunction's bound, 0"),
        pytest.raises(DivergenceError, match="λ = 1 is past FromFunction's bound") as caught,
    ):
        train(make_model, h, make_data(), plan, out=tmp_path)
    error = caught.value
    assert error.term in ("h_labelled", "h_unlabelled")
    assert f"diverged at step {error.step}: H of" in str(error)
    _, kept = next(usable_checkpoints(tmp_path / "checkpoints"))
    assert kept.state["done"] == 5 * ((error.step - 1) // 5) < error.step
    assert f"of step {kept.state['done']}" in error.__notes__[0]
    for tensor in kept.weights["model"].values():
        assert torch.isfinite(tensor).all()


def test_a_checkpoint_that_was_not_saved_is_not_named(
    make_data: Any, make_model: Any, make_plan: Any, tmp_path: Path
) -> None:
    plan = make_plan(lam=1.0, steps=4000, learning_rate=0.02, risk_limit=1e3, evaluate_every=5)
    h = FromFunction(runs_off)
    with pytest.raises(DivergenceError) as caught:
        train(make_model, h, make_data(), plan, out=tmp_path, checkpoint_seconds=1000.0)
    assert caught.value.step > 5
    assert not hasattr(caught.value, "__notes__")


def test_the_guard_names_the_exact_step(make_data: Any, make_model: Any, make_plan: Any) -> None:
    steps = []
    for every, interval in ((0, 1), (0, 50), (7, 50)):
        plan = make_plan(
            lam=1.0,
            steps=4000,
            learning_rate=0.02,
            risk_limit=1e3,
            evaluate_every=interval,
            guard_every=every,
        )
        with pytest.raises(DivergenceError) as caught:
            train(make_model, runs_off, make_data(), plan)
        steps.append(caught.value.step)
    assert len(set(steps)) == 1


def test_an_error_survives_the_way_from_another_process() -> None:
    error = DivergenceError("it ran off", step=3, term="loss", value=math.inf)
    error.add_note("a checkpoint is kept")
    came = pickle.loads(pickle.dumps(error))
    assert (str(came), vars(came)) == ("it ran off", vars(error))


def test_weights_that_overflow_just_before_an_evaluation_are_named(
    make_data: Any, make_plan: Any
) -> None:
    def model() -> nn.Module:
        return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))

    plan = make_plan(learning_rate=1e25, evaluate_every=1)
    message = "diverged at step 1: a logit of a validation row was .*check the learning rate"
    with pytest.raises(DivergenceError, match=message) as caught:
        train(model, Entropy(), make_data(), plan)
    assert (caught.value.step, caught.value.term) == (1, "logits")


def test_logits_that_are_not_finite_are_named(
    make_data: Any, make_model: Any, make_plan: Any
) -> None:
    plan = make_plan(learning_rate=1e38, steps=10, optimiser="sgd")
    message = r"a logit of a labelled row was .*check the learning rate"
    with pytest.raises(DivergenceError, match=message) as caught:
        train(make_model, Entropy(), make_data(), plan)
    assert caught.value.term == "labelled_logits"
    assert not math.isfinite(caught.value.value)


def test_a_gradient_that_is_not_finite_is_named(
    make_data: Any, make_model: Any, make_plan: Any
) -> None:
    def kink(logits: Tensor) -> Tensor:
        return (logits - logits).square().sum(-1).sqrt()  # 0, with the gradient ∞ · 0

    message = r"at step 1: the gradient was nan.* L and H are finite"
    with pytest.raises(DivergenceError, match=message):
        train(make_model, kink, make_data(), make_plan(evaluate_every=1))


def test_bad_rows_of_one_kind_are_named(make_data: Any, make_plan: Any) -> None:
    def h(logits: Tensor) -> Tensor:
        return torch.where(logits[:, 0] > 100, torch.inf, logits[:, 0])

    data = make_data()
    data.x = torch.where(data.y[:, None] < 0, 1e3, data.x)
    model = nn.Linear(4, 2)
    nn.init.ones_(model.weight)
    with pytest.raises(DivergenceError, match="H of unlabelled rows was inf") as caught:
        train(model, h, data, make_plan())
    assert caught.value.step == 1


def test_lambda_past_the_bound_is_warned_of(
    make_data: Any, make_model: Any, make_plan: Any
) -> None:
    with pytest.warns(UserWarning, match=r"λ = 1 is past FixMatch's bound, 0.5"):
        train(make_model, FixMatch(), make_data(), make_plan(lam=1.0))
    for quiet in ({"lam": 0.5}, {"bound": "nonnegative"}, {"risk": "ssl"}):
        train(make_model, FixMatch(), make_data(), make_plan(steps=1, **quiet))


def test_the_bound_of_a_sum_is_that_of_its_views_in_a_new_object_too(
    make_data: Any, make_model: Any, make_plan: Any
) -> None:
    """FixMatch has 2 of 6 views and half of the weight: ½ · (2/6) / ½."""
    plan = make_plan(lam=0.45, steps=2)
    message = r"λ = 0\.45 is past Combine's bound, 0\.333333"
    combined = Combine([FixMatch(), MixMatch(augmentations=4)], weights=[0.5, 0.5])
    with pytest.warns(UserWarning, match=message) as caught:
        train(make_model, combined, make_data(), plan)
    assert [warning.filename for warning in caught] == [__file__]
    # Two of three views: the bound is ½ · (2/3) / ½, not ½ as with equal numbers of views.
    quiet = Combine([FixMatch(), Entropy()], weights=[0.5, 0.5])
    train(make_model, quiet, make_data(), make_plan(lam=0.6, steps=2))


def test_a_bound_that_nobody_stated_is_not_called_stated(
    make_data: Any, make_model: Any, make_plan: Any
) -> None:
    plan = make_plan(lam=5.0, steps=4000, learning_rate=0.02, risk_limit=1e3)
    message = (
        r"FromFunction states no bounded_up_to, so it is unknown whether .* lower lam, pass "
        r"bound='nonnegative', or smooth H .*; if it cannot, check the learning rate"
    )
    with pytest.raises(DivergenceError, match=message):
        train(make_model, runs_off, make_data(), plan)
    with pytest.raises(DivergenceError, match="FromFunction's stated bound, inf"):
        train(make_model, FromFunction(runs_off, bounded_up_to=math.inf), make_data(), plan)


def test_a_risk_without_a_bound_gets_no_advice_about_one(make_data: Any, make_plan: Any) -> None:
    plan = make_plan(evaluate_every=1, risk="ssl")
    usual = r"Check the learning rate and the scale of the data\."
    message = rf"with λ = [\d.]+\. {usual}( If the model excludes classes .*)?$"
    with pytest.raises(DivergenceError, match=message):
        train(nn.Linear(4, 2), Entropy(), make_data(), replace(plan, learning_rate=1e38))


@pytest.mark.parametrize("lam", [0.3, 3.0])
def test_nan_before_the_first_update_is_blamed_on_h_or_on_the_model(
    make_data: Any, make_model: Any, make_plan: Any, lam: float
) -> None:
    def h(logits: Tensor) -> Tensor:
        return (-logits.square().sum(-1)).log()

    plan = make_plan(lam=lam)
    h_alone = "at step 1: H of labelled rows was nan.* L is finite, so H itself is not"
    with pytest.raises(DivergenceError, match=h_alone):
        train(make_model, h, make_data(), plan)
    model = make_model()
    nn.init.constant_(next(model.parameters()), torch.nan)
    the_model = "at step 1: a logit of a labelled row was nan.* check the model's initial logits"
    with pytest.raises(DivergenceError, match=the_model):
        train(model, Entropy(), make_data(), plan)


class Masked(nn.Module):
    """A model of three classes that excludes the last one."""

    def __init__(self, excluded: float) -> None:
        super().__init__()
        self.linear, self.excluded = nn.Linear(4, 2), excluded

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([self.linear(x), torch.full_like(x[:, :1], self.excluded)], dim=1)


@pytest.mark.parametrize(
    ("surrogate", "where"),
    [
        (Entropy(), "validation"),  # its H is finite, so the step is taken
        (FromFunction(lambda logits: logits.exp().mul(logits).sum(-1)), "labelled"),
    ],
)
def test_a_class_excluded_by_an_infinite_logit_is_explained(
    make_data: Any, make_plan: Any, surrogate: Surrogate, where: str
) -> None:
    plan = make_plan(steps=2, evaluate_every=1)
    message = rf"step 1: a logit of a {where} row was -inf, .* number such as -1e4\.$"
    with pytest.raises(DivergenceError, match=message):
        train(Masked(-math.inf), surrogate, make_data(), plan)
    assert train(Masked(-1e4), surrogate, make_data(), plan).steps == 2

"""TrainPlan: contradictions and unknown settings are errors, JSON changes nothing."""

import json
from typing import Any

import numpy as np
import pytest

from dessl.evaluation import metrics_from_probabilities
from dessl.evaluation.metrics.vocabulary import METRICS
from dessl.schedules import FixMatchCosine, Ramp, schedule_from
from dessl.training.plan import TrainPlan


def test_a_plan_is_the_same_after_json() -> None:
    plan = TrainPlan(
        epochs=3, schedule=FixMatchCosine(), ramp={"name": "ramp", "until": 0.3}, select="brier"
    )
    assert plan.ramp == Ramp(until=0.3)
    assert TrainPlan.from_dict(json.loads(json.dumps(plan.as_dict()))) == plan


def test_a_plan_from_before_patience_after_is_the_same() -> None:
    plan = TrainPlan(steps=3, select="brier", patience=2)
    assert "patience_after" not in plan.as_dict()
    later = TrainPlan(steps=3, select="brier", patience=2, patience_after=1)
    assert TrainPlan.from_dict(json.loads(json.dumps(later.as_dict()))) == later


def test_numpy_s_numbers_become_json_s() -> None:
    plan = TrainPlan(
        steps=np.int64(3), learning_rate=np.float32(0.5), seed=np.uint8(1), nesterov=np.bool_(True)
    )
    assert plan == TrainPlan(steps=3, learning_rate=0.5, seed=1)
    assert TrainPlan.from_dict(json.loads(json.dumps(plan.as_dict()))) == plan


def test_selection_metrics_are_numbers_that_evaluation_gives() -> None:
    metrics = metrics_from_probabilities([[0.9, 0.1], [0.4, 0.6], [0.2, 0.8]], [0, 0, 1])
    for name in METRICS:
        assert isinstance(getattr(metrics, name), float)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({}, ValueError, "exactly one of steps and epochs"),
        ({"steps": 1, "epochs": 1}, ValueError, "exactly one of steps and epochs"),
        ({"steps": 0}, ValueError, "steps must be at least 1; got 0"),
        ({"steps": 1.0}, TypeError, "steps must be a whole number"),
        ({"steps": 1, "labelled_batch": 0}, ValueError, "labelled_batch must be at least 1"),
        ({"steps": 1, "optimiser": "adam"}, ValueError, "optimiser must be one of 'sgd', 'adamw'"),
        ({"steps": 1, "learning_rate": 0}, ValueError, r"learning_rate must lie in \(0, inf\)"),
        ({"steps": 1, "lam": float("nan")}, ValueError, "lam must lie in"),
        ({"steps": 1, "ema": 1.0}, ValueError, r"ema must lie in \[0, 1\)"),
        ({"steps": 1, "schedule": "cos"}, ValueError, "name of a schedule must be one of"),
        ({"steps": 1, "nesterov": 1}, TypeError, "nesterov must be True or False"),
        ({"steps": 1, "nesterov": True, "momentum": 0}, ValueError, "Pass nesterov=False"),
        ({"steps": 1, "optimiser": "adamw", "momentum": 0.5}, ValueError, "AdamW has none"),
        (
            {"steps": 1, "risk": "inverse_propensity", "include_labelled": True},
            ValueError,
            "risk='inverse_propensity' adds labelled rows.*count twice",
        ),
        ({"steps": 1, "risk": "ssl", "on": "all"}, ValueError, "requires risk='debiased'"),
        (
            {"steps": 1, "risk": "ssl", "bound": "nonnegative"},
            ValueError,
            "requires risk='debiased'",
        ),
        ({"steps": 1, "on": "all", "include_labelled": True}, ValueError, "would count twice"),
        ({"steps": 1, "unlabelled_batch": 0}, ValueError, "Use risk='complete_case'"),
        ({"steps": 1, "patience": 2}, ValueError, "got select='last'"),
        ({"steps": 1, "patience_after": -1}, ValueError, "patience_after must be at least 0"),
        ({"steps": 1, "select": "loss"}, ValueError, "select must be one of 'last', 'accuracy'"),
        ({"steps": 1, "precision": "fp16"}, ValueError, "precision must be one of"),
        (
            {"steps": 1, "seed": 2**64},
            ValueError,
            "seed must be between 0 and 18446744073709551615",
        ),
        ({"steps": 1, "risk_limit": 0}, ValueError, "risk_limit must lie in"),
    ],
)
def test_wrong_and_contradictory_settings_are_refused(
    settings: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        TrainPlan(**settings)


@pytest.mark.parametrize("name", ["linear", "cosine", "fixmatch_cosine", "steps"])
def test_a_mere_name_does_not_lower_lambda(name: str) -> None:
    falling = schedule_from(name)
    message = rf"ramp='{name}' lowers λ .* 'linear_ramp' .*schedules\.{type(falling).__name__}\(\)"
    with pytest.raises(ValueError, match=message):
        TrainPlan(steps=1, ramp=name)
    meant = TrainPlan(steps=1, ramp=falling)
    assert TrainPlan.from_dict(meant.as_dict()) == meant
    for rising in ("constant", "ramp", "linear_ramp"):
        TrainPlan(steps=1, ramp=rising)


def test_unknown_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="no setting 'colour'; it has steps, epochs"):
        TrainPlan.from_dict({"steps": 1, "colour": 2})
    with pytest.raises(ValueError, match="no setting 'lambda'; did you mean 'lam'"):
        TrainPlan.from_dict({"steps": 1, "lambda": 2})
    with pytest.raises(TypeError, match=r"must be a dict by name, as as_dict.*; got list"):
        TrainPlan.from_dict([1])


def test_steps_of_a_run_and_between_evaluations() -> None:
    mnist = TrainPlan(epochs=1024, labelled_batch=72, unlabelled_batch=400)
    assert mnist.total_steps(900) == 1024 * 12  # the paper's figure
    assert mnist.evaluation_interval(900) == 12
    assert TrainPlan(epochs=3, labelled_batch=72).total_steps(10) == 3
    assert TrainPlan(steps=1000).evaluation_interval(10) == 50
    assert TrainPlan(steps=1000, evaluate_every=7).evaluation_interval(10) == 7
    assert TrainPlan(steps=5, risk="complete_case").drawn_unlabelled == 0


def test_lam_auto_says_what_to_use() -> None:
    with pytest.raises(TypeError, match=r"got 'auto'\. .*online=True; .*DeSSLClassifier"):
        TrainPlan(steps=1, lam="auto")

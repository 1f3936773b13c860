"""What a run tells at its evaluations, and which of them is selected."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

from dessl import SemiData, evaluate
from dessl.surrogates import Entropy, PseudoLabel
from dessl.training import Event, train
from dessl.training.member import Member, Selection
from dessl.training.plan import TrainPlan
from dessl.training.totals import NAMES


@pytest.mark.parametrize(("ties", "kept"), [("first", 2), ("last", 4)])
def test_of_equally_good_evaluations_the_plan_says_which_is_kept(ties: str, kept: int) -> None:
    plan = TrainPlan(steps=5, select="accuracy", patience=9, ties=ties)
    selection = Selection()
    for step, value in enumerate([0.5, 0.8, 0.7, 0.8, math.nan], start=1):
        selection.take(value, step, plan)
    assert (selection.step, selection.value, selection.waited) == (kept, 0.8, 3)


@pytest.mark.parametrize("select", ["accuracy", "cross_entropy"])
def test_the_best_evaluation_is_kept(
    select: str, make_data: Any, make_model: Any, make_plan: Any
) -> None:
    data = make_data()
    plan = make_plan(select=select, steps=40, learning_rate=0.5)
    result = train(make_model, Entropy(), data, plan)
    seen = [event.validation[select] for event in result.history]
    best = max(seen) if select == "accuracy" else min(seen)
    assert result.step == result.history[seen.index(best)].step
    metrics = evaluate(result.model, data.validation.x, data.validation.y)
    assert getattr(metrics, select) == pytest.approx(best)
    assert [event.step for event in result.history if event.best][-1] == result.step


def test_a_metric_that_is_never_a_number_selects_the_last(
    make_data: Any, make_model: Any, make_plan: Any
) -> None:
    data = make_data()
    one_class = SemiData(data.x, data.y, validation=(data.x[:4], torch.zeros(4, dtype=torch.long)))
    with pytest.warns(UserWarning, match="'auc' is undefined .* the last weights are kept") as told:
        chosen = train(make_model, Entropy(), one_class, make_plan(select="auc"))
    assert len(told) == 1  # of three evaluations
    last = train(make_model, Entropy(), one_class, make_plan())
    assert chosen.step == 12
    kept, other = chosen.model.state_dict(), last.model.state_dict()
    assert all(torch.equal(kept[name], other[name]) for name in other)


@pytest.mark.parametrize(("after", "ended"), [(0, 3), (10, 12), (11, 13), (40, 20)])
def test_patience_begins_after_so_many_steps(after: int, ended: int) -> None:
    plan = TrainPlan(
        steps=20, evaluate_every=1, select="accuracy", patience=2, patience_after=after
    )
    member = Member(plan, n_labelled=8)
    means = dict.fromkeys(NAMES, 0.0)
    for step in range(1, 21):
        value = 0.9 if step == 1 else 0.5
        member.evaluated(step, means, 1.0, validation={"accuracy": value})
        if member.ended:
            break
    assert step == ended
    assert member.selection.step == 1


def test_patience_ends_a_run(make_data: Any, make_model: Any, make_plan: Any) -> None:
    plan = make_plan(select="cross_entropy", patience=2, steps=400, learning_rate=0.5)
    result = train(make_model, Entropy(), make_data(), plan)
    assert result.steps == result.step + 2 * 4 < 400


@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_events_report_what_happened(
    precision: str, make_data: Any, make_model: Any, make_plan: Any, tmp_path: Path
) -> None:
    plan = make_plan(lam=0.5, schedule="linear", ema=0.5, unlabelled_batch=100, precision=precision)
    events: list[Event] = []
    data = make_data()
    result = train(
        make_model, PseudoLabel(0.7), data, plan, callbacks=iter([events.append]), out=tmp_path
    )
    assert tuple(events) == result.history
    lines = (tmp_path / "history.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [4, 8, 12]
    last = events[-1]
    expected = last.loss + 0.5 * (last.h_unlabelled - last.h_labelled)
    assert last.risk == pytest.approx(expected, rel=1e-6)
    assert last.learning_rate == pytest.approx(0.1 / 12)
    assert (last.epoch, last.lam, last.steps) == (6, 0.5, 12)
    assert 0 < last.mask_labelled <= 1
    assert 0 < last.mask_unlabelled <= 1
    assert last.gradient_norm > 0
    assert last.steps_per_second > 0
    metrics = evaluate(result.model, data.validation.x, data.validation.y)
    assert last.validation["cross_entropy"] == pytest.approx(metrics.cross_entropy)

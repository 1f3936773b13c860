"""What a run tells at its evaluations, and what it selects by them."""

import json
from pathlib import Path
from typing import Any

import pytest

from dessl import evaluate
from dessl.surrogates import PseudoLabel
from dessl.training import Event, train


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

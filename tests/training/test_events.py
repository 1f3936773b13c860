"""What a run tells at its evaluations, and what it selects by them."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dessl import SemiData, evaluate
from dessl.data import LabelDraw
from dessl.surrogates import Entropy, FixMatch, PseudoLabel
from dessl.training import Event, train


def weights(model: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[key], other[key]) for key in one)


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


class Watched(Entropy):
    """Notes the ids of the rows that it is shown at evaluations."""

    def forward(self, model: Any, rows: Any) -> Any:
        if not torch.is_grad_enabled():
            self.seen = rows.ids.tolist()
        return super().forward(model, rows)


def test_validation_rows_go_by_ids_that_no_training_row_has(
    make_data: Any, make_model: Any, make_plan: Any
) -> None:
    data, term = make_data(), Watched()
    train(make_model, term, data, make_plan())
    assert term.seen == list(range(120, 160))
    ids = torch.arange(120).flip(0) * 2
    held_out = SemiData(data.x, data.y, ids=ids).with_labels(
        LabelDraw(torch.arange(10), torch.arange(10, 20), torch.arange(20, 120))
    )
    train(make_model, term, held_out, make_plan())
    assert term.seen == ids[10:20].tolist()


def test_the_live_lambda_is_the_regression_slope(
    make_data: Any, make_model: Any, make_plan: Any
) -> None:
    data = make_data()
    result = train(make_model, Entropy(), data, make_plan())
    logits = result.model(data.validation.x).detach().double()
    h = torch.distributions.Categorical(logits=logits).entropy().numpy()
    loss = F.cross_entropy(logits, data.validation.y, reduction="none").numpy()
    from scipy import stats

    line = stats.linregress(h, loss)
    shrink = max(0.0, 1 - (line.stderr / line.slope) ** 2)
    last = result.history[-1]
    assert last.correlation == pytest.approx(line.rvalue, rel=1e-4)
    assert last.lam_opt == pytest.approx(100 / 120 * line.slope * shrink, rel=1e-3, abs=1e-6)


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
    with pytest.warns(UserWarning, match="'auc' has no value .* the last weights are kept") as told:
        chosen = train(make_model, Entropy(), one_class, make_plan(select="auc"))
    assert len(told) == 1  # of three evaluations
    last = train(make_model, Entropy(), one_class, make_plan())
    assert chosen.step == 12
    assert same(weights(chosen.model), weights(last.model))


def test_patience_ends_a_run(make_data: Any, make_model: Any, make_plan: Any) -> None:
    plan = make_plan(select="cross_entropy", patience=2, steps=400, learning_rate=0.5)
    result = train(make_model, Entropy(), make_data(), plan)
    assert result.steps == result.step + 2 * 4 < 400


def test_lambda_past_the_bound_is_warned_of(
    make_data: Any, make_model: Any, make_plan: Any
) -> None:
    with pytest.warns(UserWarning, match=r"λ = 1 is past FixMatch's bound, 0.5"):
        train(make_model, FixMatch(), make_data(), make_plan(lam=1.0))
    for quiet in ({"lam": 0.5}, {"bound": "nonnegative"}, {"risk": "ssl"}):
        train(make_model, FixMatch(), make_data(), make_plan(steps=1, **quiet))


def test_images_are_evaluated_as_levels_unless_said_otherwise(make_plan: Any) -> None:
    images = torch.randint(256, (60, 1, 4, 4), dtype=torch.uint8)
    y = torch.arange(60) % 2
    labels = torch.where(torch.arange(40) < 20, y[:40], -1)
    data = SemiData(images[:40], labels, validation=(images[40:], y[40:]))

    def model() -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Linear(16, 2))

    surrogate = FixMatch()
    result = train(model, surrogate, data, make_plan(steps=2, lam=0.5))
    expected = evaluate(result.model, images[40:], y[40:], transform=lambda x: x / 255)
    found = result.history[-1].validation
    assert found["cross_entropy"] == pytest.approx(expected.cross_entropy)
    scaled = train(
        model, surrogate, data, make_plan(steps=2, lam=0.5), transform=lambda x: 2 * (x / 255)
    )
    assert scaled.history[-1].validation["cross_entropy"] != pytest.approx(expected.cross_entropy)

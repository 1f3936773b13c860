"""What validation rows say during training."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from dessl import SemiData, evaluate
from dessl.data import LabelDraw
from dessl.objective import RiskKind
from dessl.surrogates import Entropy, FixMatch
from dessl.training import TrainPlan, train
from dessl.training.watch import not_held_out


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


@pytest.mark.parametrize("risk", ["debiased", "complete_case"])
@pytest.mark.parametrize("held_out", [True, False])
def test_training_warns_of_a_model_of_probabilities(*, held_out: bool, risk: RiskKind) -> None:
    x = torch.randn(60, 2, generator=torch.Generator().manual_seed(0))
    y = (x[:, 0] > 0).long()
    labels = torch.where(torch.arange(40) < 20, y[:40], -1)
    data = SemiData(x[:40], labels, validation=(x, y) if held_out else None)
    model = nn.Sequential(nn.Linear(2, 2), nn.Softmax(1))
    plan = TrainPlan(steps=2, labelled_batch=10, unlabelled_batch=20, risk=risk, evaluate_every=2)
    with pytest.warns(UserWarning, match="seems to return probabilities") as told:
        train(model, "entropy", data, plan)
    assert len(told) == 1


def test_equal_rows_are_no_leak_if_they_are_few_or_equal_by_chance(make_data: Any) -> None:
    data = make_data()
    x, y = data.x[:20], data.y[:20]
    new = data.validation.x[:3]
    for n in (1, 17, 18, 20):  # of 20 validation rows
        held_out = torch.cat([x[:n], new.repeat(7, 1)[: 20 - n]])
        said = not_held_out(SemiData(data.x, data.y, validation=(held_out, y)))
        assert said.startswith(f"{n} of the 20 validation rows") == (n >= 18)
    other = not_held_out(SemiData(data.x, data.y, validation=(x, 1 - y)))
    assert other == ""  # the same rows with other labels are other cases
    drawn = LabelDraw(torch.arange(10), torch.arange(10, 20), torch.arange(20, 120))
    assert not_held_out(SemiData(data.x, data.y).with_labels(drawn)) == ""


@pytest.mark.parametrize("n_validation", [10, 40, 1000])
@pytest.mark.parametrize("values", [2, 8, 30, 100])
def test_a_table_of_few_distinct_rows_gives_no_false_alarm(values: int, n_validation: int) -> None:
    for seed in range(10):
        generator = torch.Generator().manual_seed(seed)
        x = torch.randint(values, (40 + n_validation, 1), generator=generator).float()
        y = (x[:, 0] >= values // 2).long()
        assert not_held_out(SemiData(x[:40], y[:40], validation=(x[40:], y[40:]))) == ""

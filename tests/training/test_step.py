"""A step and its averaged weights, against the same by hand."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dessl import Batches, SemiData
from dessl.surrogates import Entropy, Model, Rows, Scores, Surrogate
from dessl.training import train
from dessl.training.step import WeightAverage


class Noting(Entropy):
    """Notes the types of the scores that a step ends with."""

    def after_step(self, model: Any, rows: Any, scores: Any) -> None:
        self.types = {scores.h.dtype, scores.logits.dtype}


class Counted(nn.Module):
    """A model with a whole number among its parameters."""

    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 2, dtype=dtype)
        self.groups = nn.Parameter(torch.tensor(3), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.linear(x.to(self.linear.weight.dtype))
        return logits


@pytest.mark.parametrize("bound", [None, "nonnegative"])
def test_on_all_rows_is_the_all_data_form_whatever_the_batches_hold(
    bound: Any, make_data: Any, make_plan: Any
) -> None:
    """In one step of all 20 labelled rows and 40 of the 100 unlabelled ones."""
    plan = make_plan(
        steps=1, lam=3.0, on="all", bound=bound, labelled_batch=20, unlabelled_batch=40
    )
    data, model = make_data(), nn.Linear(4, 2)
    with torch.no_grad():
        batch = next(Batches(data, 20, 40, seed=plan.seed))
        logits = model(torch.cat([batch.x_labelled, batch.x_unlabelled]))
        p = logits.softmax(-1)
        h = -(p * p.log()).sum(-1)
        loss, labelled, unlabelled = F.cross_entropy(logits[:20], batch.y), h[:20], h[20:]
        everywhere = (20 * labelled.mean() + 100 * unlabelled.mean()) / 120
        expected = loss + 3 * (everywhere - labelled.mean())
        if bound:
            expected = 3 * everywhere + (loss - 3 * labelled.mean()).clamp(min=0)
    (event,) = train(model, Entropy(), data, plan).history
    assert event.risk == pytest.approx(expected.item(), rel=1e-5)
    assert event.h_unlabelled == pytest.approx(everywhere.item(), rel=1e-5)


def test_risks_are_taken_of_float32_scores(make_data: Any, make_plan: Any) -> None:
    term = Noting()
    train(nn.Linear(4, 2), term, make_data(), make_plan(precision="bf16"))
    assert term.types == {torch.float32}


def test_the_average_is_a_plain_mean_at_first() -> None:
    model = nn.Linear(1, 1, bias=False)
    average = WeightAverage(model, decay=0.99)
    values = [model.weight.item()]
    for step in range(5):
        nn.init.constant_(model.weight, float(step))
        average.follow(model)
        values.append(float(step))
    assert average.model.weight.item() == pytest.approx(sum(values) / len(values))


def test_whole_numbers_are_copied_into_the_average(make_data: Any, make_plan: Any) -> None:
    result = train(Counted(), Entropy(), make_data(), make_plan(ema=0.9))
    assert result.model.groups == 3


def test_an_average_of_half_precision_is_refused(make_data: Any, make_plan: Any) -> None:
    data, half = make_data(), Counted(torch.bfloat16)
    with pytest.raises(TypeError, match=r"got torch\.bfloat16\. Keep the model"):
        train(half, Entropy(), data, make_plan(ema=0.9))
    assert train(half, Entropy(), data, make_plan()).steps == 12


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_weights_of_another_type_than_the_rows_are_explained(
    make_data: Any, make_model: Any, make_plan: Any, dtype: torch.dtype
) -> None:
    name = str(dtype).removeprefix("torch.")
    message = rf"cannot compute on float32 rows: its weights are {name}\. .*model\.float\(\)"
    with pytest.raises(TypeError, match=message):
        train(lambda: make_model().to(dtype), Entropy(), make_data(), make_plan())
    train(lambda: Counted(torch.float64), Entropy(), make_data(), make_plan())  # converts its rows


class LooksUp(nn.Module):
    """Looks up embeddings of whole numbers, by one of several ways."""

    def __init__(self, way: str, *, converts: bool) -> None:
        super().__init__()
        self.way, self.converts = way, converts
        self.table = nn.Embedding(4, 2)
        self.bag = nn.EmbeddingBag(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = x.long() if self.converts else x
        if self.way == "one_hot":
            return self.table.weight.sum() + nn.functional.one_hot(x, 4).sum(1).float()[:, :2]
        return self.bag(x) if self.way == "bag" else self.table(x).mean(1)


@pytest.mark.parametrize("way", ["bag", "embedding", "one_hot"])
def test_a_model_that_looks_up_whole_numbers_is_told_to_convert_them(
    way: str, make_plan: Any
) -> None:
    x = torch.randint(4, (40, 3), generator=torch.Generator().manual_seed(0))
    data = SemiData(x, [0, 1] * 5 + [-1] * 30)
    message = r"SemiData holds numbers as float32\. Call x\.long\(\) in its forward\."
    with pytest.raises(TypeError, match=message):
        train(LooksUp(way, converts=False), Entropy(), data, make_plan())
    assert train(LooksUp(way, converts=True), Entropy(), data, make_plan()).steps == 12


class Returning(Surrogate):
    """Returns what a function makes of H and the logits."""

    def __init__(self, made: Any) -> None:
        super().__init__()
        self.made = made

    def forward(self, model: Model, rows: Rows) -> Scores:
        logits = model(rows.x)
        scores: Scores = self.made(logits.softmax(-1).square().sum(-1), logits.unsqueeze(0))
        return scores


@pytest.mark.parametrize(
    ("made", "got"),
    [
        (lambda h, _: h, "Tensor"),
        (lambda h, _: (h,), "tuple of Tensor"),
        (lambda h, _: (h, 2.0), "tuple of Tensor, float"),
        (lambda *_: None, "NoneType"),
    ],
)
def test_a_surrogate_that_returns_no_scores_is_explained(
    make_data: Any, make_model: Any, make_plan: Any, made: Any, got: str
) -> None:
    message = rf"Returning\.forward must return dessl\.Scores\(h, logits\), .* it returned {got}\."
    with pytest.raises(TypeError, match=message):
        train(make_model, Returning(made), make_data(), make_plan())


def test_a_plain_pair_will_do(make_data: Any, make_model: Any, make_plan: Any) -> None:
    pair, scores = (
        train(make_model, Returning(made), make_data(), make_plan(steps=1)).model.state_dict()
        for made in (lambda *pair: pair, Scores)
    )
    assert pair.keys() == scores.keys()
    assert all(value.equal(scores[name]) for name, value in pair.items())

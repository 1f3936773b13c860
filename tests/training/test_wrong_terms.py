"""What train says of models and terms that return the wrong thing, or nothing of use."""

from typing import Any, NamedTuple

import pytest
import torch
from tests.tokens import Reader
from torch import Tensor, nn

import dessl
from dessl import Rows, Scores, Surrogate, train
from dessl.data import LabelDraw
from dessl.surrogates import PiModel, as_is
from dessl.surrogates.base import Model
from dessl.training import PopulationRun, train_population


class Answer(NamedTuple):
    """What models of other libraries return."""

    loss: None
    logits: Tensor


class Wrapped(nn.Module):
    """A model whose logits are inside something else."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind, self.inner = kind, nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Any:
        logits = self.inner(x)
        return {"dict": {"logits": logits}, "object": Answer(None, logits), "pair": (logits, None)}[
            self.kind
        ]


@pytest.mark.parametrize("surrogate", ["entropy", "pi_model", "fixmatch", lambda z: z.sum(-1)])
@pytest.mark.parametrize(
    ("kind", "place"), [("dict", "['logits']"), ("object", ".logits"), ("pair", "[0]")]
)
def test_logits_inside_something_else(
    surrogate: Any, kind: str, place: str, make_data: Any, make_plan: Any
) -> None:
    with pytest.raises(TypeError, match="the model's logits must be a floating-point") as caught:
        train(Wrapped(kind), surrogate, make_data(), make_plan(lam=0.5))
    assert f"return self.model(x){place}." in str(caught.value)


class Own(Surrogate):
    """An entropy that is returned in a wrong shape, or without a gradient."""

    def __init__(self, fault: str) -> None:
        super().__init__()
        self.fault = fault

    def forward(self, model: Model, rows: Rows) -> Scores:
        logits = model(rows.x)
        h = dessl.entropy(logits)
        return {
            "mean": Scores(h.mean(), logits[None]),
            "two dimensions": Scores(h, logits),
            "fewer rows": Scores(h[1:], logits[None, 1:]),
            "detached": Scores(h, logits[None].detach()),
        }[self.fault]


@pytest.mark.parametrize(
    ("fault", "shapes"),
    [
        ("mean", r"\(\) and \(1, 32, 2\)"),
        ("two dimensions", r"\(32,\) and \(32, 2\)"),
        ("fewer rows", r"\(31,\) and \(1, 31, 2\)"),
    ],
)
def test_scores_of_a_wrong_shape(
    fault: str, shapes: str, make_data: Any, make_model: Any, make_plan: Any
) -> None:
    expected = rf"Own.forward must return h \(32,\) .*; it returned {shapes}. Do not average"
    with pytest.raises(ValueError, match=expected):
        train(make_model, Own(fault), make_data(), make_plan(lam=0.5))


def test_logits_without_a_gradient(make_data: Any, make_model: Any, make_plan: Any) -> None:
    with pytest.raises(ValueError, match="or L cannot train the model"):
        train(make_model, Own("detached"), make_data(), make_plan(lam=0.5))


@pytest.mark.parametrize(
    "surrogate", [lambda logits: 0 * logits.sum(-1), PiModel(view=as_is)], ids=["own", "no views"]
)
def test_a_term_that_is_always_zero_is_warned_of_once(
    surrogate: Any, make_data: Any, make_plan: Any
) -> None:
    def make_model() -> nn.Module:
        return nn.Linear(4, 2)  # without dropout, two passes are the same

    with pytest.warns(UserWarning, match="exactly 0 for every row of the first 4 steps") as caught:
        train(make_model, surrogate, make_data(), make_plan(lam=0.5))
    assert len(caught) == 1
    train(make_model, surrogate, make_data(), make_plan(lam=0.0))
    train(make_model, surrogate, make_data(), make_plan(lam=0.5, risk="complete_case"))


def test_a_threshold_that_no_row_reaches_is_no_fault(
    make_data: Any, make_model: Any, make_plan: Any
) -> None:
    ended = train(make_model, dessl.surrogates.FixMatch(1.0), make_data(), make_plan(lam=0.5))
    assert ended.history[0].mask_unlabelled == 0


def test_tokens_are_not_changed_without_a_warning(make_plan: Any) -> None:
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(20, (100, 6), generator=generator)
    data = dessl.SemiData(tokens, torch.where(torch.arange(100) < 40, tokens[:, 0] % 2, -1))
    with pytest.warns(UserWarning, match="that the model looks up in an embedding, such as tokens"):
        train(Reader, "mean_teacher", data, make_plan(lam=0.5))


class Waiting(Surrogate):
    """A term without a memory in its first steps, as if it had to see all rows first."""

    def forward(self, model: Model, rows: Rows) -> Scores:
        return Scores(torch.zeros(len(rows.x)), model(rows.x)[None])


def no_gradient(logits: Tensor) -> Tensor:
    return dessl.entropy(logits).detach()


def test_a_term_without_a_gradient_is_warned_of_once(
    make_data: Any, make_model: Any, make_plan: Any
) -> None:
    with pytest.warns(UserWarning, match=r"FromFunction has no gradient, so λ = 0\.5") as caught:
        train(make_model, no_gradient, make_data(), make_plan(lam=0.5))
    assert len(caught) == 1
    assert caught[0].filename == __file__


def test_a_population_warns_of_a_term_without_a_gradient(make_plan: Any) -> None:
    x = torch.randn(60, 4, generator=torch.Generator().manual_seed(0))
    data, rows = dessl.SemiData(x, (x[:, 0] > 0).long()), torch.arange(60)
    draw = LabelDraw(rows[:20], rows[:0], rows[20:])
    runs = [PopulationRun(0, draw, lam) for lam in (0.0, 0.5)]
    with pytest.warns(UserWarning, match=r"FromFunction has no gradient, so λ = 0\.5") as caught:
        train_population(lambda: nn.Linear(4, 2), no_gradient, data, runs, make_plan())
    assert len(caught) == 1
    assert caught[0].filename == __file__
    train_population(lambda: nn.Linear(4, 2), no_gradient, data, runs[:1], make_plan())


def test_no_gradient_where_none_is_needed_is_no_fault(
    make_data: Any, make_model: Any, make_plan: Any
) -> None:
    train(make_model, no_gradient, make_data(), make_plan(lam=0.0))
    train(make_model, no_gradient, make_data(), make_plan(lam=0.5, risk="complete_case"))
    train(make_model, Waiting(), make_data(), make_plan(lam=0.5))

import random
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from dessl import train
from dessl.augment import Strong, Weak
from dessl.functional import entropy
from dessl.surrogates import Combine, FixMatch, FromFunction, PiModel, PseudoLabel
from dessl.surrogates.base import Model, Rows, Scores, Surrogate
from dessl.training import Event
from dessl.training.folder import DifferentRunError
from dessl.training.identity import parts_identity


def digest(surrogate: Surrogate) -> str:
    found: str = parts_identity(surrogate, nn.Linear(1, 1))["functions_sha256"]
    return found


def of(h: Callable[..., Tensor]) -> str:
    return digest(FromFunction(h))


def impurity(logits: Tensor) -> Tensor:
    """Gini's."""
    return 1 - logits.softmax(-1).square().sum(-1)


def scaled(factor: Any) -> Callable[[Tensor], Tensor]:
    return lambda logits: entropy(logits) * len(str(factor))


class Bent:
    def __init__(self, power: float) -> None:
        self.power = power

    def __call__(self, logits: Tensor) -> Tensor:
        return entropy(logits) ** self.power

    def h(self, logits: Tensor) -> Tensor:
        return self(logits)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (entropy, impurity),
        (lambda logits: logits.sum(-1), lambda logits: logits.mean(-1)),
        (lambda logits: logits.sum(-1) + 1, lambda logits: logits.sum(-1) + 2),
        (lambda logits: logits.sum(-1) + 1, lambda logits: logits.sum(-1) - 1),
        (lambda logits, a=1: a * logits.sum(-1), lambda logits, a=2: a * logits.sum(-1)),
        (scaled(1), scaled(2)),
        (scaled([1, {"a": 2}]), scaled([1, {"a": 3}])),
        (scaled(torch.ones(2)), scaled(torch.zeros(2))),
        (scaled(torch.eye(2).to_sparse()), scaled(2 * torch.eye(2).to_sparse())),
        (scaled(np.ones(2)), scaled(np.zeros(2))),
        (scaled({"a", "b"}), scaled({"a", "c"})),
        (scaled(impurity), scaled(entropy)),
        (Bent(1.0), Bent(2.0)),
        (Bent(1.0).h, Bent(2.0).h),
        (scaled(torch.sin), scaled(torch.cos)),
        (scaled([1.0].count), scaled([2.0].count)),
        (partial(lambda a, logits: a * logits, 1), partial(lambda a, logits: a * logits, 2)),
    ],
)
def test_functions_that_differ(one: Any, other: Any) -> None:
    assert of(one) == of(one)
    assert of(one) != of(other)


def test_the_same_function_made_again() -> None:
    assert of(scaled([1, "a"])) == of(scaled([1, "a"]))
    assert of(Bent(1.0)) == of(Bent(1.0))
    assert of(scaled(object())) == of(scaled(object()))  # known by its class alone
    assert of(scaled(torch.device("cpu"))) == of(scaled(torch.device("cuda:1")))  # ranks differ


def test_views_by_their_settings() -> None:
    assert digest(FixMatch(weak=Weak(flip=False))) != digest(FixMatch(weak=Weak()))
    assert digest(FixMatch(weak=Weak())) == digest(FixMatch(weak=Weak()))
    assert digest(FixMatch(strong=Strong(n_ops=1))) != digest(FixMatch(strong=Strong()))
    assert digest(PiModel()) != digest(PiModel(view=lambda x, generator: x))


def test_a_counter_is_not_part_of_a_function() -> None:
    calls = 0

    def counting(logits: Tensor) -> Tensor:
        nonlocal calls
        calls += 1
        return entropy(logits)

    before = of(counting)
    counting(torch.zeros(1, 2))
    assert (calls, of(counting)) == (1, before)


def test_a_recursive_function_ends() -> None:
    def again(logits: Tensor) -> Tensor:
        return again(logits) if len(logits) > 1 else entropy(logits)

    assert of(again) == of(again)


class Own(Surrogate):
    """With settings of every kind."""

    def __init__(self, *, weights: Any) -> None:
        super().__init__()
        self.weights = weights

    def forward(self, model: Model, rows: Rows) -> Scores:
        logits = model(rows.x)
        return Scores(entropy(logits), logits[None])


class Moving(Own):
    """What it holds may be its state."""

    def after_step(self, model: nn.Module, rows: Rows, scores: Scores) -> None:
        self.weights = [*self.weights, 1.0]


def test_settings_of_an_own_surrogate() -> None:
    for one, other in (([1.0], [2.0]), ({"a": 1}, {"a": 2}), (torch.ones(1), torch.zeros(1))):
        assert digest(Own(weights=one)) == digest(Own(weights=one))
        assert digest(Own(weights=one)) != digest(Own(weights=other))
        assert digest(Moving(weights=one)) == digest(Moving(weights=other))


def test_another_function_does_not_resume(
    make_data: Any, make_model: Any, make_plan: Any, tmp_path: Path
) -> None:
    data, plan = make_data(), make_plan(lam=0.5)
    first = train(make_model, impurity, data, plan, out=tmp_path)
    again = train(make_model, impurity, data, plan, out=tmp_path)
    for one, other in zip(first.model.parameters(), again.model.parameters(), strict=True):
        assert torch.equal(one, other)
    with pytest.raises(DifferentRunError, match="a different function, such as H, L or a view"):
        train(make_model, lambda logits: entropy(logits), data, plan, out=tmp_path)


def test_under_another_python_functions_are_not_compared(
    make_data: Any, make_model: Any, make_plan: Any, tmp_path: Path
) -> None:
    data, plan = make_data(), make_plan(lam=0.5)
    train(make_model, impurity, data, plan, out=tmp_path)
    note = tmp_path / "run.json"
    before = note.read_text()
    note.write_text(before.replace('"python": "3.', '"python": "2.'))
    assert note.read_text() != before
    train(make_model, lambda logits: entropy(logits), data, plan, out=tmp_path)


def test_a_run_from_before_there_was_a_choice_of_loss_has_the_same_functions() -> None:
    before = "b5c3f97072a608a7d4c4d1cfbb46ce3388498bed6df1457f2a5fdda4438d8aa4"
    assert digest(PseudoLabel()) == before
    own = parts_identity(PseudoLabel(), nn.Linear(1, 1), loss=lambda z, y: z[:, 0] * y)
    assert own["functions_sha256"] != before


class InBuffers(Own):
    """Keeps the same in a buffer."""

    def __init__(self, *, weights: Any) -> None:
        super().__init__(weights=weights)
        self.register_buffer("steps", torch.zeros(()))

    def after_step(self, model: nn.Module, rows: Rows, scores: Scores) -> None:
        self.steps += 1


class Sum(Combine):
    """A sum of one's own: its terms have one and two views."""


class CountingView:
    """A view with a state."""

    calls = 0

    def __call__(self, x: Tensor, generator: torch.Generator) -> Tensor:
        self.calls += 1
        return x


class Drawing(Own):
    """Draws from the given function, which has a generator."""

    def after_step(self, model: nn.Module, rows: Rows, scores: Scores) -> None:
        self.weights()


def from_torch() -> Callable[[], Tensor]:
    return partial(torch.rand, 1, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("term", "named"),
    [
        (lambda: Moving(weights=[1.0]), "Moving.weights"),
        (lambda: PseudoLabel(view=CountingView()), "PseudoLabel.view"),
        (lambda: Drawing(weights=np.random.default_rng(0).random), "Drawing.weights"),
        (lambda: Drawing(weights=np.random.RandomState(0).random), "Drawing.weights"),
        (lambda: Drawing(weights=random.Random(0).random), "Drawing.weights"),
        (lambda: Drawing(weights=from_torch()), "Drawing.weights"),
        (lambda: Drawing(weights=random.SystemRandom().random), None),
        (lambda: Drawing(weights=list), None),
        (lambda: InBuffers(weights=[1.0]), None),
        (lambda: Sum([PseudoLabel(), FixMatch(targets="joint")], weights=[1.0, 0.1]), None),
    ],
)
def test_a_resumed_run_warns_of_state_outside_its_checkpoint(
    term: Any, named: str | None, make_data: Any, make_model: Any, make_plan: Any, tmp_path: Path
) -> None:
    class StopError(Exception):
        pass

    def stop(event: Event) -> None:
        if event.step == 4:
            raise StopError

    def run(**options: Any) -> None:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            train(make_model, term(), make_data(), make_plan(lam=0.5), out=tmp_path, **options)
        said.extend(str(one.message) for one in caught if "resumed" in str(one.message))

    said: list[str] = []
    with pytest.raises(StopError):
        run(callbacks=[stop])
    assert not said
    run()
    assert len(said) == (named is not None)
    assert named is None or f"{named} had changed, but checkpoints do not contain" in said[0]
    run()  # of a finished run nothing is trained
    assert len(said) == (named is not None)

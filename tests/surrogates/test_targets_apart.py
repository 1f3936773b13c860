"""Targets in a pass of their own: the joint pass's values, for less work."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from dessl import Rows, SemiData, objective
from dessl.surrogates import UDA, FixMatch, FixMatchStar, FlexMatch, FreeMatch, SoftMatch
from dessl.training import TrainPlan, train


def strong(x: Tensor, generator: torch.Generator) -> Tensor:
    return x + 0.3 * torch.randn(x.shape, generator=generator)


def network(norm: bool = False) -> nn.Module:
    torch.manual_seed(0)
    middle = nn.BatchNorm1d(16) if norm else nn.Identity()
    return nn.Sequential(nn.Linear(4, 16), middle, nn.ReLU(), nn.Linear(16, 3))


@pytest.fixture
def rows() -> Rows:
    return Rows(
        3 * torch.randn(12, 4, generator=torch.Generator().manual_seed(1)), torch.arange(12)
    )


CONFIDENT = {kind: {"threshold": 0.4} for kind in (UDA, FixMatch, FixMatchStar)}


@pytest.mark.parametrize("kind", [UDA, FixMatch, FixMatchStar, FlexMatch, FreeMatch, SoftMatch])
@pytest.mark.parametrize("n_loss", [5, 12])
def test_without_batch_statistics_risk_and_gradient_are_the_joint_pass_s(
    kind: Any, n_loss: int, rows: Rows
) -> None:
    y = torch.tensor([0, 1, 2, 0, 1])
    found = []
    for targets in ("joint", "apart"):
        model = network()
        surrogate = kind(**CONFIDENT.get(kind, {}), strong=strong, targets=targets)
        surrogate.prepare(model, 12, 3)
        scores = surrogate.step_scores(model, rows, n_loss)
        risk = objective(scores, y, 0.5)
        risk.value.backward()
        surrogate.after_step(model, rows, scores)
        state = [buffer.float() for buffer in surrogate.buffers()]
        found.append((*risk, *state, *(p.grad for p in model.parameters())))
    assert found[0][2] > 0  # some labelled row is confident
    for joint, apart in zip(*found, strict=True):
        torch.testing.assert_close(joint, apart)


def test_rows_without_a_loss_have_no_gradient_in_their_weak_view(rows: Rows) -> None:
    x = rows.x.clone().requires_grad_()
    surrogate = FixMatch(1.0, weak=lambda x, g: x, strong=lambda x, g: x.detach(), targets="apart")
    scores = surrogate.step_scores(network(), Rows(x, rows.ids), 5)
    scores.logits.sum().backward()
    assert x.grad is not None
    assert x.grad[:5].abs().sum() > 0
    assert not x.grad[5:].any()


def test_labels_are_guessed_by_the_model_as_it_will_be_used(rows: Rows) -> None:
    model = network(norm=True)
    model[1].running_mean += 0.5
    same = lambda x, generator: x  # noqa: E731
    guesses = model.eval()(rows.x).softmax(1)
    model.train()
    found = FixMatch(0.4, weak=same, strong=same, targets="apart")(model, rows)
    taught = network(norm=True)(torch.cat([rows.x, rows.x]))[12:].log_softmax(1)
    confidence, label = guesses.max(1)
    expected = -taught[torch.arange(12), label] * (confidence > 0.4)
    torch.testing.assert_close(found.h, expected)
    assert 0 < int((confidence > 0.4).sum()) < 12
    assert all(module.training for module in model.modules())


def test_only_the_pass_with_gradient_counts_for_batch_norm(rows: Rows) -> None:
    model, second = network(norm=True), network(norm=True)
    surrogate = FixMatch(weak=lambda x, g: x, strong=lambda x, g: 2 * x, targets="apart")
    surrogate.step_scores(model, rows, 5)
    second(torch.cat([rows.x[:5], 2 * rows.x]))
    for ours, expected in zip(model.buffers(), second.buffers(), strict=True):
        assert torch.equal(ours, expected)


def test_a_row_s_h_does_not_depend_on_its_place(rows: Rows) -> None:
    """With fixed views and the same rows in L, moving the others moves their H along."""
    order = torch.cat([torch.arange(5), 5 + torch.randperm(7)])
    fixed = {"weak": lambda x, g: x, "strong": lambda x, g: x + 0.1, "targets": "apart"}
    one = FixMatch(0.4, **fixed).step_scores(network(norm=True), rows, 5).h
    moved = Rows(rows.x[order], rows.ids[order])
    other = FixMatch(0.4, **fixed).step_scores(network(norm=True), moved, 5).h
    torch.testing.assert_close(one[order], other)


@pytest.mark.parametrize("kind", [FixMatch, FixMatchStar])
def test_forward_is_blind_and_takes_every_row_for_l(kind: Any, rows: Rows) -> None:
    one, other = (kind(0.4, strong=strong, targets="apart") for _ in range(2))
    blind = one(network(norm=True), rows)
    every = other.step_scores(network(norm=True), rows, 12)
    assert all(map(torch.equal, blind, every))
    assert len(blind.logits) == (2 if kind is FixMatch else 1)


def test_training_tells_it_how_many_rows_l_has(rows: Rows) -> None:
    data = SemiData(
        rows.x, torch.where(rows.ids < 5, rows.ids % 3, -1), class_names=("a", "b", "c")
    )
    model, told = network(norm=True), []
    model.register_forward_hook(lambda module, inputs, output: told.append(len(inputs[0])))
    plan = TrainPlan(steps=1, labelled_batch=5, unlabelled_batch=7, lam=0.5)
    train(model, FixMatch(strong=strong, targets="apart"), data, plan)
    assert told == [12, 5 + 12]


def test_other_words_are_refused() -> None:
    with pytest.raises(ValueError, match="targets must be one of 'joint', 'apart'; got 'both'"):
        FixMatch(targets="both")

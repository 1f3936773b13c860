"""FixMatch with its targets in a pass of their own: the joint pass's values, for less work."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from dessl import Rows, objective
from dessl.surrogates import FixMatch, FixMatchStar


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


@pytest.mark.parametrize("kind", [FixMatch, FixMatchStar])
@pytest.mark.parametrize("n_loss", [5, None])
def test_without_batch_statistics_risk_and_gradient_are_the_joint_pass_s(
    kind: Any, n_loss: int | None, rows: Rows
) -> None:
    y = torch.tensor([0, 1, 2, 0, 1])
    found = []
    for targets in ("joint", "apart"):
        model = network()
        surrogate = kind(0.4, strong=strong, targets=targets)
        risk = objective(surrogate(model, rows, n_loss), y, 0.5)
        risk.value.backward()
        found.append((*risk, *(p.grad for p in model.parameters())))
    assert found[0][2] > 0  # some labelled row is confident
    for joint, apart in zip(*found, strict=True):
        torch.testing.assert_close(joint, apart)


def test_rows_without_a_loss_have_no_gradient_in_their_weak_view(rows: Rows) -> None:
    x = rows.x.clone().requires_grad_()
    surrogate = FixMatch(1.0, weak=lambda x, g: x, strong=lambda x, g: x.detach(), targets="apart")
    scores = surrogate(network(), Rows(x, rows.ids), 5)
    scores.logits.sum().backward()
    assert x.grad is not None
    assert x.grad[:5].abs().sum() > 0
    assert not x.grad[5:].any()


def test_each_pass_counts_for_batch_norm(rows: Rows) -> None:
    for targets, batches in (("joint", 1), ("apart", 2)):
        model = network(norm=True)
        FixMatch(strong=strong, targets=targets)(model, rows, 5)
        assert int(model[1].num_batches_tracked) == batches


def test_a_row_s_h_does_not_depend_on_its_place(rows: Rows) -> None:
    """With fixed views and the same rows in L, moving the others moves their H along."""
    order = torch.cat([torch.arange(5), 5 + torch.randperm(7)])
    fixed = {"weak": lambda x, g: x, "strong": lambda x, g: x + 0.1, "targets": "apart"}
    one = FixMatch(0.4, **fixed)(network(norm=True), rows, 5).h
    moved = Rows(rows.x[order], rows.ids[order])
    other = FixMatch(0.4, **fixed)(network(norm=True), moved, 5).h
    torch.testing.assert_close(one[order], other)


def test_other_words_are_refused() -> None:
    with pytest.raises(ValueError, match="targets must be one of 'joint', 'apart'; got 'both'"):
        FixMatch(targets="both")

"""A loss L of one's own: class weights, label smoothing."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dessl import Rows, cross_entropy, objective, train
from dessl.surrogates import Entropy
from dessl.training.folder import DifferentRunError


def smoothed(share: float) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda z, y: F.cross_entropy(z, y, label_smoothing=share, reduction="none")


def linear() -> nn.Module:
    torch.manual_seed(0)
    return nn.Linear(4, 2)


def test_one_step_is_that_of_the_objective(make_data: Any, make_plan: Any) -> None:
    data, weights = make_data(), torch.tensor([1.0, 3.0])

    def loss(z: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(z, y, weight=weights, reduction="none")

    plan = make_plan(
        steps=1,
        labelled_batch=20,
        unlabelled_batch=100,
        lam=0.5,
        momentum=0.0,
        nesterov=False,
        evaluate_every=1,
    )
    found = train(linear(), "entropy", data, plan, loss=loss, progress=False).model
    model = linear()
    rows = torch.cat([data.labelled_rows, data.unlabelled_rows])
    scores = Entropy()(model, Rows(data.x[rows], data.ids[rows]))
    objective(scores, data.y[data.labelled_rows], 0.5, loss=loss).value.backward()
    for own, other in zip(found.parameters(), model.parameters(), strict=True):
        assert other.grad is not None
        rate = plan.learning_rate_at(0, 1)
        torch.testing.assert_close(own, (other - rate * other.grad).detach(), rtol=1e-5, atol=1e-6)


def test_it_changes_what_is_learnt_and_its_event(make_data: Any, make_plan: Any) -> None:
    plan = make_plan(risk="complete_case")
    plain = train(linear(), "entropy", make_data(), plan, progress=False)
    same = train(linear(), "entropy", make_data(), plan, loss=smoothed(0.0), progress=False)
    other = train(linear(), "entropy", make_data(), plan, loss=smoothed(0.3), progress=False)
    torch.testing.assert_close(plain.model.weight, same.model.weight, rtol=1e-5, atol=1e-6)
    assert plain.history[-1].loss == pytest.approx(same.history[-1].loss, rel=1e-5)
    assert not torch.allclose(plain.model.weight, other.model.weight, atol=1e-3)


def test_another_loss_does_not_resume(make_data: Any, make_plan: Any, tmp_path: Path) -> None:
    data, plan = make_data(), make_plan()
    train(linear, "entropy", data, plan, loss=smoothed(0.1), out=tmp_path, progress=False)
    train(linear, "entropy", data, plan, loss=smoothed(0.1), out=tmp_path, progress=False)
    for loss in (smoothed(0.2), cross_entropy):
        with pytest.raises(DifferentRunError, match="a different function, such as H, L"):
            train(linear, "entropy", data, plan, loss=loss, out=tmp_path, progress=False)


def test_what_is_refused(make_data: Any, make_plan: Any) -> None:
    with pytest.raises(ValueError, match="online=True estimates λ for the cross-entropy"):
        train(linear(), "entropy", make_data(), make_plan(online=True), loss=smoothed(0.1))
    with pytest.raises(ValueError, match="reduction='none'"):
        train(linear(), "entropy", make_data(), make_plan(), loss=F.cross_entropy)


def detached(z: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(z, y, reduction="none").detach()


def test_a_loss_without_a_gradient_is_refused(make_data: Any, make_plan: Any) -> None:
    with pytest.raises(ValueError, match="loss must have a gradient"):
        train(linear(), "entropy", make_data(), make_plan(), loss=detached, progress=False)


@pytest.mark.parametrize(
    ("loss", "got"),
    [(lambda z, y: z.argmax(-1) != y, "torch.bool"), (lambda *_: 0.5, "float")],
)
def test_errors_counted_are_no_loss(loss: Any, got: str, make_data: Any, make_plan: Any) -> None:
    with pytest.raises(TypeError, match=rf"loss must return a tensor of floats.*got {got}"):
        train(linear(), "entropy", make_data(), make_plan(), loss=loss, progress=False)


def test_a_name_is_no_loss(make_data: Any, make_plan: Any) -> None:
    with pytest.raises(TypeError, match=r"loss must be a function .* got 'cross_entropy'"):
        train(linear(), "entropy", make_data(), make_plan(), loss="cross_entropy", progress=False)

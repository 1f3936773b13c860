"""What UDA and the FixMatch family share: views, targets, bounds. Rows hold both views' logits."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from dessl.functional import cross_entropy, squared_distance
from dessl.surrogates import (
    UDA,
    FixMatch,
    FixMatchStar,
    FlexMatch,
    FreeMatch,
    Rows,
    SoftMatch,
    Surrogate,
    WeakToStrong,
)

FAMILY = [UDA, FixMatch, FixMatchStar, FlexMatch, FreeMatch, SoftMatch]
HARD = [FixMatch, FlexMatch, FreeMatch, SoftMatch]
LOGITS = 3 * torch.randn(30, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def first_half(x: Tensor, generator: torch.Generator) -> Tensor:
    return x[:, : x.shape[1] // 2]


def second_half(x: Tensor, generator: torch.Generator) -> Tensor:
    return x[:, x.shape[1] // 2 :]


def identity(x: Tensor) -> Tensor:
    return x


def ready(kind: Callable[..., WeakToStrong], n_classes: int = 3) -> WeakToStrong:
    surrogate = kind(weak=first_half, strong=second_half)
    surrogate.prepare(nn.Linear(1, 1), 30, n_classes)
    return surrogate


def rows_of(x: Tensor) -> Rows:
    return Rows(x, torch.arange(len(x)))


def labelled_term(surrogate: Surrogate, x: list[float], y: int, lam: float) -> float:
    """L − λH of one labelled row."""
    h, logits = surrogate(identity, rows_of(torch.tensor([x], dtype=torch.float64)))
    losses = [cross_entropy(view, torch.tensor([y])) for view in logits]
    return (torch.stack(losses).mean() - lam * h).item()


@pytest.mark.parametrize("kind", FAMILY)
def test_no_gradient_reaches_the_weak_view(kind: type[WeakToStrong]) -> None:
    x = LOGITS.clone().requires_grad_()
    ready(kind)(identity, rows_of(x)).h.sum().backward()
    assert x.grad is not None
    assert (x.grad[:, :3] == 0).all()
    assert (x.grad[:, 3:] != 0).any()


@pytest.mark.parametrize("kind", FAMILY)
def test_L_pairs_with_both_views_but_in_fixmatch_star(kind: type[WeakToStrong]) -> None:
    logits = ready(kind)(identity, rows_of(LOGITS)).logits
    views = [LOGITS[:, :3]] if kind is FixMatchStar else [LOGITS[:, :3], LOGITS[:, 3:]]
    assert torch.equal(logits, torch.stack(views))


@pytest.mark.parametrize("kind", FAMILY)
def test_the_model_is_called_once_with_all_rows_of_both_views(kind: type[WeakToStrong]) -> None:
    seen = []

    def model(x: Tensor) -> Tensor:
        seen.append(x)
        return x

    ready(kind)(model, rows_of(LOGITS))
    assert len(seen) == 1
    assert torch.equal(seen[0], torch.cat([LOGITS[:, :3], LOGITS[:, 3:]]))


@pytest.mark.parametrize("kind", FAMILY)
def test_one_logit_stands_for_two(kind: type[WeakToStrong]) -> None:
    one = LOGITS[:, :2]
    zero = torch.zeros(30, 1, dtype=torch.float64)
    two = torch.cat([zero, one[:, :1], zero, one[:, 1:]], -1)
    surrogate = ready(kind, n_classes=2)
    scores = surrogate(identity, rows_of(one))
    torch.testing.assert_close(scores.h, surrogate(identity, rows_of(two)).h)
    surrogate.after_step(nn.Linear(1, 1), rows_of(one), scores)


@pytest.mark.parametrize("kind", [FlexMatch, FreeMatch, SoftMatch])
def test_state_is_frozen_until_after_the_step(kind: type[WeakToStrong]) -> None:
    surrogate = ready(kind)
    before = {name: buffer.clone() for name, buffer in surrogate.named_buffers()}
    scores = surrogate(identity, rows_of(LOGITS))
    assert all(torch.equal(buffer, before[name]) for name, buffer in surrogate.named_buffers())
    places = {name: buffer.data_ptr() for name, buffer in surrogate.named_buffers()}
    surrogate.after_step(nn.Linear(1, 1), rows_of(LOGITS), scores)
    stay = {name for name, buffer in surrogate.named_buffers() if torch.equal(buffer, before[name])}
    assert stay <= {"class_prior"}  # given, not learnt
    # In place: a captured CUDA graph goes on reading where it was.
    assert places == {name: buffer.data_ptr() for name, buffer in surrogate.named_buffers()}


@pytest.mark.parametrize("kind", [FlexMatch, FreeMatch, SoftMatch])
def test_missing_or_foreign_state_is_named(kind: type[WeakToStrong]) -> None:
    with pytest.raises(RuntimeError, match=f"{kind.__name__} has no state yet. Call prepare"):
        kind(weak=first_half, strong=second_half)(identity, rows_of(LOGITS))
    with pytest.raises(ValueError, match="prepared for 4 classes; the model has 3"):
        ready(kind, n_classes=4)(identity, rows_of(LOGITS))


RIGHT = [6.0, 0.0, 0.0]  # a confident weak view of a row of class 0


@pytest.mark.parametrize("kind", HARD)
def test_hard_labels_are_bounded_up_to_a_half_where_they_are_right(
    kind: type[WeakToStrong],
) -> None:
    surrogate = ready(kind)
    assert surrogate.bounded_up_to == 0.5

    def value(reach: float, lam: float) -> float:
        return labelled_term(surrogate, [*RIGHT, -reach, 0.0, 0.0], 0, lam)

    assert all(value(reach, 0.5) >= 0 for reach in (-1e6, -10.0, 0.0, 10.0, 1e3, 1e6))
    assert value(1e6, 0.51) < 0.9 * -0.01 * 1e6


@pytest.mark.parametrize("kind", HARD)
def test_hard_labels_are_unbounded_where_they_are_wrong(kind: type[WeakToStrong]) -> None:
    wrong = [*RIGHT, -1e6, 1e6, 0.0]
    assert labelled_term(ready(kind), wrong, 1, 0.01) < -1e4


def test_fixmatch_star_is_unbounded_even_where_labels_are_right() -> None:
    surrogate = ready(FixMatchStar)
    assert surrogate.bounded_up_to == 0.0
    values = [labelled_term(surrogate, [*RIGHT, -t, 0.0, 0.0], 0, 0.01) for t in (1e2, 1e4, 1e6)]
    assert values[0] > values[1] > values[2]
    assert values[2] < -9e3


def test_uda_is_unbounded_even_where_both_views_are_right() -> None:
    surrogate = ready(UDA)
    assert surrogate.bounded_up_to == 0.0
    weak = [3.0, 0.0, 0.0]  # confident enough, and still soft
    values = [labelled_term(surrogate, [*weak, t, -t, -t], 0, 0.01) for t in (1e2, 1e4, 1e6)]
    assert values[0] > values[1] > values[2]
    assert values[2] < -1.0


def test_at_lambda_zero_nothing_is_unbounded() -> None:
    for kind in FAMILY:
        value = labelled_term(ready(kind), [*RIGHT, -1e6, 1e6, 0.0], 1, 0.0)
        assert math.isfinite(value)
        assert value >= 0


class Square(WeakToStrong):
    """A user's own term, which forgets that the weak view is the target."""

    def h(self, weak: Tensor, strong: Tensor) -> Tensor:
        return squared_distance(strong, weak)


def test_a_term_of_your_own_gets_targets_without_gradient() -> None:
    x = LOGITS.clone().requires_grad_()
    Square(weak=first_half, strong=second_half)(identity, rows_of(x)).h.sum().backward()
    assert x.grad is not None
    assert (x.grad[:, :3] == 0).all()
    assert (x.grad[:, 3:] != 0).any()


def test_views_and_counts_of_other_sizes_are_refused() -> None:
    short = Square(weak=lambda x, g: x[:5], strong=lambda x, g: x, targets="apart")
    with pytest.raises(ValueError, match="got 5 rows of the weak view and 30 of the strong one"):
        short(identity, rows_of(LOGITS))
    same = Square(weak=lambda x, g: x, strong=lambda x, g: x, targets="apart")
    with pytest.raises(ValueError, match="n_labelled must be at most the 30 rows; got 31"):
        same.step_scores(identity, rows_of(LOGITS), 31)


@pytest.mark.parametrize("kind", FAMILY)
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_weak_logit_that_is_not_finite_is_not_masked(
    kind: type[WeakToStrong], bad: float
) -> None:
    """Masked, H was 0 and the risk finite."""
    weak = torch.tensor([[9.0, 0.0, 0.0], [0.1, 0.0, 0.0], [bad, 0.0, 0.0]])
    h, _ = ready(kind)(identity, rows_of(torch.cat([weak, torch.ones(3, 3)], 1)))
    assert h.isnan().tolist() == [False, False, True]

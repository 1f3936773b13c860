"""Smoothing: H bounded, L untouched, targets and thresholds as documented."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from dessl.functional import cross_entropy
from dessl.objective import objective
from dessl.surrogates import (
    FixMatch,
    FixMatchStar,
    FreeMatch,
    MeanTeacher,
    PseudoLabel,
    Rows,
    Scores,
    Smooth,
    Surrogate,
    Teacher,
    as_is,
)
from dessl.surrogates.smooth import FLOOR, smoothed, unsmoothed

EPSILON = 0.1
LOGITS = torch.tensor([[1.0, 0.0, -1.0], [4.0, -3.0, 0.5], [0.0, 30.0, -30.0]])


def mixed(p: list[float], epsilon: float) -> list[float]:
    return [(1 - epsilon) * value + epsilon / len(p) for value in p]


@pytest.mark.parametrize("epsilon", [1e-4, 0.1, 0.9])
def test_smoothed_probabilities(epsilon: float, softmax: Callable[[Tensor], list[float]]) -> None:
    expected = [mixed(softmax(row), epsilon) for row in LOGITS]
    got = smoothed(LOGITS.double(), epsilon).softmax(-1)
    torch.testing.assert_close(got, torch.tensor(expected, dtype=torch.float64))


def test_h_is_the_log_loss_of_smoothed_probabilities(
    softmax: Callable[[Tensor], list[float]],
) -> None:
    q = [0.2, 0.5, 0.3]
    expected = [
        -sum(b * math.log(a) for a, b in zip(mixed(softmax(row), EPSILON), q, strict=True))
        for row in LOGITS
    ]
    surrogate = Smooth(Teacher([q] * 3), epsilon=EPSILON)
    h = surrogate(lambda x: x, Rows(LOGITS, torch.arange(3))).h
    torch.testing.assert_close(h, torch.tensor(expected))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("gap", [0.0, 1.0, 30.0, 79.0, 500.0])
def test_l_is_that_of_the_models_own_logits(gap: float, dtype: torch.dtype) -> None:
    """Value and gradient, however sure and wrong the model is; past e⁻⁸⁰ the value is floored."""
    x = torch.tensor([[gap, 0.0, 1.0]], dtype=dtype, requires_grad=True)
    plain = torch.tensor([[gap, 0.0, 1.0]], dtype=dtype, requires_grad=True)
    surrogate = Smooth(Teacher([[0.2, 0.5, 0.3]]), epsilon=EPSILON)
    for y in (0, 1):
        x.grad = plain.grad = None
        label = torch.tensor([y])
        scores = surrogate(lambda x: x, Rows(x, torch.tensor([0])))
        loss, expected = cross_entropy(scores.logits[0], label), cross_entropy(plain, label)
        torch.testing.assert_close(loss, expected.clamp(max=-FLOOR), rtol=1e-5, atol=1e-5)
        loss.backward()
        expected.backward()
        torch.testing.assert_close(x.grad, plain.grad, rtol=1e-5, atol=1e-5)


def test_one_logit_comes_out_as_two() -> None:
    logits = torch.tensor([[2.0], [-5.0]])
    back = unsmoothed(smoothed(logits, EPSILON), EPSILON)
    both = torch.cat([torch.zeros(2, 1), logits], 1).log_softmax(-1)
    torch.testing.assert_close(back, both)


def test_a_teacher_of_one_logit_can_be_smoothed() -> None:
    model, rows = nn.Linear(3, 1), Rows(torch.randn(4, 3), torch.arange(4))
    inner = MeanTeacher(view=as_is)
    surrogate = Smooth(inner, epsilon=0.1)
    surrogate.prepare(model, n_rows=4, n_classes=2)
    with torch.no_grad():
        model.weight += 1
        p, q = model(rows.x).sigmoid(), inner.teacher.model(rows.x).sigmoid()
    expected = 2 * (0.9 * p + 0.05 - q).square().squeeze(1)
    torch.testing.assert_close(surrogate(model, rows).h.detach(), expected)


def test_h_never_passes_log_k_over_epsilon() -> None:
    rows = Rows(1e5 * torch.randn(200, 3), torch.arange(200))
    wrong = nn.functional.one_hot(rows.x.argmin(1), 3).double()
    h = Smooth(Teacher(wrong), epsilon=EPSILON)(lambda x: x, rows).h
    assert h.max().item() == pytest.approx(math.log(3 / EPSILON), rel=1e-5)


@pytest.mark.parametrize("tamed", ["smooth", "nonnegative", "not"])
def test_descent_on_the_debiased_risk(tamed: str) -> None:
    """FixMatch* has no strong view in L: gradient descent runs away unless H or R is bounded."""
    torch.manual_seed(0)
    model = nn.Linear(2, 2)
    x = torch.tensor([[1.0, 0.2], [-1.0, 0.3], [1.0, 0.1], [-1.0, 0.2]])
    y = torch.tensor([0, 1])
    with torch.no_grad():
        model.weight.copy_(torch.tensor([[3.0, 0.0], [-3.0, 0.0]]))
    # The strong view hides what the label is seen by.
    surrogate: Surrogate = FixMatchStar(
        threshold=0.5, weak=as_is, strong=lambda x, _: x * torch.tensor([0.0, 1.0])
    )
    if tamed == "smooth":
        surrogate = Smooth(surrogate, epsilon=EPSILON)
    bound = "nonnegative" if tamed == "nonnegative" else None
    optimiser = torch.optim.SGD(model.parameters(), lr=5.0)
    lowest = math.inf
    for _ in range(300):
        # Unlabelled rows of class 0 alone, so that the strong view is taught one-sidedly.
        rows = Rows(torch.cat([x[:2], x[2:3]]), torch.arange(3))
        risk = objective(surrogate(model, rows), y, 1.0, bound=bound)  # type: ignore[arg-type]
        optimiser.zero_grad()
        risk.value.backward()
        optimiser.step()
        lowest = min(lowest, risk.value.item())
    if tamed == "not":
        assert lowest < -10
    elif tamed == "smooth":
        assert lowest > -math.log(2 / EPSILON)
    else:
        assert lowest >= 0


def test_a_threshold_is_met_by_the_smoothed_confidence() -> None:
    """τ on smoothed confidences is (1 − ε)τ + ε/K on the model's own, as the docstring says."""
    gaps = torch.linspace(0, 6, 61)
    rows = Rows(torch.stack([gaps, torch.zeros(61)], 1), torch.arange(61))
    tau = 0.8
    plain = FixMatch(threshold=tau, weak=as_is, strong=as_is)(lambda x: x, rows).h > 0
    inner = FixMatch(threshold=(1 - EPSILON) * tau + EPSILON / 2, weak=as_is, strong=as_is)
    assert torch.equal(Smooth(inner, epsilon=EPSILON)(lambda x: x, rows).h > 0, plain)
    assert 0 < int(plain.sum()) < 61
    everything_masked = Smooth(
        PseudoLabel(threshold=1 - EPSILON / 2 + 1e-6, view=as_is), epsilon=EPSILON
    )
    assert (everything_masked(lambda x: 100 * x, rows).h == 0).all()


def test_the_inner_state_moves_on_smoothed_predictions() -> None:
    model = nn.Linear(4, 3)
    rows = Rows(torch.randn(6, 4), torch.arange(6))
    wrapped, alone = Smooth(FreeMatch(), epsilon=EPSILON), FreeMatch()
    for surrogate in (wrapped, alone):
        surrogate.prepare(model, 6, 3)
    scores = wrapped(model, rows)
    wrapped.after_step(model, rows, scores)
    p = scores.logits.detach().softmax(-1)
    by_hand = ((1 - EPSILON) * p + EPSILON / 3).log()
    alone.after_step(model, rows, Scores(scores.h, by_hand))
    pairs = zip(wrapped.surrogate.buffers(), alone.buffers(), strict=True)
    for got, wanted in pairs:
        torch.testing.assert_close(got, wanted)


@pytest.mark.parametrize("epsilon", [0.0, 1.0])
def test_epsilon_outside_of_its_interval_is_refused(epsilon: float) -> None:
    with pytest.raises(ValueError, match=r"epsilon must lie in \(0, 1\)"):
        Smooth(Teacher([[1.0]]), epsilon=epsilon)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # the compiler's own
def test_compiled_it_gives_small_probabilities_back_too() -> None:
    """Compiled for a CPU, torch.expm1 lost them: L was infinite from p = e⁻²² on."""

    def undone(logits: Tensor) -> Tensor:
        return unsmoothed(smoothed(logits, 0.01), 0.01)

    found = []
    for compute in (undone, torch.compile(undone, dynamic=False)):
        logits = torch.tensor([[0.0, -least] for least in range(5, 85, 5)]).float()
        log_p = compute(logits.requires_grad_())
        log_p[:, 1].sum().backward()
        found.append((log_p.detach(), logits.grad))
    for eager, compiled in zip(*found, strict=True):
        torch.testing.assert_close(compiled, eager)


@pytest.mark.parametrize("size", [1e4, 1e9, 1e30])
def test_logits_of_any_size(size: float) -> None:
    """From 1e9 on, flooring by a difference rounded every probability to 1."""
    logits = torch.tensor([[size, 0.0, -size]], requires_grad=True)
    got = smoothed(logits, EPSILON)
    expected = torch.tensor([mixed([1.0, 0.0, 0.0], EPSILON)])
    torch.testing.assert_close(got.softmax(-1), expected)
    found = unsmoothed(got, EPSILON)
    torch.testing.assert_close(found, torch.tensor([[0.0, FLOOR, FLOOR]]), rtol=1e-5, atol=1e-5)
    (gradient,) = torch.autograd.grad(found[0, 1], logits)  # of log p(1): e₁ − p
    torch.testing.assert_close(gradient, torch.tensor([[-1.0, 1.0, 0.0]]))


def test_an_excluded_class_has_no_nan() -> None:
    logits = torch.tensor([[1.0, 0.0, -math.inf]], requires_grad=True)
    surrogate = Smooth(Teacher([[0.2, 0.8, 0.0]]), epsilon=EPSILON)
    scores = surrogate(lambda x: x, Rows(logits, torch.tensor([0])))
    assert scores.h.isfinite().all()
    loss = cross_entropy(scores.logits[0], torch.tensor([1]))
    torch.testing.assert_close(loss, cross_entropy(logits, torch.tensor([1])))
    (gradient,) = torch.autograd.grad((loss + scores.h).sum(), logits)
    assert gradient.isfinite().all()
    assert gradient[0, 2] == 0

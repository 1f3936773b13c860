"""Sums of surrogates: values, views, state and bounds."""

import math

import pytest
import torch
from torch import Tensor, nn

from dessl.functional import cross_entropy, entropy
from dessl.objective import objective
from dessl.surrogates import (
    Combine,
    Entropy,
    FixMatch,
    MeanTeacher,
    PiModel,
    Rows,
    Scores,
    Smooth,
    Teacher,
    TemporalEnsembling,
    as_is,
)

X = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
ROWS = Rows(X, torch.arange(5))


def test_h_is_the_weighted_sum_and_l_sees_all_views() -> None:
    model = nn.Linear(4, 3)
    combined = Combine([FixMatch(seed=1), PiModel(seed=2)], weights=[0.5, 2.0])
    h, logits = combined(model, ROWS)
    fixmatch, pi = FixMatch(seed=1)(model, ROWS), PiModel(seed=2)(model, ROWS)
    torch.testing.assert_close(h, 0.5 * fixmatch.h + 2 * pi.h)
    torch.testing.assert_close(logits, torch.cat([fixmatch.logits, pi.logits]))
    y = torch.tensor([0, 1])
    views = [*fixmatch.logits, *pi.logits]
    expected = sum(cross_entropy(view[:2], y).mean() for view in views) / 3
    assert logits.shape == (3, 5, 3)
    loss = objective(Scores(h, logits), y, risk="complete_case").loss
    torch.testing.assert_close(loss, expected)


def test_every_term_moves_as_it_would_alone() -> None:
    model = nn.Linear(4, 3)
    together = Combine([Entropy(), TemporalEnsembling(), MeanTeacher(decay=0.5)])
    memory, teacher = TemporalEnsembling(), MeanTeacher(decay=0.5)
    for surrogate in (together, memory, teacher):
        surrogate.prepare(model, 5, 3)
    for _ in range(3):
        scores, alone, other = (s(model, ROWS) for s in (together, memory, teacher))
        torch.testing.assert_close(scores.h, Entropy()(model, ROWS).h + alone.h + other.h)
        with torch.no_grad():
            model.weight += 0.1
        together.after_step(model, ROWS, scores)
        memory.after_step(model, ROWS, alone)
        teacher.after_step(model, ROWS, other)
    assert torch.equal(together.terms[1].target(ROWS.ids), memory.target(ROWS.ids))


def test_terms_of_one_logit_and_of_two_columns_go_together() -> None:
    torch.manual_seed(0)
    model, y = nn.Linear(4, 1), torch.tensor([0, 1])
    combined = Combine([Smooth(Entropy()), TemporalEnsembling(view=as_is)])
    combined.prepare(model, 5, 2)
    scores = combined(model, ROWS)
    assert scores.logits.shape == (2, 5, 2)
    torch.testing.assert_close(scores.h, Smooth(Entropy())(model, ROWS).h)  # no memory yet
    loss = objective(scores, y, risk="complete_case").loss
    torch.testing.assert_close(loss, cross_entropy(model(X[:2]), y).mean())
    combined.after_step(model, ROWS, scores)
    p = model(X).sigmoid()
    torch.testing.assert_close(combined.terms[1].target(ROWS.ids), torch.cat([1 - p, p], 1))


def test_bounds_add_up() -> None:
    assert Combine([Entropy(), PiModel()]).bounded_up_to == math.inf
    assert Combine([Entropy(), PiModel(divergence="kl")]).bounded_up_to == 0
    assert Combine([Entropy(), Teacher([[0.5, 0.5]])], weights=[1, 0]).bounded_up_to == math.inf
    assert Combine([Entropy(), PiModel()]).bound_is_stated
    assert not Combine([Entropy(), entropy]).bound_is_stated
    assert Combine([Entropy(), entropy], weights=[1, 0]).bound_is_stated


def test_the_bound_counts_views_from_the_first_pass_on() -> None:
    """FixMatch's ½ holds for L on its two views; here they are two of three, with weight 2."""
    combined = Combine([FixMatch(weak=as_is, strong=as_is), Entropy()], weights=[2.0, 1.0])
    assert combined.bounded_up_to == pytest.approx(0.5 * (1 / 2) / 2)
    combined(nn.Linear(4, 3), ROWS)
    bound = combined.bounded_up_to
    assert bound == pytest.approx(0.5 * (2 / 3) / 2)


@pytest.mark.parametrize(("over", "bounded"), [(0.99, True), (1.2, False)])
def test_past_the_bound_a_right_pseudo_label_sends_the_risk_down(
    over: float, bounded: bool
) -> None:
    """Weak view sure and right, strong view sure and wrong, the entropy's view sure and right."""

    def model(x: torch.Tensor) -> torch.Tensor:
        return 1e4 * x

    combined = Combine(
        [FixMatch(weak=as_is, strong=lambda x, _: -x), Entropy()], weights=[2.0, 1.0]
    )
    rows, y = Rows(torch.tensor([[1.0, 0.0]]), torch.tensor([0])), torch.tensor([0])
    h, logits = combined(model, rows)
    loss = sum(cross_entropy(view, y) for view in logits) / len(logits)
    value = float(loss - over * combined.bounded_up_to * h)
    assert (value > -1) == bounded


def test_wrong_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one surrogate; got none"):
        Combine([])
    with pytest.raises(ValueError, match="got 1 for 2 surrogates"):
        Combine([Entropy(), Entropy()], weights=[1.0])
    with pytest.raises(ValueError, match="weights must lie in"):
        Combine([Entropy()], weights=[-1.0])


def test_a_step_leaves_out_what_its_terms_leave_out() -> None:
    """FixMatch in a sum is told which rows L has, as it is alone."""
    passes: list[int] = []

    def model(x: Tensor) -> Tensor:
        passes.append(len(x))
        return x

    rows = Rows(torch.randn(6, 3), torch.arange(6))
    for term in (FixMatch(targets="apart"), Smooth(FixMatch(targets="apart"))):
        passes.clear()
        scores = Combine([term, Entropy()]).step_scores(model, rows, 2)
        assert passes == [6, 2 + 6, 6]  # targets, L and strong views, entropy
        assert scores.logits.shape == (3, 6, 3)


def test_a_single_surrogate_and_a_name_are_refused_with_advice() -> None:
    with pytest.raises(TypeError, match="surrogates must be a list; got Entropy"):
        Combine(Entropy())
    for names in ("entropy", ["entropy"]):
        with pytest.raises(TypeError, match=r"as_surrogate\('entropy'\)"):
            Combine(names)
    for weights in (0.5, torch.tensor(0.5), "1"):
        with pytest.raises(
            TypeError, match=r"weights must be a list of numbers; got .* one weight"
        ):
            Combine([Entropy()], weights=weights)
    assert Combine([Entropy(), Entropy()], weights=torch.tensor([0.5, 1.0])).weights == (0.5, 1.0)

"""The scoring rule: its mean is the debiased risk, and it stays proper under MCAR."""

from itertools import product

import pytest
import torch

from dessl.risk import debiased_risk
from dessl.theory import scoring_rule

LABELLED = torch.tensor([True, False, True, False, False])


@pytest.mark.parametrize("on", ["unlabelled", "all"])
@pytest.mark.parametrize("lam", [-1.0, 0.0, 0.4, 3.0])
def test_minus_its_mean_is_the_debiased_risk(on: str, lam: float) -> None:
    loss, h = torch.rand(2, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    hidden = torch.where(LABELLED, loss, float("nan"))  # nobody knows L of an unlabelled row
    ours = -scoring_rule(hidden, h, LABELLED, lam, on=on).mean()
    risk = debiased_risk(loss[LABELLED], h[LABELLED], h[~LABELLED], lam, on=on)
    torch.testing.assert_close(ours, risk.value, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("on", ["unlabelled", "all"])
def test_it_is_proper_where_labels_are_missing_completely_at_random(on: str) -> None:
    """The expected score over (y, r) is greatest at the true p(y), for the entropy as H.

    Two rows with one label between them, each equally likely to have it; the expectation is summed
    over the labels of both rows and over which of them is labelled.
    """
    truth = 0.3

    def expected_score(p: float) -> float:
        log_p = torch.tensor([1 - p, p], dtype=torch.float64).log()
        h = -(log_p.exp() * log_p).sum().expand(2)
        total = 0.0
        for y in product((0, 1), repeat=2):
            weight = torch.tensor([truth if label else 1 - truth for label in y]).prod()
            loss = -log_p[list(y)]
            for labelled in (torch.tensor([True, False]), torch.tensor([False, True])):
                score = scoring_rule(loss, h, labelled, 2.5, on=on).mean()
                total += float(weight * score) / 2
        return total

    grid = torch.linspace(0.05, 0.95, 91).tolist()
    scores = [expected_score(p) for p in grid]
    assert grid[scores.index(max(scores))] == pytest.approx(truth, abs=1e-6)


def test_bad_input_is_refused_with_a_remedy() -> None:
    loss = torch.ones(5)
    with pytest.raises(TypeError, match="labelled must be a boolean tensor"):
        scoring_rule(loss, loss, torch.ones(5))
    with pytest.raises(ValueError, match=r"number of labelled rows must lie in \[1, inf\]; got 0"):
        scoring_rule(loss, loss, torch.zeros(5, dtype=torch.bool))
    with pytest.raises(
        ValueError, match=r"number of unlabelled rows must lie in \[1, inf\]; got 0"
    ):
        scoring_rule(loss, loss, torch.ones(5, dtype=torch.bool))
    with pytest.raises(ValueError, match=r"labelled must be .* h's shape \(4,\); got \(5,\)"):
        scoring_rule(loss, torch.ones(4), LABELLED)
    with pytest.raises(ValueError, match=r"labelled must be .* h's shape \(5,\); got \(5, 1\)"):
        scoring_rule(loss, loss, LABELLED[:, None])
    with pytest.raises(ValueError, match=r"loss must be .* h's shape \(5,\); got \(4,\)"):
        scoring_rule(loss[:4], loss, LABELLED)
    with pytest.raises(ValueError, match=r"loss must be .* h's shape \(5,\); got ndarray"):
        scoring_rule(loss.numpy(), loss, LABELLED)
    with pytest.raises(ValueError, match="loss must be finite; 1 of its 5 entries"):
        scoring_rule(torch.where(torch.arange(5) < 2, torch.nan, loss), loss, LABELLED)

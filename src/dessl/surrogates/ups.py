"""Uncertainty-aware pseudo-labels: H(x) = −log p(k|x), or −mean_c log(1 − p(c|x)).

k is the arg-max of p̄, c runs over the classes that p̄ rules out; p̄ and its spread come from
passes with dropout.
"""

import math

import torch
from torch import Tensor

from dessl import _checks
from dessl.functional import log_probabilities
from dessl.surrogates.base import Model, Rows, Scores, Surrogate, View
from dessl.surrogates.passes import side_pass
from dessl.surrogates.targets import negative_log
from dessl.surrogates.views import checked_view, joint_logits, plain_view, row_logits


class UPS(Surrogate):
    """Positive and negative labels where dropout agrees on them (Rizve et al., 2021).

    With p̄(c) and u(c) the mean and the sample deviation of p(c|x) over T passes with dropout, and
    p̄′ and u′ those of p′ ∝ p^(1/t), the softmax of the logits divided by a temperature t:

    - positive, where p̄(k) ≥ τ_p and u(k) ≤ κ_p for k = arg max p̄: H(x) = −log p(k|x);
    - else negative, with N = {c ≠ k: p̄′(c) ≤ τ_n and u′(c) ≤ κ_n}: H(x) = −mean_N log(1 − p(c|x));
    - else 0.

    t > 1 rules out fewer classes, since p′ is more uniform than p. As in the authors' code, t = 2
    by default, k is never ruled out, and the loss itself has no temperature.

    L is computed on the first of the T passes, the only one with gradients. The other passes go
    through the model together and do not change BatchNorm's statistics. The original fixes labels
    for a whole round and then trains a new network; here labels are recomputed at each step. For a
    model without dropout, or in ``eval`` mode, u = 0 and only the thresholds on p̄ apply.

    Each of the T passes differs from the mean by at most d = (T−1)/√T times the deviation. So
    H ≤ −log(τ_p − d) on positive labels, and p′(c) ≤ τ_n + d on negative ones, which bounds p(c)
    and H as long as it is below 1. The debiased risk is bounded below for every λ if τ_p > d and
    τ_n + d < 1, as by default; otherwise ``bounded_up_to`` is 0.

    Args:
        passes: T, at least 2.
        positive: τ_p.
        negative: τ_n.
        positive_spread: κ_p.
        negative_spread: κ_n.
        negative_temperature: t, positive; 1 for the plain softmax.
        view: View of a row for the model, in all passes.
        seed: Seed of the view's draws; dropout draws from PyTorch's own generator.

    >>> import torch
    >>> rows = Rows(torch.tensor([[3.0, 0.0, 0.0], [2.0, 2.0, -4.0]]), torch.arange(2))
    >>> UPS()(lambda x: x, rows).h  # the first is class 0, the second is not class 2
    tensor([0.0949, 0.0012])
    """

    def __init__(
        self,
        passes: int = 10,
        *,
        positive: float = 0.7,
        negative: float = 0.05,
        positive_spread: float = 0.05,
        negative_spread: float = 0.005,
        negative_temperature: float = 2.0,
        view: View = plain_view,
        seed: int = 0,
    ) -> None:
        super().__init__(seed=seed)
        self.passes = _checks.whole_number("passes", passes, low=2)
        self.positive = _checks.number("positive", positive, low=0.0, high=1.0)
        self.negative = _checks.number("negative", negative, low=0.0, high=1.0)
        self.positive_spread = _checks.number("positive_spread", positive_spread, low=0.0)
        self.negative_spread = _checks.number("negative_spread", negative_spread, low=0.0)
        self.negative_temperature = _checks.number(
            "negative_temperature", negative_temperature, low=0.0, open_low=True
        )
        self.view = checked_view("view", view)
        reach = (passes - 1) / math.sqrt(passes)
        lowest = self.positive - reach * self.positive_spread
        highest = self.negative + reach * self.negative_spread
        self.bounded_up_to = math.inf if lowest > 0 and highest < 1 else 0.0

    def forward(self, model: Model, rows: Rows) -> Scores:
        """Return H (n,) and the logits of the pass with a gradient, (1, n, classes)."""
        x = self.view(rows.x, self.generator(rows.x.device))
        logits = row_logits(model, x)
        log_p = log_probabilities(logits)
        copies = [x] * (self.passes - 1)
        with torch.no_grad():
            others = log_probabilities(joint_logits(side_pass(model), copies))
        return Scores(
            self._h(log_p, torch.cat([log_p.detach().unsqueeze(0), others])), logits[None]
        )

    def _h(self, log_p: Tensor, passes: Tensor) -> Tensor:
        spread, mean = torch.std_mean(passes.exp(), dim=0)
        confidence, label = mean.max(-1)
        chosen = label.unsqueeze(-1)
        sure = spread.gather(-1, chosen).squeeze(-1) <= self.positive_spread
        positive = (confidence >= self.positive) & sure
        tempered = (passes / self.negative_temperature).softmax(-1)
        spread, mean = torch.std_mean(tempered, dim=0)
        excluded = (mean <= self.negative) & (spread <= self.negative_spread)
        excluded = excluded.scatter(-1, chosen, False)
        # Mask classes that are not excluded before the logarithm, which has no gradient at p = 1.
        log_not = torch.log1p(-log_p.exp().masked_fill(~excluded, 0.0))
        loss_negative = -log_not.sum(-1) / excluded.sum(-1).clamp(min=1)
        # NaN is not confident, but reported by the risk.
        return torch.where(positive, negative_log(log_p, label), loss_negative + 0.0 * confidence)

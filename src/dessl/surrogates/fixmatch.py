"""FixMatch: H(x) = 1[max p(x₁) ≥ τ] · −log p(arg max p(x₁) | x₂), x₁ weak and x₂ strong."""

from typing import Literal

import torch

from dessl import _checks
from dessl.functional import confident_cross_entropy
from dessl.surrogates.base import Model, Rows, Scores, View
from dessl.surrogates.evaluated import evaluated
from dessl.surrogates.views import row_logits, strong_view, weak_view
from dessl.surrogates.weak_to_strong import WeakToStrong

Targets = Literal["joint", "apart"]


class FixMatch(WeakToStrong):
    """Cross-entropy of the strong view to the weak view's confident label (Sohn et al., 2020).

    H(x) = −log p(k|x₂) where p(k|x₁) ≥ τ, k = arg max_y p(y|x₁), else 0.

    L is computed on both views: L = ½ ℓ(y|x₁) + ½ ℓ(y|x₂), ℓ = −log p, as in the paper. If the
    confident pseudo-label k is right, L − λH = ½ ℓ(y|x₁) + (½ − λ) ℓ(y|x₂), which is bounded below
    up to λ = ½ and for no larger λ: that is ``bounded_up_to``. If k is *wrong*, it is unbounded for
    every λ > 0: with p(y|x₂) → 1 the loss stays finite and H → ∞. Such rows are rare at a high τ,
    and the other half of L pulls their weak view towards y; if a run still diverges, bound the risk
    or smooth H.

    Args:
        threshold: τ; a row below it counts as a zero.
        weak: View that pseudo-labels are computed from.
        strong: View that is trained on them.
        targets: Where pseudo-labels are computed. ``"joint"``: in the pass that all views share, as
            in the paper. ``"apart"``: in a separate pass of all rows, without gradients and in
            evaluation mode, as the model will be used; a second pass, with gradients, has the
            strong views and the weak views that L is computed on. This saves a quarter of the work
            in :func:`dessl.train` and in Lightning, which call :meth:`step_scores`; call it in your
            own loop too. A plain call computes L on all rows, which costs one pass more than
            ``"joint"``. H is still one function of all rows, but with BatchNorm or dropout it
            differs from that of the joint pass.
        seed: Seed of the views' draws.

    >>> import torch
    >>> same, blank = lambda x, generator: x, lambda x, generator: 0 * x
    >>> rows = Rows(torch.tensor([[5.0, 0.0], [1.0, 0.0]]), torch.arange(2))
    >>> FixMatch(weak=same, strong=blank)(lambda x: x, rows).h
    tensor([0.6931, 0.0000])
    """

    bounded_up_to = 0.5

    def __init__(
        self,
        threshold: float = 0.95,
        *,
        weak: View = weak_view,
        strong: View = strong_view,
        targets: Targets = "joint",
        seed: int = 0,
    ) -> None:
        super().__init__(weak=weak, strong=strong, seed=seed)
        self.threshold = _checks.number("threshold", threshold, low=0.0, high=1.0)
        _checks.one_of("targets", targets, ("joint", "apart"))
        self.targets = targets

    def forward(self, model: Model, rows: Rows) -> Scores:
        """Return H (n,) and the logits of the weak and the strong view, (2, n, classes)."""
        return self._scores(model, rows, len(rows.x))

    def step_scores(self, model: Model, rows: Rows, n_labelled: int) -> Scores:
        """Return the scores of a step in which only the first ``n_labelled`` rows have a loss L.

        With ``targets="apart"`` the weak logits of all other rows have no gradient, since L does
        not use them. H does not depend on ``n_labelled``, except through BatchNorm's batch.
        """
        if self.targets == "joint" or type(self).forward is not FixMatch.forward:
            return super().step_scores(model, rows, n_labelled)
        return self._scores(model, rows, n_labelled)

    def needs_own_run(self) -> str:
        """With targets in a separate pass, BatchNorm would see different batches when stacked."""
        if self.targets == "apart":
            return (
                f"{type(self).__name__} with targets='apart' gives BatchNorm different batches in "
                "a population than in a single run. Pass targets='joint'."
            )
        return super().needs_own_run()

    def _scores(self, model: Model, rows: Rows, n_loss: int) -> Scores:
        if self.targets == "joint":
            logits = self.view_logits(model, rows)
            weak, strong = logits
            return Scores(confident_cross_entropy(strong, weak, self.threshold), logits)
        generator = self.generator(rows.x.device)
        weak, strong = self.weak(rows.x, generator), self.strong(rows.x, generator)
        target = evaluated(model)(weak)
        taught = row_logits(model, torch.cat([weak[:n_loss], strong]))
        h = confident_cross_entropy(taught[n_loss:], target, self.threshold)
        weak_logits = torch.cat([taught[:n_loss], target[n_loss:]])
        return Scores(h, torch.stack([weak_logits, taught[n_loss:]]))


class FixMatchStar(FixMatch):
    """FixMatch as published: strong views in the unlabelled term only.

    H is that of :class:`FixMatch`; L is computed on the weak view alone. Nothing in L then
    constrains the strong view: on a labelled row with a confident weak view, p(k|x₂) → 0 makes −λH
    → −∞ while L does not change. So the debiased risk is unbounded below for every λ > 0, and the
    paper found that training on it diverges. Use :class:`FixMatch`, bound the risk, or smooth H.

    Args:
        threshold: τ; a row below it counts as a zero.
        weak: View that pseudo-labels are computed from.
        strong: View that is trained on them.
        targets: As in :class:`FixMatch`.
        seed: Seed of the views' draws.

    >>> import torch
    >>> rows = Rows(torch.tensor([[5.0, 0.0], [1.0, 0.0]]), torch.arange(2))
    >>> FixMatchStar()(lambda x: x, rows).logits.shape  # the weak view
    torch.Size([1, 2, 2])
    """

    bounded_up_to = 0.0

    def _scores(self, model: Model, rows: Rows, n_loss: int) -> Scores:
        h, logits = super()._scores(model, rows, n_loss)
        return Scores(h, logits[:1])

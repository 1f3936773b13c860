"""FixMatch: H(x) = 1[max p(x₁) ≥ τ] · −log p(arg max p(x₁) | x₂), x₁ weak and x₂ strong."""

from torch import Tensor

from dessl import _checks
from dessl.functional import confident_cross_entropy
from dessl.surrogates.base import Model, Rows, Scores, View
from dessl.surrogates.views import strong_view, weak_view
from dessl.surrogates.weak_to_strong import Targets, WeakToStrong


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
        targets: As in :class:`WeakToStrong`.
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
        super().__init__(weak=weak, strong=strong, targets=targets, seed=seed)
        self.threshold = _checks.number("threshold", threshold, low=0.0, high=1.0)

    def h(self, weak: Tensor, strong: Tensor) -> Tensor:
        """Return H (n,) from the logits of the weak and the strong view, (n, classes)."""
        return confident_cross_entropy(strong, weak, self.threshold)


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
        targets: As in :class:`WeakToStrong`.
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

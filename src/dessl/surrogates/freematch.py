"""FreeMatch: FixMatch at self-adaptive thresholds, τ(c) = τ · p̃(c) / max_c p̃(c)."""

import torch
from torch import Tensor, nn

from dessl import _checks
from dessl.functional import log_probabilities
from dessl.surrogates.base import Rows, Scores, View
from dessl.surrogates.state import device_of, move_towards, prepared
from dessl.surrogates.targets import confident_labels, negative_log
from dessl.surrogates.views import strong_view, weak_view
from dessl.surrogates.weak_to_strong import Targets, WeakToStrong


class FreeMatch(WeakToStrong):
    """Cross-entropy to the weak view's label, with adaptive thresholds (Wang et al., 2023).

    H(x) = −log p(k|x₂) where p(k|x₁) ≥ τ(k), k = arg max_y p(y|x₁), else 0, with

        τ ← m τ + (1 − m) mean max_y p(y|x₁),    p̃ ← m p̃ + (1 − m) mean p(·|x₁),
        τ(c) = τ · p̃(c) / max_c p̃(c),

    both starting at 1/K. State: τ and p̃, updated after the step from all its rows, including
    labelled ones; the original updates them from unlabelled rows and before they are used. Its
    fairness term is omitted: it is a function of a batch's mean prediction and has no value per
    row.

    L is computed on both views, ½ + ½. Given the thresholds, H is FixMatch's: the debiased risk is
    bounded below up to λ = ½ on rows whose pseudo-label is right, and for no λ > 0 if it is wrong
    (see :class:`FixMatch`); early in training, at low thresholds, more of them are wrong.

    Args:
        momentum: m.
        weak: View that pseudo-labels are computed from.
        strong: View that is trained on them.
        targets: As in :class:`WeakToStrong`.
        seed: Seed of the views' draws.

    >>> freematch = FreeMatch(momentum=0.5)
    >>> freematch.prepare(nn.Linear(2, 2), n_rows=1, n_classes=2)
    >>> rows = Rows(torch.tensor([[0.9, 0.1]]).log(), torch.tensor([0]))
    >>> freematch.after_step(nn.Linear(2, 2), rows, freematch(lambda x: x, rows))
    >>> freematch.confidence, freematch.mean
    (tensor(0.7000), tensor([0.7000, 0.3000]))
    """

    bounded_up_to = 0.5
    confidence: Tensor | None
    mean: Tensor | None

    def __init__(
        self,
        momentum: float = 0.999,
        *,
        weak: View = weak_view,
        strong: View = strong_view,
        targets: Targets = "joint",
        seed: int = 0,
    ) -> None:
        super().__init__(weak=weak, strong=strong, targets=targets, seed=seed)
        self.momentum = _checks.number("momentum", momentum, low=0.0, high=1.0)
        self.register_buffer("confidence", None)
        self.register_buffer("mean", None)

    def prepare(self, model: nn.Module, n_rows: int, n_classes: int) -> None:  # noqa: ARG002
        """Start with τ = 1/K and a flat p̃."""
        device = device_of(model)
        self.confidence = torch.tensor(1 / n_classes, device=device)
        self.mean = torch.full((n_classes,), 1 / n_classes, device=device)

    def h(self, weak: Tensor, strong: Tensor) -> Tensor:
        """Return H (n,) from the logits of the weak and the strong view, (n, classes)."""
        log_weak, log_strong = log_probabilities(weak.detach()), log_probabilities(strong)
        mean = prepared(self, "mean", log_weak)
        thresholds = prepared(self, "confidence") * mean / mean.amax()
        confidence, label = confident_labels(log_weak)
        loss = negative_log(log_strong, label)
        # 0, or NaN if the confidence is: it is not masked, but reported by the risk.
        return torch.where(confidence >= thresholds[label], loss, 0.0 * confidence)

    @torch.no_grad()
    def after_step(self, model: nn.Module, rows: Rows, scores: Scores) -> None:  # noqa: ARG002
        """Update τ and p̃ with the step's mean confidence and mean prediction."""
        p = log_probabilities(scores.logits[0]).exp()
        move_towards(prepared(self, "mean", p), p.mean(0), 1 - self.momentum)
        move_towards(prepared(self, "confidence"), p.amax(-1).mean(), 1 - self.momentum)

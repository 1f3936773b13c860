"""SoftMatch: H(x) = w(x) · −log p(arg max p(x₁) | x₂), w a truncated Gaussian of the confidence."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from dessl import _checks
from dessl.functional import log_probabilities
from dessl.surrogates.base import Rows, Scores, View
from dessl.surrogates.state import device_of, move_towards, prepared
from dessl.surrogates.targets import (
    aligned,
    checked_prior,
    confident_labels,
    negative_log,
    prior_of_classes,
)
from dessl.surrogates.views import strong_view, weak_view
from dessl.surrogates.weak_to_strong import Targets, WeakToStrong


class SoftMatch(WeakToStrong):
    """Cross-entropy to the weak view's label, weighted by its confidence (Chen et al., 2023).

    H(x) = w(x) · −log p(k|x₂), k = arg max_y p(y|x₁), with the confidence c(x) = max_y q(y) of the
    aligned q(y) ∝ p(y|x₁) π(y) / p̃(y), and

        w(x) = exp(−(min(c(x) − μ, 0))² / (2 σ² / s²)),
        μ ← m μ + (1 − m) mean c,    σ² ← m σ² + (1 − m) var c,    p̃ ← m p̃ + (1 − m) mean p(·|x₁).

    μ and p̃ start at 1/K, σ² at 1. State: μ, σ² and p̃, updated after the step from all its rows,
    including labelled ones; the original updates them from unlabelled rows and before they are
    used, and its π is uniform. If classes are not equally frequent, a uniform π gives rows of rare
    classes larger weights; with their true frequencies as π, no class is favoured.

    L is computed on both views, ½ + ½. The label is hard and w ≤ 1, so on rows whose pseudo-label
    is right L − λH ≥ −(½ − λw) log p(y|x₂) is bounded below up to λ = ½; if it is wrong, for no λ >
    0 (see :class:`FixMatch`), and since no weight is zero, no such row is masked.

    Args:
        momentum: m.
        prior: π, one probability for each class; uniform if not given.
        n_sigma: s; a row that is 1/s deviations below the mean has weight exp(−½).
        weak: View that pseudo-labels are computed from.
        strong: View that is trained on them.
        targets: As in :class:`WeakToStrong`.
        seed: Seed of the views' draws.

    >>> same = lambda x, generator: x
    >>> softmatch = SoftMatch(weak=same, strong=same)
    >>> softmatch.prepare(nn.Linear(2, 2), n_rows=1, n_classes=2)
    >>> softmatch(lambda x: x, Rows(torch.tensor([[0.25, 0.75]]).log(), torch.tensor([0]))).h
    tensor([0.2877])
    """

    bounded_up_to = 0.5
    mu: Tensor | None
    variance: Tensor | None
    mean: Tensor | None
    class_prior: Tensor | None

    def __init__(
        self,
        momentum: float = 0.999,
        *,
        prior: Sequence[float] | None = None,
        n_sigma: float = 2.0,
        weak: View = weak_view,
        strong: View = strong_view,
        targets: Targets = "joint",
        seed: int = 0,
    ) -> None:
        super().__init__(weak=weak, strong=strong, targets=targets, seed=seed)
        self.momentum = _checks.number("momentum", momentum, low=0.0, high=1.0)
        self.prior = checked_prior(prior)
        self.n_sigma = _checks.number("n_sigma", n_sigma, low=0.0, open_low=True)
        self.register_buffer("mu", None)
        self.register_buffer("variance", None)
        self.register_buffer("mean", None)
        self.register_buffer("class_prior", None)

    def prepare(self, model: nn.Module, n_rows: int, n_classes: int) -> None:  # noqa: ARG002
        """Start with μ = 1/K, σ² = 1 and a flat p̃."""
        device = device_of(model)
        self.mu = torch.tensor(1 / n_classes, device=device)
        self.variance = torch.tensor(1.0, device=device)
        self.mean = prior_of_classes(None, n_classes, device)
        self.class_prior = prior_of_classes(self.prior, n_classes, device)

    def h(self, weak: Tensor, strong: Tensor) -> Tensor:
        """Return H (n,) from the logits of the weak and the strong view, (n, classes)."""
        log_weak, log_strong = log_probabilities(weak.detach()), log_probabilities(strong)
        below = (self._confidence(log_weak) - prepared(self, "mu")).clamp(max=0.0)
        width = prepared(self, "variance") / self.n_sigma**2
        width = width.clamp(min=torch.finfo(width.dtype).tiny)  # equal confidences: σ² may be 0
        weight = torch.exp(-below.square() / (2 * width))
        _, label = confident_labels(log_weak)
        return weight * negative_log(log_strong, label)

    @torch.no_grad()
    def after_step(self, model: nn.Module, rows: Rows, scores: Scores) -> None:  # noqa: ARG002
        """Update μ, σ² and p̃ with those of the step's rows."""
        log_p = log_probabilities(scores.logits[0])
        confidence = self._confidence(log_p)
        spread = confidence.var(correction=min(1, len(confidence) - 1))
        share = 1 - self.momentum
        move_towards(prepared(self, "mu"), confidence.mean(), share)
        move_towards(prepared(self, "variance"), spread, share)
        move_towards(prepared(self, "mean", log_p), log_p.exp().mean(0), share)

    def _confidence(self, log_p: Tensor) -> Tensor:
        mean, prior = (prepared(self, name, log_p) for name in ("mean", "class_prior"))
        return aligned(log_p, mean, prior).amax(-1).exp()

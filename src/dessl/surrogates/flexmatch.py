"""FlexMatch: FixMatch with a threshold for each class, τ(c) = M(β(c)) · τ, M(β) = β / (2 − β)."""

import torch
from torch import Tensor, nn

from dessl import _checks
from dessl.functional import log_probabilities
from dessl.surrogates.base import Rows, Scores, View
from dessl.surrogates.state import checked_ids, device_of, prepared
from dessl.surrogates.targets import confident_labels, negative_log
from dessl.surrogates.views import strong_view, weak_view
from dessl.surrogates.weak_to_strong import Targets, WeakToStrong

NEVER, LEFT_OUT = -1, -2  # in place of a confident label: none yet, and not drawn by any step


class FlexMatch(WeakToStrong):
    """Cross-entropy to the weak view's label, with a threshold per class (Zhang et al., 2021).

    H(x) = −log p(k|x₂) where p(k|x₁) ≥ τ(k), k = arg max_y p(y|x₁), else 0. With σ(c) the number of
    rows whose last confident label (p ≥ τ) was c, out of N,

        β(c) = σ(c) / max(max_c σ(c), N − Σ_c σ(c)),    τ(c) = τ · β(c) / (2 − β(c)).

    The second argument of the maximum is the warm-up: thresholds start at 0 and rise as rows
    become confident. State: the last confident label of each row, and the thresholds. Counts are
    over all rows that steps may draw, including labelled ones, since H is blind; the original
    counts only unlabelled rows. :func:`dessl.train` registers these rows with :meth:`draws_from`.
    Without that, N is one more than the largest id, and an id that is never drawn, such as a
    validation row, counts as a row that never becomes confident: if there are more of these than
    rows of the most common class, they keep the thresholds low forever. If a row
    occurs twice in a step, the larger of its confident labels is kept.

    L is computed on both views, ½ + ½. Given the thresholds, H is FixMatch's: the debiased risk is
    bounded below up to λ = ½ on rows whose pseudo-label is right, and for no λ > 0 if it is wrong
    (see :class:`FixMatch`); early in training, at low thresholds, more of them are wrong.

    Args:
        threshold: τ.
        warm_up: Whether rows that were never confident lower the thresholds.
        weak: View that pseudo-labels are computed from.
        strong: View that is trained on them.
        targets: As in :class:`WeakToStrong`.
        seed: Seed of the views' draws.

    >>> flexmatch = FlexMatch()
    >>> flexmatch.prepare(nn.Linear(2, 2), n_rows=4, n_classes=2)
    >>> rows = Rows(torch.tensor([[5.0, 0.0], [1.0, 0.0]]), torch.tensor([0, 2]))
    >>> scores = flexmatch(lambda x: x, rows)
    >>> flexmatch.after_step(nn.Linear(2, 2), rows, scores)
    >>> flexmatch.last_label, flexmatch.thresholds  # β(0) = 1 / max(1, 4 − 1)
    (tensor([ 0, -1, -1, -1]), tensor([0.1900, 0.0000]))
    """

    bounded_up_to = 0.5
    last_label: Tensor | None
    thresholds: Tensor | None

    def __init__(
        self,
        threshold: float = 0.95,
        *,
        warm_up: bool = True,
        weak: View = weak_view,
        strong: View = strong_view,
        targets: Targets = "joint",
        seed: int = 0,
    ) -> None:
        super().__init__(weak=weak, strong=strong, targets=targets, seed=seed)
        self.threshold = _checks.number("threshold", threshold, low=0.0, high=1.0)
        self.warm_up = _checks.true_or_false("warm_up", warm_up)
        self.register_buffer("last_label", None)
        self.register_buffer("thresholds", None)

    def prepare(self, model: nn.Module, n_rows: int, n_classes: int) -> None:
        """Start with no confident row and thresholds of 0."""
        device = device_of(model)
        self.last_label = torch.full((n_rows,), NEVER, device=device)
        self.thresholds = torch.zeros(n_classes, device=device)

    def draws_from(self, ids: Tensor) -> None:
        """Exclude rows that no step draws from all counts."""
        last_label = prepared(self, "last_label")
        drawn = torch.zeros_like(last_label, dtype=torch.bool)
        drawn[ids] = True
        last_label[~drawn] = LEFT_OUT

    def h(self, weak: Tensor, strong: Tensor) -> Tensor:
        """Return H (n,) from the logits of the weak and the strong view, (n, classes)."""
        log_weak, log_strong = log_probabilities(weak.detach()), log_probabilities(strong)
        thresholds = prepared(self, "thresholds", log_weak)
        confidence, label = confident_labels(log_weak)
        loss = negative_log(log_strong, label)
        # 0, or NaN if the confidence is: it is not masked, but reported by the risk.
        return torch.where(confidence >= thresholds[label], loss, 0.0 * confidence)

    @torch.no_grad()
    def after_step(self, model: nn.Module, rows: Rows, scores: Scores) -> None:  # noqa: ARG002
        """Store the confident labels of the step's rows and update the thresholds."""
        log_p = log_probabilities(scores.logits[0])
        thresholds = prepared(self, "thresholds", log_p)
        last_label = prepared(self, "last_label")
        ids = checked_ids(rows.ids, len(log_p), len(last_label))
        confidence, label = confident_labels(log_p)
        new = torch.where(confidence >= self.threshold, label, NEVER)
        # The maximum does not depend on the order of rows that share an id; plain indexing does.
        step = torch.full_like(last_label, NEVER).scatter_reduce(0, ids, new, "amax")
        last_label.copy_(torch.where(step >= 0, step, last_label))
        counts = torch.zeros(len(thresholds) - LEFT_OUT, device=log_p.device, dtype=torch.int64)
        counts.scatter_add_(0, last_label - LEFT_OUT, torch.ones_like(last_label))
        never, confident = counts[NEVER - LEFT_OUT], counts[-LEFT_OUT:]
        most = torch.maximum(confident.amax(), never) if self.warm_up else confident.amax()
        effect = confident / most.clamp(min=1)
        thresholds.copy_(self.threshold * effect / (2 - effect))

"""Area under the ROC curve: the probability that a row of the class outscores another row.

For class k with n₊ rows of it and n₋ others, ties counted as half:

    AUC_k = ( #{s_i > s_j} + ½·#{s_i = s_j} ) / (n₊·n₋),   i of the class, j not

The macro AUC is the mean over classes that have both n₊ > 0 and n₋ > 0 (one versus rest). With two
classes it is the AUC of class 1: the two one-versus-rest values are the same number.
"""

import math

import torch
from torch import Tensor

from dessl._checks import ArrayLike
from dessl.evaluation.metrics.predictions import checked_pair

CELLS_AT_ONCE = 1 << 22  # sorted scores in memory at a time: 32 MB in float64
ROUNDING = 1e-12  # of log-odds: equal probabilities in different rows agree to within this


def log_odds(logits: Tensor) -> Tensor:
    """Log-odds log p_k − log(1 − p_k) of softmax, (n, classes), also where p_k rounds to 0 or 1.

    >>> log_odds(torch.tensor([[0.0, 100.0]], dtype=torch.float64))
    tensor([[-100.,  100.]], dtype=torch.float64)
    """
    # 1 − p_k cancels only for the most likely class: sum the other classes instead.
    top = logits.argmax(dim=1, keepdim=True)
    rest = logits.scatter(1, top, -math.inf).logsumexp(dim=1, keepdim=True)
    odds = torch.log_softmax(logits, dim=1)
    odds -= odds.exp().clamp_(max=0.5).neg_().log1p_()
    return odds.scatter_(1, top, logits.gather(1, top) - rest)


def class_auc(scores: Tensor, y: Tensor, *, rounding: float = 0.0) -> Tensor:
    """Exact AUC of each class against the rest, (classes,); NaN if one side has no rows.

    Args:
        scores: (n, classes), any increasing function of each class's probability.
        y: (n,) class numbers.
        rounding: scores s that differ by less than this times 1 + |s| are ties.
    """
    n, classes = scores.shape
    counts = torch.bincount(y, minlength=classes)
    own = scores.gather(1, y[:, None]).squeeze(1)
    rows = torch.argsort(y, stable=True)
    starts = counts.cumsum(0) - counts
    most = int(counts.max())
    doubled_wins = torch.zeros_like(counts)
    step = max(1, CELLS_AT_ONCE // n)
    for first in range(0, classes, step):
        part = slice(first, min(first + step, classes))
        # The rows of each class side by side, (part, most), padded with a row that is not counted.
        place = torch.arange(most, device=y.device)
        inside = place < counts[part, None]
        padded = own[rows[torch.where(inside, starts[part, None] + place, 0)]]
        ordered = scores[:, part].T.contiguous().sort(dim=1).values
        width = rounding * (1 + padded.abs())
        below = torch.searchsorted(ordered, padded - width)
        below_or_equal = torch.searchsorted(ordered, padded + width, right=True)
        doubled_wins[part] = ((below + below_or_equal) * inside).sum(dim=1)
    # Against rows of its own class the doubled wins are always n₊², whatever the scores.
    return (doubled_wins - counts.square()).double() / (2 * counts * (n - counts))


def macro_auc(of_each_class: Tensor) -> float:
    """Average over the classes with an AUC; NaN if there are none; with two classes, class 1."""
    if of_each_class.shape[0] == 2:
        return float(of_each_class[1])
    defined = of_each_class[~of_each_class.isnan()]
    return float(defined.mean()) if defined.numel() else math.nan


def auc(probabilities: ArrayLike, y: ArrayLike) -> float:
    """Return the exact macro one-versus-rest AUC; NaN if y has only one class.

    Args:
        probabilities: (n, classes), rows summing to one.
        y: (n,) class numbers.

    >>> auc([[0.9, 0.1], [0.6, 0.4], [0.65, 0.35], [0.2, 0.8]], [0, 0, 1, 1])
    0.75
    """
    values, labels = checked_pair(probabilities, y)
    return macro_auc(class_auc(values, labels))


class AucHistogram:
    """Streaming AUC, with a bound on its error.

    Log-odds are counted in ``bins`` equal bins over [−40, 40] for each class. A pair in the same
    bin counts as half, so the error of AUC_k is at most ½·Σ_b (n₊_b/n₊)·(n₋_b/n₋).

    >>> histogram = AucHistogram(classes=2, bins=1000)
    >>> odds = torch.tensor([[0.0, 1.0], [0.0, 2.0], [0.0, -1.0]])
    >>> histogram.update(odds, torch.tensor([1, 0, 0]))
    >>> histogram.macro_auc_and_bound()
    (0.5, 0.0)
    """

    reach = 40.0

    def __init__(self, classes: int, bins: int, device: torch.device | None = None) -> None:
        self.bins = bins
        self.all = torch.zeros(classes, bins, dtype=torch.int64, device=device)
        self.own = torch.zeros_like(self.all)

    def update(self, odds: Tensor, y: Tensor) -> None:
        """Count the log-odds (n, classes) of rows with labels y (n,)."""
        classes = odds.shape[1]
        place = (odds + self.reach) * (self.bins / (2 * self.reach))
        cell = place.clamp_(0, self.bins - 1).long()
        cell += torch.arange(classes, device=y.device) * self.bins
        cells = classes * self.bins
        self.all += torch.bincount(cell.flatten(), minlength=cells).view_as(self.all)
        own = cell.gather(1, y[:, None]).squeeze(1)
        self.own += torch.bincount(own, minlength=cells).view_as(self.own)

    def macro_auc_and_bound(self) -> tuple[float, float]:
        """Return the macro AUC, and a bound on its distance from the exact one."""
        rest = self.all - self.own
        below = rest.cumsum(dim=1) - rest
        pairs = 2 * self.own.sum(dim=1).double() * rest.sum(dim=1)
        value = (self.own * (2 * below + rest)).sum(dim=1) / pairs
        bound = (self.own * rest).sum(dim=1) / pairs
        return macro_auc(value), macro_auc(bound)

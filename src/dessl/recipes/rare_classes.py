"""Shrink networks towards the class shares if a class is rare and held-out labels ask for it.

    p'(y|x) = (1 − ε) p(y|x) + ε s(y),   ε = arg max Σ_i log p'(y_i|x_i) over held-out labels

With 12 labels of a class among 300, a fold has two or three of them to select a network's step by,
and the geometric mean of networks that found different positives says less of the class than any of
them: the networks may be worse than the class shares s. The sum is concave in ε. The held-out rows
have selected the networks' steps, so that ε is rather too small, and 0 where p is good. It keeps
the order of rows, and is not used if no class is rare.
"""

import torch
from torch import Tensor

RARE = 0.2  # a class is rare if its share of the labels is below this, divided by the classes
FEWEST_LABELS = 10  # held-out labels for an estimate of ε
LEAST, MOST = 0.005, 0.99  # ε that is not worth it, and the largest
HALVINGS = 40


def doubt_towards_shares(logits: Tensor, y: Tensor, propensity: Tensor | None = None) -> Tensor:
    """Return ε s, (classes,): zeros if no class is rare, or if the networks are better alone.

    Args:
        logits: Logits (n, classes) of held-out rows by networks that were not trained on them.
        y: Their labels, (n,).
        propensity: π of the rows, (n,): each counts by 1/π.

    >>> y = torch.tensor([1] + [0] * 19)
    >>> sure = torch.tensor([[4.0, 0.0]] * 20)  # never expects class 1
    >>> doubt_towards_shares(sure, y)
    tensor([0.3991, 0.0399], dtype=torch.float64)
    >>> doubt_towards_shares(sure, torch.arange(20) % 2)  # no class is rare
    tensor([0., 0.], dtype=torch.float64)
    """
    p, y = logits.double().softmax(-1).cpu(), y.cpu()
    n, classes = p.shape
    weights = torch.ones(n, dtype=p.dtype)
    if propensity is not None:
        weights = 1 / propensity.double().cpu()
        weights = weights * (n / weights.sum())
    counts = p.new_zeros(classes).index_add_(0, y, weights)
    present = counts[counts > 0]
    if n < FEWEST_LABELS or len(present) < 2 or float(present.min()) >= RARE * n / classes:
        return p.new_zeros(classes)
    shares = (counts + 1) / (n + classes)  # by Laplace's rule of succession
    own, fixed = p[torch.arange(n), y], shares[y]

    def rises(epsilon: float) -> bool:
        """Whether the sum still grows at this ε."""
        mixed = (1 - epsilon) * own + epsilon * fixed
        return float(weights @ ((fixed - own) / mixed)) > 0

    low, high = 0.0, MOST
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if rises(middle) else (low, middle)
    return low * shares if low > LEAST else p.new_zeros(classes)

"""A held-out row's prediction where the row itself took part in selecting the training step.

A network is trained without a fold and stopped where the fold's loss is least. Its prediction of
the fold's rows is then too good: with six rows in a fold, twenty evaluations to choose from and
overlapping classes, .28 nats where new rows have .62. So the step is chosen anew for each row, by
the fold's other rows.
"""

import torch
from torch import Tensor


def selected_by_others(logits: Tensor, y: Tensor) -> Tensor:
    """Return log-probabilities (n, classes), float64, each row's at the step the others choose.

    Args:
        logits: (evaluations, n, classes) of a fold's rows, by the network that held them out.
        y: (n,) their class numbers.

    >>> logits = torch.tensor([[[2.0, 0.0], [2.0, 0.0]], [[0.0, 2.0], [0.0, 2.0]]])
    >>> selected_by_others(logits, torch.tensor([0, 1])).argmax(1).tolist()  # each by the other
    [1, 0]
    """
    if logits.ndim != 3 or logits.shape[1] != len(y) or not len(logits):
        raise ValueError(
            f"logits must have shape (evaluations, {len(y)}, classes); got {tuple(logits.shape)}."
        )
    log_p = logits.double().log_softmax(-1)
    losses = -log_p.gather(2, y.expand(len(log_p), -1)[:, :, None])[:, :, 0]
    others = losses.sum(1, keepdim=True) - losses
    if len(y) == 1:  # nobody else to choose: the last step
        return log_p[-1]
    return log_p[others.argmin(0), torch.arange(len(y))]

"""A held-out row's prediction where the row itself took part in selecting the training step.

A network is trained without a fold and stopped where the fold's loss is least. Its prediction of
the fold's rows is then too good: on overlapping classes with six rows in a fold, .32 nats where new
rows had .58 (means of three draws). So the step is chosen anew for each row, by the fold's others.
"""

import torch
from torch import Tensor


def selected_by_others(logits: Tensor, y: Tensor, groups: Tensor | None = None) -> Tensor:
    """Return log-probabilities (n, classes), float64, each row's at the step the others choose.

    Args:
        logits: (evaluations, n, classes) of a fold's rows, by the network that held them out.
        y: (n,) their class numbers.
        groups: (n,) numbers; rows of one group, such as copies of one row, do not choose for each
            other. Each row its own group if not given.

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
    _, group = torch.unique(torch.arange(len(y)) if groups is None else groups, return_inverse=True)
    if int(group.max()) == 0:  # no other row to choose by: the last step
        return log_p[-1]
    own = losses.new_zeros(len(losses), int(group.max()) + 1).index_add(1, group, losses)[:, group]
    others = losses.sum(1, keepdim=True) - own
    return log_p[others.argmin(0), torch.arange(len(y))]

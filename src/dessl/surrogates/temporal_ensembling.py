"""Temporal ensembling: H(x) = ‖p_θ(·|v(x)) − z̃‖², z̃ the row's own past predictions, averaged.

After each step Z ← a·Z + (1 − a)·p for the rows in it; z̃ = Z/(1 − aᵗ) after t visits, so that the
zeros Z began with do not count.
"""

import torch
from torch import Tensor, nn

from dessl import _checks
from dessl.functional import log_probabilities
from dessl.surrogates.base import Model, Rows, Scores, Surrogate, View
from dessl.surrogates.state import checked_ids, device_of, prepared
from dessl.surrogates.views import jittered_view


class TemporalEnsembling(Surrogate):
    """Squared distance to a row's accumulated past predictions (Laine & Aila, 2017).

    The memory (n_rows, classes) is addressed by row ids. A row that was never seen has no target
    yet: its H is 0, and stays in the mean. A row that comes twice in a batch counts as one visit,
    with the prediction of its first place. The original's distance is the mean over the K classes,
    ours the sum: their weight w is our λ = w/K.

    The debiased risk is unbiased for any memory that is independent of which rows have labels.
    Where labelled rows are drawn more often than unlabelled ones, they are also remembered more
    often, with fresher targets, so H is not quite the same function on both sides; no other term
    of the room has this weakness. Batches that visit all rows equally often are free of it.

    L pairs with the same view of the row. H is at most 2, so the debiased risk is bounded below for
    every λ.

    Args:
        momentum: a, the share of the past that is kept at a visit, in [0, 1).
        view: What the model sees of a row.
        seed: Seed of the view's draws.

    >>> from dessl.surrogates import as_is
    >>> surrogate = TemporalEnsembling(view=as_is)
    >>> surrogate.prepare(nn.Identity(), n_rows=2, n_classes=3)
    >>> rows = Rows(torch.tensor([[1.0, 0.0, -1.0]]), torch.tensor([1]))
    >>> surrogate.after_step(nn.Identity(), rows, surrogate(nn.Identity(), rows))
    >>> surrogate.target(rows.ids)  # one visit: its own prediction
    tensor([[0.6652, 0.2447, 0.0900]])
    """

    memory: Tensor | None
    visits: Tensor | None

    def __init__(self, *, momentum: float = 0.6, view: View = jittered_view, seed: int = 0) -> None:
        super().__init__(seed=seed)
        self.momentum = _checks.number("momentum", momentum, low=0.0, high=1.0, open_high=True)
        self.view = view
        self.register_buffer("memory", None)
        self.register_buffer("visits", None)

    def prepare(self, model: nn.Module, n_rows: int, n_classes: int) -> None:
        """Make an empty memory where the model is."""
        self.memory = torch.zeros(n_rows, n_classes, device=device_of(model))
        self.visits = torch.zeros(n_rows, device=device_of(model))

    def target(self, ids: Tensor) -> Tensor:
        """Return z̃ of rows, shape (n, classes); zeros for rows never seen."""
        memory, visits = prepared(self, "memory"), prepared(self, "visits")
        ids = checked_ids(ids, ids.numel(), len(memory))
        weight = 1 - self.momentum ** visits[ids]
        return memory[ids] / torch.where(weight > 0, weight, 1.0).unsqueeze(-1)

    def forward(self, model: Model, rows: Rows) -> Scores:
        """Return the squared distances (n,) and the logits (1, n, classes)."""
        logits = model(self.view(rows.x, self.generator(rows.x.device)))
        log_p = log_probabilities(logits)
        prepared(self, "memory", log_p)
        visits = prepared(self, "visits")
        ids = checked_ids(rows.ids, len(logits), len(visits))
        distance = (log_p.exp() - self.target(ids)).square().sum(-1)
        return Scores(torch.where(visits[ids] > 0, distance, 0.0), logits.unsqueeze(0))

    @torch.no_grad()
    def after_step(self, model: nn.Module, rows: Rows, scores: Scores) -> None:  # noqa: ARG002
        """Add the step's predictions to the memory."""
        log_p = log_probabilities(scores.logits[0])
        memory, visits = prepared(self, "memory", log_p), prepared(self, "visits")
        p = log_p.exp().to(memory.dtype)
        ids = checked_ids(rows.ids, len(p), len(memory))
        # Every repeat writes what the row's first place has: equal bits, so no race on a GPU.
        places = torch.arange(len(ids), device=ids.device)
        nowhere = torch.full((len(memory),), len(ids), device=ids.device)
        first = nowhere.scatter_reduce(0, ids, places, "amin")[ids]
        memory[ids] = self.momentum * memory[ids] + (1 - self.momentum) * p[first]
        visits[ids] = visits[ids] + 1

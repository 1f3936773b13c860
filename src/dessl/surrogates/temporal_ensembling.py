"""Temporal ensembling: H(x) = ‖p_θ(·|v(x)) − z̃‖², z̃ the average of the row's past predictions.

A round lasts until every row has been seen. At its end Z ← a·Z + (1 − a)·p for all rows; during
round t + 1 z̃ = Z/(1 − aᵗ), which corrects for the initial zeros of Z.
"""

import math

import torch
from torch import Tensor, nn

from dessl import _checks
from dessl.functional import log_probabilities
from dessl.surrogates.base import Model, Rows, Scores, Surrogate, View
from dessl.surrogates.state import checked_ids, device_of, prepared
from dessl.surrogates.views import checked_view, jittered_view, row_logits


class TemporalEnsembling(Surrogate):
    """Squared distance to a row's accumulated past predictions (Laine & Aila, 2017).

    The memory (n_rows, classes) is addressed by row ids. As in the original it is updated in rounds
    over all rows, an epoch of the unlabelled stream in :func:`dessl.train`: within a round the
    targets are fixed, and each row contributes one prediction to the next targets. Labelled rows
    are drawn more often than unlabelled ones; one of a row's visits in a round is kept, each with
    the same probability. So the step at which a target was predicted has nearly the same
    distribution on labelled and unlabelled rows, and so has H: the same if a round is a whole
    number of epochs of the labelled rows, as the debiased risk requires. Otherwise rows that an
    unfinished epoch has reached have one visit more than others, and targets of labelled rows are a
    few per cent older or younger (``benchmarks/target_age.py``), so that the debiased risk is not
    exactly unbiased. A memory updated at every visit would be biased far more: labelled rows would
    have much fresher targets and a smaller H.

    In the first round no row has a target: every H is 0, and counts in the mean. A row that occurs
    twice in a batch counts as one visit, with the prediction of its first occurrence. The step that
    ends a round may already belong to the next epoch; rows that were seen before in this round then
    count in both rounds, each with its share of the step.

    A round waits for the rows registered with :meth:`draws_from`, which :func:`dessl.train` calls;
    without that, for all ``n_rows`` ids. In your own loop, call it if some ids are never drawn:
    otherwise no round ends and H stays 0.

    The original's distance is the mean over the K classes, ours the sum: their weight w is our
    λ = w/K. L is computed on the same view of the row. H is at most 2, so the debiased risk is
    bounded below for every λ.

    Args:
        momentum: a, the share of the past that is kept at the end of a round, in [0, 1).
        view: View of a row for the model.
        seed: Seed of the view's draws and of the choice among a row's visits.

    >>> from dessl.surrogates import as_is
    >>> surrogate = TemporalEnsembling(view=as_is)
    >>> surrogate.prepare(nn.Identity(), n_rows=1, n_classes=3)
    >>> rows = Rows(torch.tensor([[1.0, 0.0, -1.0]]), torch.tensor([0]))
    >>> surrogate.after_step(nn.Identity(), rows, surrogate(nn.Identity(), rows))
    >>> surrogate.target(rows.ids)  # one round: its own prediction
    tensor([[0.6652, 0.2447, 0.0900]])
    """

    memory: Tensor | None  # Z without the row's latest round, (n_rows, classes)
    latest: Tensor | None  # the prediction of that round, (n_rows, classes)
    latest_round: Tensor | None  # which it was, (n_rows,); 0 for a row that was never seen
    visits: Tensor | None  # of the row in that round, (n_rows,)
    round: Tensor | None  # the present one, from 1
    pace: Tensor | None  # rows that the step before saw for the first time in its round
    unseen: Tensor | None  # rows that it waits for
    in_a_round: Tensor | None  # rows that every round waits for

    bounded_up_to = math.inf

    def __init__(self, *, momentum: float = 0.6, view: View = jittered_view, seed: int = 0) -> None:
        super().__init__(seed=seed)
        self.momentum = _checks.number("momentum", momentum, low=0.0, high=1.0, open_high=True)
        self.view = checked_view("view", view)
        for name in ("memory", "latest", "latest_round", "visits"):
            self.register_buffer(name, None)
        for name in ("round", "pace", "unseen", "in_a_round"):
            self.register_buffer(name, None)

    def prepare(self, model: nn.Module, n_rows: int, n_classes: int) -> None:
        """Create an empty memory on the model's device."""
        device = device_of(model)
        self.memory = torch.zeros(n_rows, n_classes, device=device)
        self.latest = torch.zeros(n_rows, n_classes, device=device)
        self.latest_round = torch.zeros(n_rows, dtype=torch.int64, device=device)
        self.visits = torch.zeros(n_rows, device=device)
        self.round = torch.ones((), dtype=torch.int64, device=device)
        self.pace = torch.zeros((), dtype=torch.int64, device=device)
        self.unseen = torch.full((), n_rows, dtype=torch.int64, device=device)
        self.in_a_round = self.unseen.clone()

    def draws_from(self, ids: Tensor) -> None:
        """Let a round end without the rows that no step draws."""
        n_rows = len(prepared(self, "memory"))
        drawn = torch.zeros(n_rows, dtype=torch.int64, device=ids.device)
        drawn[ids] = 1
        for name in ("unseen", "in_a_round"):
            prepared(self, name).copy_(drawn.sum())

    def target(self, ids: Tensor) -> Tensor:
        """Return z̃ of rows, shape (n, classes); zeros for rows without one."""
        memory, now = prepared(self, "memory"), prepared(self, "round")
        ids = checked_ids(ids, ids.numel(), len(memory))
        complete = prepared(self, "latest_round")[ids] < now
        past = torch.where(complete.unsqueeze(-1), self._with_latest(ids), memory[ids])
        weight = 1 - self.momentum ** (now - 1).to(memory.dtype)
        return past / torch.where(weight > 0, weight, 1.0)

    def forward(self, model: Model, rows: Rows) -> Scores:
        """Return the squared distances (n,) and the logits (1, n, classes)."""
        logits = row_logits(model, self.view(rows.x, self.generator(rows.x.device)))
        log_p = log_probabilities(logits)
        memory = prepared(self, "memory", log_p)
        ids = checked_ids(rows.ids, len(logits), len(memory))
        distance = (log_p.exp() - self.target(ids)).square().sum(-1)
        known = (prepared(self, "latest_round")[ids] > 0) & (prepared(self, "round") > 1)
        return Scores(torch.where(known, distance, 0.0), logits.unsqueeze(0))

    @torch.no_grad()
    def after_step(self, model: nn.Module, rows: Rows, scores: Scores) -> None:  # noqa: ARG002
        """Keep or skip the step's predictions; end the round once every row has been seen."""
        log_p = log_probabilities(scores.logits[0])
        memory, latest = prepared(self, "memory", log_p), prepared(self, "latest")
        latest_round, visits = prepared(self, "latest_round"), prepared(self, "visits")
        now, pace = prepared(self, "round"), prepared(self, "pace")
        unseen, rows_in_round = prepared(self, "unseen"), prepared(self, "in_a_round")
        ids = checked_ids(rows.ids, len(log_p), len(memory))
        first, once = _places(ids, len(memory))
        p = log_p.exp().to(memory.dtype)[first]
        chance = torch.rand(len(ids), generator=self.generator(ids.device), device=ids.device)
        alone = first == torch.arange(len(ids), device=ids.device)
        new = latest_round[ids] < now  # not seen in this round before
        seen = (new & alone).sum()
        ends = unseen <= seen
        # How much of the last step belongs to this round: its new rows against a usual step's.
        share = (unseen / pace.clamp(min=1)).clamp(max=1)
        begins = ends & ~(new & once)  # already seen in this round: its visit opens the next too
        weight = torch.where(ends, share, 1.0)
        kept = new | (chance[first] * (visits[ids] + weight) < weight)
        self._fold(ids, new)
        latest[ids] = torch.where(kept.unsqueeze(-1), p, latest[ids])
        self._fold(ids, begins)
        latest[ids] = torch.where(begins.unsqueeze(-1), p, latest[ids])
        before = torch.where(new, 0.0, visits[ids])
        visits[ids] = torch.where(begins, 1 - weight, before + weight)
        latest_round[ids] = now + begins
        unseen.copy_(torch.where(ends, rows_in_round - (begins & alone).sum(), unseen - seen))
        pace.copy_(torch.where(ends, pace, seen))
        now.add_(ends)

    def _fold(self, ids: Tensor, which: Tensor) -> None:
        """Add the latest prediction of some of these rows to Z: its round is complete."""
        memory = prepared(self, "memory")
        memory[ids] = torch.where(which.unsqueeze(-1), self._with_latest(ids), memory[ids])

    def _with_latest(self, ids: Tensor) -> Tensor:
        memory, latest = prepared(self, "memory"), prepared(self, "latest")
        return self.momentum * memory[ids] + (1 - self.momentum) * latest[ids]


def _places(ids: Tensor, n_rows: int) -> tuple[Tensor, Tensor]:
    """Return where each row's id first occurs and whether it occurs only once, (n,).

    For repeated ids the value of the first occurrence is written: repeats write equal bits, so that
    there is no race on a GPU.
    """
    places = torch.arange(len(ids), device=ids.device)
    nowhere = torch.full((n_rows,), len(ids), device=ids.device)
    first = nowhere.scatter_reduce(0, ids, places, "amin")[ids]
    last = (nowhere - len(ids)).scatter_reduce(0, ids, places, "amax")[ids]
    return first, first == last

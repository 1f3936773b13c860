"""Shared code of methods that train the strong view of a row on targets from its weak view."""

from abc import abstractmethod
from typing import Literal

import torch
from torch import Tensor

from dessl import _checks
from dessl.surrogates.base import Model, Rows, Scores, Surrogate, View
from dessl.surrogates.passes import evaluated
from dessl.surrogates.views import (
    check_rows,
    checked_view,
    joint_logits,
    row_logits,
    strong_view,
    weak_view,
)

Targets = Literal["joint", "apart"]


class WeakToStrong(Surrogate):
    """A surrogate with a weak and a strong view of each row; a subclass says what H is of them.

    Args:
        weak: View that pseudo-labels are computed from.
        strong: View that is trained on them.
        targets: Where pseudo-labels are computed. ``"joint"``: in the pass that all views share, as
            in the paper. ``"apart"``: in a separate pass of all rows, without gradients and in
            evaluation mode, as the model will be used; a second pass, with gradients, has the
            strong views and the weak views that L is computed on. This saves a quarter of the work
            in :func:`dessl.train` and in Lightning, which call :meth:`step_scores`; call it in your
            own loop too. A plain call computes L on all rows, which costs one pass more than
            ``"joint"``. H is still one function of all rows, but with BatchNorm or dropout it
            differs from that of the joint pass, and thresholds that adapt follow the logits that L
            is computed on for labelled rows, the targets for all others.
        seed: Seed of the views' draws.
    """

    def __init__(
        self,
        *,
        weak: View = weak_view,
        strong: View = strong_view,
        targets: Targets = "joint",
        seed: int = 0,
    ) -> None:
        super().__init__(seed=seed)
        self.weak = checked_view("weak", weak)
        self.strong = checked_view("strong", strong)
        _checks.one_of("targets", targets, ("joint", "apart"))
        self.targets = targets

    @property
    def evaluates_targets(self) -> bool:
        """Whether pseudo-labels are computed apart, in evaluation mode."""
        return self.targets == "apart"

    @abstractmethod
    def h(self, weak: Tensor, strong: Tensor) -> Tensor:
        """Return H (n,) from the logits of the weak and the strong view, (n, classes).

        The weak view's logits have no gradient: they are the targets.
        """

    def forward(self, model: Model, rows: Rows) -> Scores:
        """Return H (n,) and the logits of the weak and the strong view, (2, n, classes)."""
        return self._scores(model, rows, len(rows.x))

    def step_scores(self, model: Model, rows: Rows, n_labelled: int) -> Scores:
        """Return the scores of a step in which only the first ``n_labelled`` rows have a loss L.

        With ``targets="apart"`` the weak logits of all other rows have no gradient, since L does
        not use them. H does not depend on ``n_labelled``, except through BatchNorm's batch.
        """
        if self.targets == "joint" or type(self).forward is not WeakToStrong.forward:
            return super().step_scores(model, rows, n_labelled)
        return self._scores(model, rows, n_labelled)

    def needs_own_run(self) -> str:
        """With targets in a separate pass, BatchNorm would see different batches when stacked."""
        if self.targets == "apart":
            return (
                f"{type(self).__name__} with targets='apart' gives BatchNorm different batches in "
                "a population than in a single run. Pass targets='joint'."
            )
        return super().needs_own_run()

    def _scores(self, model: Model, rows: Rows, n_loss: int) -> Scores:
        generator = self.generator(rows.x.device)
        weak, strong = self.weak(rows.x, generator), self.strong(rows.x, generator)
        if self.targets == "joint":
            logits = joint_logits(model, [weak, strong])
            return Scores(self.h(logits[0].detach(), logits[1]), logits)
        for view in (weak, strong):
            check_rows(view)
        if len(weak) != len(rows.x) or len(strong) != len(rows.x):
            raise ValueError(
                f"views must have as many rows as they get, {len(rows.x)}; got {len(weak)} rows "
                f"of the weak view and {len(strong)} of the strong one."
            )
        if n_loss > len(rows.x):
            raise ValueError(f"n_labelled must be at most the {len(rows.x)} rows; got {n_loss}.")
        target = evaluated(model)(weak)
        taught = row_logits(model, torch.cat([weak[:n_loss], strong]))
        weak_logits = torch.cat([taught[:n_loss], target[n_loss:]])
        return Scores(self.h(target, taught[n_loss:]), torch.stack([weak_logits, taught[n_loss:]]))

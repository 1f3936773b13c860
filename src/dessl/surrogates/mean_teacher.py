"""Mean Teacher: H(x) = ‖p_θ(·|v(x)) − p_θ̄(·|v′(x))‖², θ̄ the moving average of θ."""

import math

from torch import nn

from dessl.functional import log_probabilities
from dessl.surrogates.base import Model, Rows, Scores, Surrogate, View
from dessl.surrogates.ema import EMATeacher, checked_decay, prepared_teacher
from dessl.surrogates.views import checked_view, jittered_view, row_logits


class MeanTeacher(Surrogate):
    """Squared distance to the prediction of an averaged model (Tarvainen & Valpola, 2017).

    The teacher starts as a copy of the model and is updated after each step; within a step it is
    fixed. It predicts in evaluation mode (:class:`~dessl.surrogates.ema.EMATeacher` explains why):
    noise comes from its view, not from dropout. The original's distance is the mean over the K
    classes, ours the sum: their weight w is our λ = w/K.

    L is computed on the student's view. H is at most 2, so the debiased risk is bounded below for
    every λ.

    Args:
        view: The view of a row for student and teacher, with separate draws for each.
        decay: Decay of the average, in [0, 1).
        seed: Seed of the view's draws.

    >>> import torch
    >>> from dessl.surrogates import as_is
    >>> model = nn.Linear(2, 3)
    >>> surrogate = MeanTeacher(view=as_is)
    >>> surrogate.prepare(model, n_rows=1, n_classes=3)
    >>> surrogate(model, Rows(torch.ones(1, 2), torch.tensor([0]))).h.tolist()
    [0.0]
    """

    bounded_up_to = math.inf
    rarely_zero = True
    evaluates_targets = True

    def __init__(self, *, view: View = jittered_view, decay: float = 0.999, seed: int = 0) -> None:
        super().__init__(seed=seed)
        self.view = checked_view("view", view)
        self.decay = checked_decay(decay)
        self.teacher: EMATeacher | None = None

    def prepare(self, model: nn.Module, n_rows: int, n_classes: int) -> None:  # noqa: ARG002
        """Copy the model: the teacher's initial weights."""
        self.teacher = EMATeacher(model, self.decay)

    def forward(self, model: Model, rows: Rows) -> Scores:
        """Return the squared distances (n,) and the student's logits (1, n, classes)."""
        teacher = prepared_teacher(self.teacher)
        generator = self.generator(rows.x.device)
        logits = row_logits(model, self.view(rows.x, generator))
        target = log_probabilities(teacher(self.view(rows.x, generator))).exp()
        # Of probabilities: a smoothed model has two columns where its teacher has one logit.
        distance = (log_probabilities(logits).exp() - target).square().sum(-1)
        return Scores(distance, logits.unsqueeze(0))

    def after_step(self, model: nn.Module, rows: Rows, scores: Scores) -> None:  # noqa: ARG002
        """Update the teacher."""
        prepared_teacher(self.teacher).follow(model)

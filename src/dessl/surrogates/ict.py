"""Interpolation consistency: H(x) = ‖p_θ(·|m(x, x′)) − m(p_θ̄(·|x), p_θ̄(·|x′))‖².

m(a, b) = w·a + (1 − w)·b with w from Beta(α, α) for each row; x′ is the row's partner.
"""

import math

from torch import nn

from dessl import _checks
from dessl.augment import mixup
from dessl.functional import log_probabilities
from dessl.surrogates.base import Model, Rows, Scores, Surrogate, View
from dessl.surrogates.ema import EMATeacher, checked_decay, prepared_teacher
from dessl.surrogates.passes import side_pass
from dessl.surrogates.views import check_rows, checked_view, plain_view, row_logits


class ICT(Surrogate):
    """Predictions at mixtures against mixtures of predictions (Verma et al., 2019).

    Partners come from a random permutation of the whole batch, regardless of which rows are
    labelled. A row's H is that of its own mixture: it depends on its partner, but its distribution
    depends neither on positions in the batch nor on labels. The targets come from an averaged
    teacher (:class:`~dessl.surrogates.ema.EMATeacher`), as in :class:`MeanTeacher`. The original
    draws one mixing weight per batch, here each row has its own: a row's H has the same
    distribution, and the mean over a batch varies less. The original's distance is the mean over
    the K classes, ours the sum: their weight w is our λ = w/K.

    L is computed on the unmixed view; only that pass updates BatchNorm's running statistics. H is
    at most 2, so the debiased risk is bounded below for every λ.

    Args:
        alpha: α of the Beta distribution, positive; 1 is uniform.
        decay: Decay of the teacher's average, in [0, 1).
        view: View of a row for the model, as floats; the same for student and teacher.
        seed: Seed of the view's draws, the partners and the weights.

    >>> import torch
    >>> model = nn.Linear(2, 3)
    >>> surrogate = ICT()
    >>> surrogate.prepare(model, n_rows=4, n_classes=3)
    >>> surrogate(model, Rows(torch.randn(4, 2), torch.arange(4))).h.shape
    torch.Size([4])
    """

    bounded_up_to = math.inf
    adds_to_rows = True
    rarely_zero = True
    evaluates_targets = True

    def __init__(
        self,
        *,
        alpha: float = 1.0,
        decay: float = 0.999,
        view: View = plain_view,
        seed: int = 0,
    ) -> None:
        super().__init__(seed=seed)
        self.alpha = _checks.number("alpha", alpha, low=0.0, open_low=True)
        self.decay = checked_decay(decay)
        self.view = checked_view("view", view)
        self.teacher: EMATeacher | None = None

    def prepare(self, model: nn.Module, n_rows: int, n_classes: int) -> None:  # noqa: ARG002
        """Copy the model: the teacher's initial weights."""
        self.teacher = EMATeacher(model, self.decay)

    def forward(self, model: Model, rows: Rows) -> Scores:
        """Return the squared distances (n,) and the unmixed rows' logits (1, n, classes)."""
        teacher = prepared_teacher(self.teacher)
        generator = self.generator(rows.x.device)
        x = self.view(rows.x, generator)
        check_rows(x)
        mixed = mixup(x, self.alpha, generator)
        target = mixed.mix(log_probabilities(teacher(x)).exp())
        logits = row_logits(model, x)
        p = log_probabilities(side_pass(model)(mixed.x)).exp()
        return Scores((p - target).square().sum(-1), logits.unsqueeze(0))

    def after_step(self, model: nn.Module, rows: Rows, scores: Scores) -> None:  # noqa: ARG002
        """Update the teacher."""
        prepared_teacher(self.teacher).follow(model)

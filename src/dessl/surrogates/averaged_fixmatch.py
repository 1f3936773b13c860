"""FixMatch with labels guessed by averaged weights: H(x) = 1[max p̄(x₁) > τ] · −log p(k̄|x₂)."""

from torch import nn

from dessl.surrogates.base import Model, Rows, Scores, View
from dessl.surrogates.ema import EMATeacher, checked_decay, prepared_teacher
from dessl.surrogates.fixmatch import FixMatch
from dessl.surrogates.smooth import SmoothedModel
from dessl.surrogates.views import strong_view, weak_view


class AveragedFixMatch(FixMatch):
    """FixMatch whose labels come from the moving average of the weights, as in Cai et al. (2021).

    H(x) = −log p(k|x₂) where p̄(k|x₁) > τ, k = arg max_y p̄(y|x₁), else 0; p̄ is the prediction of
    :class:`~dessl.surrogates.ema.EMATeacher`. While the learning rate is high the average is well
    ahead of the weights themselves, and so are its labels. It costs what
    ``FixMatch(targets="apart")`` costs: the average takes the place of the model in that pass.

    L pairs with both views of the model, and the risk is bounded below as :class:`FixMatch`'s.

    Args:
        threshold: τ; a row at or below it counts as a zero.
        weak: View that labels are guessed from.
        strong: View that they teach.
        decay: Of the average, in [0, 1).
        seed: Seed of the views' draws.

    >>> import torch
    >>> model = nn.Linear(2, 2)
    >>> surrogate = AveragedFixMatch(threshold=0.5, decay=0.9)
    >>> surrogate.prepare(model, n_rows=3, n_classes=2)
    >>> surrogate(model, Rows(torch.ones(3, 2), torch.arange(3))).logits.shape
    torch.Size([2, 3, 2])
    """

    def __init__(
        self,
        threshold: float = 0.95,
        *,
        weak: View = weak_view,
        strong: View = strong_view,
        decay: float = 0.999,
        seed: int = 0,
    ) -> None:
        super().__init__(threshold, weak=weak, strong=strong, targets="apart", seed=seed)
        self.decay = checked_decay(decay)
        self.teacher: EMATeacher | None = None

    def prepare(self, model: nn.Module, n_rows: int, n_classes: int) -> None:  # noqa: ARG002
        """Copy the model: the average's first weights."""
        self.teacher = EMATeacher(model, self.decay)

    def guesser(self, model: Model) -> Model:
        """Return the averaged model, smoothed where the model is."""
        teacher = prepared_teacher(self.teacher)
        if isinstance(model, SmoothedModel):
            return SmoothedModel(teacher, model.epsilon)
        return teacher

    def after_step(self, model: nn.Module, rows: Rows, scores: Scores) -> None:  # noqa: ARG002
        """Move the average towards the model."""
        prepared_teacher(self.teacher).follow(model)

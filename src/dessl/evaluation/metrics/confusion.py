"""The confusion matrix, and the metrics computed from it alone."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Confusion:
    """Counts (classes, classes): rows are true classes, columns are predicted ones.

    A class missing from y is NaN in ``per_class_accuracy``, and ``balanced_accuracy`` and
    ``worst_class_accuracy`` skip it.

    >>> counts = Confusion(torch.tensor([[8, 2, 0], [1, 3, 0], [0, 0, 0]]))
    >>> counts.per_class_accuracy
    tensor([0.8000, 0.7500,    nan], dtype=torch.float64)
    >>> counts.worst_class_accuracy
    0.75
    """

    counts: Tensor

    @classmethod
    def of(cls, predicted: Tensor, y: Tensor, classes: int) -> "Confusion":
        """Count predictions (n,) against labels (n,), both in 0 … classes − 1."""
        cells = torch.bincount(y * classes + predicted, minlength=classes * classes)
        return cls(cells.reshape(classes, classes))

    @property
    def class_counts(self) -> Tensor:
        """Rows of each true class, (classes,)."""
        return self.counts.sum(dim=1)

    @property
    def accuracy(self) -> float:
        """The share of rows predicted correctly."""
        return int(self.counts.diagonal().sum()) / int(self.counts.sum())

    @property
    def per_class_accuracy(self) -> Tensor:
        """The share of each class predicted correctly, (classes,); NaN for a class without rows."""
        return self.counts.diagonal().double() / self.class_counts.double()

    @property
    def worst_class_accuracy(self) -> float:
        """The smallest accuracy among the classes present in y."""
        return float(self.per_class_accuracy[self.class_counts > 0].min())

    @property
    def balanced_accuracy(self) -> float:
        """The mean accuracy over the classes present in y."""
        return float(self.per_class_accuracy[self.class_counts > 0].mean())

    @property
    def macro_f1(self) -> float:
        """The mean of 2tp / (2tp + fp + fn) over classes present in y or among the predictions."""
        seen = self.class_counts + self.counts.sum(dim=0)  # 2tp + fp + fn
        f1 = 2 * self.counts.diagonal().double() / seen.double()
        return float(f1[seen > 0].mean())

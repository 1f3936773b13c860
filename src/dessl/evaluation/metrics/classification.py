"""Classification metrics, from the confusion matrix: accuracy, by class too, and macro F1.

The predicted class is the most probable one, the first if several tie.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from dessl._checks import ArrayLike
from dessl.evaluation.metrics.predictions import checked_pair


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


def _confusion(probabilities: ArrayLike, y: ArrayLike) -> Confusion:
    values, labels = checked_pair(probabilities, y)
    return Confusion.of(values.argmax(dim=1), labels, values.shape[1])


def confusion_matrix(probabilities: ArrayLike, y: ArrayLike) -> Tensor:
    """Counts (classes, classes): rows are true classes, columns are predicted ones.

    Args:
        probabilities: (n, classes), rows summing to one.
        y: (n,) class numbers.

    >>> confusion_matrix([[0.9, 0.1], [0.4, 0.6], [0.2, 0.8]], [0, 0, 1])
    tensor([[1, 1],
            [0, 1]])
    """
    return _confusion(probabilities, y).counts


def accuracy(probabilities: ArrayLike, y: ArrayLike) -> float:
    """The share of rows whose most probable class is the true one.

    Args:
        probabilities: (n, classes), rows summing to one.
        y: (n,) class numbers.

    >>> accuracy([[0.9, 0.1], [0.4, 0.6], [0.2, 0.8], [0.7, 0.3]], [0, 0, 1, 0])
    0.75
    """
    return _confusion(probabilities, y).accuracy


def per_class_accuracy(probabilities: ArrayLike, y: ArrayLike) -> Tensor:
    """The accuracy on the rows of each true class, (classes,); NaN for a class missing from y.

    Args:
        probabilities: (n, classes), rows summing to one.
        y: (n,) class numbers.

    >>> per_class_accuracy([[0.9, 0.1, 0.0], [0.4, 0.6, 0.0], [0.2, 0.8, 0.0]], [0, 0, 1])
    tensor([0.5000, 1.0000,    nan], dtype=torch.float64)
    """
    return _confusion(probabilities, y).per_class_accuracy


def worst_class_accuracy(probabilities: ArrayLike, y: ArrayLike) -> float:
    """The smallest per-class accuracy among the classes present in y.

    Args:
        probabilities: (n, classes), rows summing to one.
        y: (n,) class numbers.

    >>> worst_class_accuracy([[0.9, 0.1], [0.4, 0.6], [0.2, 0.8]], [0, 0, 1])
    0.5
    """
    return _confusion(probabilities, y).worst_class_accuracy


def balanced_accuracy(probabilities: ArrayLike, y: ArrayLike) -> float:
    """The mean per-class accuracy over the classes present in y.

    Args:
        probabilities: (n, classes), rows summing to one.
        y: (n,) class numbers.

    >>> balanced_accuracy([[0.9, 0.1], [0.4, 0.6], [0.2, 0.8]], [0, 0, 1])
    0.75
    """
    return _confusion(probabilities, y).balanced_accuracy


def macro_f1(probabilities: ArrayLike, y: ArrayLike) -> float:
    """The mean F1 over the classes present in y or among the predictions.

    Args:
        probabilities: (n, classes), rows summing to one.
        y: (n,) class numbers.

    >>> round(macro_f1([[0.9, 0.1], [0.4, 0.6], [0.2, 0.8]], [0, 0, 1]), 4)
    0.6667
    """
    return _confusion(probabilities, y).macro_f1

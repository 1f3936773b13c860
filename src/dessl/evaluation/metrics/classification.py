"""Classification metrics: accuracy over all rows and per class, macro F1.

The predicted class is the most probable one, the first if several tie.
"""

from torch import Tensor

from dessl._checks import ArrayLike
from dessl.evaluation.metrics.confusion import Confusion
from dessl.evaluation.metrics.predictions import checked_pair


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

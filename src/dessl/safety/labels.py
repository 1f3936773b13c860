"""Checks of the labels themselves: classes without any, and labels that are probably wrong."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dessl.data import SemiData
from dessl.safety.leaks import row_name
from dessl.teachers.crossfit import stratified_folds
from dessl.teachers.pool import exponent

FOLDS = 5
FEW = 5  # labels of a class; with fewer, one of five folds has none
UNLIKELY = 0.1  # a label whose probability is lower may be wrong
LIKELY = 0.6  # least probability of the class that it may be instead
EXAMPLES = 50


@dataclass(frozen=True)
class DoubtfulLabel:
    """A label that out-of-fold predictions contradict."""

    row: str
    label: str
    suggested: str
    probability: float


@dataclass(frozen=True)
class LabelFacts:
    """How labels cover the classes, and which are doubtful.

    Attributes:
        counts: Number of labels of each class.
        absent: Classes without a label.
        few: Classes with fewer than five labels, so that not every fold has one.
        one_class_folds: Number of the five folds whose labels are all of one class.
        doubtful: Number of labels that are probably wrong, or lie where classes overlap: these two
            cases cannot be distinguished from the labels alone.
        examples: The most doubtful ones.
    """

    counts: tuple[int, ...]
    absent: tuple[str, ...]
    few: tuple[str, ...]
    one_class_folds: int
    doubtful: int
    examples: tuple[DoubtfulLabel, ...]


def label_facts(data: SemiData, rows: Tensor, log_p: Tensor | None) -> LabelFacts:
    """Return the coverage of the classes and the doubtful labels.

    Args:
        data: The data with its labels.
        rows: (m,) positions of labelled rows.
        log_p: Out-of-fold log-probabilities (m, classes) of these rows; None if there are none.

    >>> data = SemiData(torch.rand(6, 2), [0, 0, 0, 0, 0, 1], class_names=["a", "b", "c"])
    >>> facts = label_facts(data, data.labelled_rows, None)
    >>> facts.absent, facts.few, facts.one_class_folds
    (('c',), ('b',), 4)
    """
    y = data.y[data.labelled_rows].cpu()
    counts = y.bincount(minlength=data.n_classes)
    folds = stratified_folds(y, folds=FOLDS)
    kinds = [len(torch.unique(y[folds == fold])) for fold in range(FOLDS)]
    names = data.class_names
    found: list[tuple[int, int, float]] = []
    if log_p is not None:
        labels = data.y[rows].cpu()
        # A model that is too sure of itself would contradict many correct labels.
        calibrated = (exponent(log_p, labels, len(labels)) * log_p).softmax(-1)
        found = doubtful_labels(calibrated.numpy(), labels.numpy())
    return LabelFacts(
        counts=tuple(counts.tolist()),
        absent=tuple(name for k, name in enumerate(names) if counts[k] == 0),
        few=tuple(name for k, name in enumerate(names) if 0 < counts[k] < FEW),
        one_class_folds=sum(kind == 1 for kind in kinds),
        doubtful=len(found),
        examples=tuple(
            DoubtfulLabel(
                row_name(data, int(rows[place])),
                names[int(data.y[rows[place]])],
                names[other],
                float(probability),
            )
            for place, other, probability in found[:EXAMPLES]
        ),
    )


def doubtful_labels(p: NDArray[np.float64], y: NDArray[np.int64]) -> list[tuple[int, int, float]]:
    """Return labels that are probably wrong.

    A label is doubtful if it has a probability below 0.1 and another class has one of at least 0.6
    and is predicted at least as confidently as that class's own rows are on average (confident
    learning). The most doubtful come first, each as (position, more likely class, its probability).

    Args:
        p: (m, classes) out-of-fold probabilities, calibrated.
        y: (m,) labels.

    >>> p = np.array([[0.9, 0.1], [0.95, 0.05], [0.02, 0.98], [0.1, 0.9]])
    >>> doubtful_labels(p, np.array([0, 0, 0, 1]))
    [(2, 1, 0.98)]
    """
    usual = np.array([p[y == k, k].mean() if (y == k).any() else np.inf for k in range(p.shape[1])])
    rows = np.arange(len(y))
    sure, unlikely = p >= np.maximum(usual, LIKELY), p < UNLIKELY
    other = np.where(sure, p, -1.0)
    other[rows, y] = -1.0
    best = other.argmax(1)
    own = p[rows, y]
    chosen = np.flatnonzero(unlikely[rows, y] & (other.max(1) > 0))
    chosen = chosen[np.argsort(own[chosen], kind="stable")]
    return [(int(row), int(best[row]), float(p[row, best[row]])) for row in chosen]

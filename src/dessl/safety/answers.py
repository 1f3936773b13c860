"""Cross-fitted predictions of a cheap model for labelled and unlabelled rows."""

import copy
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dessl.safety.choices import Codes, group_folds
from dessl.teachers import Linear, Teacher
from dessl.teachers.space import Space

FOLDS = 5
STRENGTH = 0.3  # of the logistic regression: between the pool's two


class FoldAnswers(NamedTuple):
    """Predictions of cross-fitted models.

    Attributes:
        log_p: Log-probabilities (n, classes), float64.
        folds: (n,) the model that predicted the row; it was not trained on this row's label.
    """

    log_p: Tensor
    folds: Codes


def fold_answers(
    values: Tensor,
    y: Tensor,
    labelled: NDArray[np.bool_],
    n_classes: int,
    *,
    teacher: Teacher | None = None,
    groups: Codes | None = None,
    folds: int = FOLDS,
    seed: int = 0,
) -> FoldAnswers:
    """Return out-of-fold predictions for labelled rows, and predictions of unlabelled rows.

    A model trained on all labels would be better than those that predict labelled rows, so each
    unlabelled row gets one of the folds' models at random: under MCAR the rows of a fold are then
    exchangeable. The rows of a group get the same model, which saw no label of that group: groups
    with a label and groups without one are then as exchangeable.

    Args:
        values: (n, d) columns.
        y: (n_l,) classes of the labelled rows, in their order.
        labelled: (n,) which rows are labelled.
        n_classes: Number of classes.
        teacher: The model to fit on the labels outside each fold; by default logistic regression.
        groups: (n,) group of each row; None if rows are independent.
        folds: Number of folds.
        seed: Seed of the folds.

    >>> x = torch.arange(40.0)[:, None]
    >>> labelled = np.arange(40) % 2 == 0
    >>> answers = fold_answers(x, (x[labelled, 0] > 20).long(), labelled, 2)
    >>> answers.log_p.argmax(1)[[0, 1, -2, -1]].tolist()
    [0, 0, 1, 1]
    """
    teacher = teacher or Linear(STRENGTH, space=Space.of(values))
    generator = np.random.default_rng(seed)
    units = np.arange(len(values)) if groups is None else groups
    known = np.isin(units, units[labelled])
    numbers = np.empty(len(values), np.int64)
    for part in (known, ~known):  # not by class: what is balanced in one must be in both
        numbers[part] = group_folds(units[part], folds, generator)
    own = numbers[labelled]
    log_p = torch.empty(len(values), n_classes, dtype=torch.float64)
    x_l = values[torch.from_numpy(labelled)]
    for fold in range(folds):
        held_out = torch.from_numpy(numbers == fold)
        if bool(held_out.any()):
            trained = torch.from_numpy(own != fold)
            model = copy.deepcopy(teacher)
            model.fit(x_l[trained], y[trained], values[:0], n_classes)
            log_p[held_out] = model.predict_log_proba(values[held_out])
    return FoldAnswers(log_p, numbers)

"""FromClassifier: the user's own scikit-learn classifier as a teacher."""

import copy
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import torch
from torch import Tensor

from dessl.teachers.base import Classes, checked_columns, checked_rows, not_fitted

LEAST_PROBABILITY = 0.01  # distributed by the class shares, so that no probability is 0
ROWS_AT_ONCE = 4096  # a tabular foundation model needs about 0.1 MB for each row it predicts


class FromClassifier:
    """Anything with ``fit``, ``predict_proba`` and ``classes_``; a clone of it is fitted.

    It is fitted on the labelled rows unscaled, in float32. Classes are 0 … n_classes − 1; if some
    are not among the labelled rows, the others are numbered from 0 without gaps, and with one class
    alone the classifier is not fitted. Its probabilities are mixed with 1 % of the class shares. A
    warning that it repeats on each call is shown once. It cannot be saved, since that would need
    pickle.

    Args:
        classifier: The classifier, fitted or not; it is not changed.
        name: Name in reports; the name of its class by default.

    >>> from sklearn.naive_bayes import GaussianNB
    >>> x = torch.arange(6.0)[:, None]
    >>> teacher = FromClassifier(GaussianNB()).fit(x, (x[:, 0] > 2).long(), x[:0], 2)
    >>> teacher.name, teacher.predict_log_proba(x).argmax(1).tolist()
    ('GaussianNB', [0, 0, 0, 1, 1, 1])
    """

    uses_unlabelled = False
    ignores_x_u = True

    def __init__(self, classifier: Any, name: str | None = None) -> None:
        if isinstance(classifier, type) or not (
            hasattr(classifier, "fit") and hasattr(classifier, "predict_proba")
        ):
            raise TypeError(
                "a teacher must be a name, a Teacher, or a classifier with fit and predict_proba; "
                f"got {classifier!r}. For one without probabilities, wrap it in "
                "sklearn.calibration.CalibratedClassifierCV."
            )
        self.classifier = classifier
        self.name = name or type(classifier).__name__
        self._classes: Classes | None = None
        self._fitted: Any = None  # None if there is only one class
        self._shown: set[tuple[type[Warning], str]] = set()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        # Neither classifier is ever changed, and one may be a large network. Copies share _shown.
        return copy.copy(self)

    @property
    def takes_weights(self) -> bool:
        """Whether the classifier can weight labels."""
        from sklearn.utils.validation import has_fit_parameter

        return bool(has_fit_parameter(self.classifier, "sample_weight"))

    def fit(
        self, x_l: Tensor, y_l: Tensor, x_u: Tensor, n_classes: int, weights: Tensor | None = None
    ) -> Self:
        """Fit a clone on labelled rows.

        Raises:
            RuntimeError: The classifier raised an error; the message names it and the data.
        """
        from sklearn.base import clone

        rows = checked_rows(x_l, y_l, x_u, n_classes, weights)
        self._classes = Classes.of(rows.y_l, n_classes, rows.weights)
        self._fitted = None
        present = self._classes.present
        if len(present) > 1:
            given = {} if rows.weights is None else {"sample_weight": rows.weights.numpy()}
            x, y = rows.x_l.float().numpy(), torch.bucketize(rows.y_l, present).numpy()
            size = f"{len(x):,} labelled rows, {x.shape[1]:,} columns and {len(present)} classes"
            with self._calling(f"fit {size}"):
                self._fitted = clone(self.classifier).fit(x, y, **given)
        return self

    def predict_log_proba(self, x: Tensor) -> Tensor:
        """Return log-probabilities (n, n_classes).

        Raises:
            RuntimeError: The classifier raised an error; the message names it and the data.
        """
        if self._classes is None:
            raise not_fitted(self)
        rows = checked_columns("x", x).float()
        p = torch.zeros(len(rows), len(self._classes.prior), dtype=torch.float64)
        if self._fitted is None:
            p[:, self._classes.present] = 1
        else:
            with self._calling(f"predict {len(rows):,} rows of {rows.shape[1]:,} columns"):
                seen = self._classes.present[torch.as_tensor(self._fitted.classes_).long()]
                blocks = torch.split(rows, ROWS_AT_ONCE)
                found = [torch.as_tensor(self._fitted.predict_proba(b.numpy())) for b in blocks]
                p[:, seen] = torch.cat(found).double()
        p /= p.sum(1, keepdim=True)
        return ((1 - LEAST_PROBABILITY) * p + LEAST_PROBABILITY * self._classes.prior).log()

    @contextmanager
    def _calling(self, what: str) -> Iterator[None]:
        """Name the classifier in its errors, and show each of its warnings once."""
        try:
            with warnings.catch_warnings(record=True) as caught:  # some change the filters
                yield
            for one in caught:
                key = (one.category, str(one.message))
                if key not in self._shown:
                    self._shown.add(key)
                    warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
        except Exception as error:
            raise RuntimeError(
                f"the teacher {self.name!r} could not {what}: {type(error).__name__}: "
                f"{str(error).rstrip('.')}. Leave it out of teachers, or set it up for such data."
            ) from error

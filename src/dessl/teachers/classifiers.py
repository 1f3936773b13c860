"""FromClassifier: the user's own scikit-learn classifier as a teacher."""

from typing import Any, Self

import torch
from torch import Tensor

from dessl.teachers.base import Classes, checked_columns, checked_rows, not_fitted

LEAST_PROBABILITY = 0.01  # distributed by the class shares, so that no probability is 0


class FromClassifier:
    """Anything with ``fit``, ``predict_proba`` and ``classes_``; a clone of it is fitted.

    It is fitted on the labelled rows unscaled, in float32. Its probabilities are mixed with 1 % of
    the class shares. It cannot be saved, since that would need pickle.

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
        self._fitted: Any = None

    @property
    def takes_weights(self) -> bool:
        """Whether the classifier can weight labels."""
        from sklearn.utils.validation import has_fit_parameter

        return bool(has_fit_parameter(self.classifier, "sample_weight"))

    def fit(
        self, x_l: Tensor, y_l: Tensor, x_u: Tensor, n_classes: int, weights: Tensor | None = None
    ) -> Self:
        """Fit a clone on labelled rows."""
        from sklearn.base import clone

        rows = checked_rows(x_l, y_l, x_u, n_classes, weights)
        self._classes = Classes.of(rows.y_l, n_classes, rows.weights)
        given = {} if rows.weights is None else {"sample_weight": rows.weights.numpy()}
        x, y = rows.x_l.float().numpy(), rows.y_l.numpy()
        self._fitted = clone(self.classifier).fit(x, y, **given)
        return self

    def predict_log_proba(self, x: Tensor) -> Tensor:
        """Return log-probabilities (n, n_classes)."""
        if self._fitted is None:
            raise not_fitted(self)
        found = self._fitted.predict_proba(checked_columns("x", x).float().numpy())
        p = torch.zeros(len(x), len(self._classes.prior), dtype=torch.float64)
        p[:, torch.as_tensor(self._fitted.classes_).long()] = torch.from_numpy(found).double()
        p /= p.sum(1, keepdim=True)
        return ((1 - LEAST_PROBABILITY) * p + LEAST_PROBABILITY * self._classes.prior).log()

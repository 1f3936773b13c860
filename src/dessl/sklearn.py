"""scikit-learn with unlabelled rows: a splitter, a scorer, and a classifier for wrappers.

scikit-learn treats -1 as a class like any other. Three tools prevent this:

============================================ ===================================================
``cross_val_score``, ``GridSearchCV``, …     ``cv=SemiSupervisedSplit()``, with any scoring
any other ``cv``                             ``scoring=semi_supervised_scorer("neg_log_loss")``
``CalibratedClassifierCV``, ``Bagging…``, …  ``WithUnlabelled(DeSSLClassifier(), X_unlabelled)``,
                                             fitted on labelled rows; a pipeline goes inside
============================================ ===================================================

:class:`dessl.DeSSLClassifier` warns if you use a plain splitter or scorer with missing labels.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.metrics import check_scoring, get_scorer
from sklearn.model_selection import BaseCrossValidator, StratifiedGroupKFold, StratifiedKFold
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from dessl.estimator.callers import warn_of_untransformed
from dessl.estimator.classifier import DeSSLClassifier
from dessl.estimator.stacking import STACKED, stacked_labels, stacked_rows
from dessl.estimator.targets import known_labels

__all__ = ["SemiSupervisedSplit", "WithUnlabelled", "semi_supervised_scorer"]


class SemiSupervisedSplit(BaseCrossValidator):  # type: ignore[misc]
    """Stratified folds of the labelled rows; every training part has all unlabelled rows.

    Test parts have only labelled rows, so that every scorer works.

    Args:
        n_splits: Number of folds.
        shuffle: Whether to shuffle the labelled rows of each class first.
        random_state: Seed of the shuffle.

    >>> y = np.array([0, 1, -1, 0, 1, -1])
    >>> for train, test in SemiSupervisedSplit(2).split(np.zeros((6, 1)), y):
    ...     print(train.tolist(), test.tolist())
    [2, 3, 4, 5] [0, 1]
    [0, 1, 2, 5] [3, 4]
    """

    def __init__(
        self, n_splits: int = 5, *, shuffle: bool = False, random_state: Any = None
    ) -> None:
        self.n_splits = n_splits
        self.shuffle = shuffle
        self.random_state = random_state

    def split(
        self,
        X: Any,
        y: Any = None,
        groups: Any = None,
    ) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
        """Yield the rows of each training part and of its test part, as numbers in order.

        Args:
            X: Rows (n, ...); only their number counts.
            y: (n,) labels, as :meth:`dessl.DeSSLClassifier.fit` takes them.
            groups: (n,) group of each row, such as the patient: all rows of a group stay together.
                Unlabelled rows of a test group are not used for training.
        """
        if y is None:
            raise ValueError("SemiSupervisedSplit needs y, to know which rows have a label.")
        check_consistent_length(X, y, groups)
        missing, present, _ = known_labels(y)
        labelled, unlabelled = np.flatnonzero(~missing), np.flatnonzero(missing)
        if len(present) < self.n_splits:
            raise ValueError(
                f"SemiSupervisedSplit needs a labelled row for each of {self.n_splits} folds; got "
                f"{len(present)} of {len(missing)} rows. Pass a smaller n_splits."
            )
        options = {"shuffle": self.shuffle, "random_state": self.random_state}
        if groups is None:
            folds = StratifiedKFold(self.n_splits, **options).split(labelled, present)
        else:
            groups = np.asarray(groups)
            folds = StratifiedGroupKFold(self.n_splits, **options).split(
                labelled, present, groups[labelled]
            )
        for train, test in folds:
            rest = unlabelled
            if groups is not None:
                rest = rest[~np.isin(groups[rest], groups[labelled[test]])]
            yield np.sort(np.concatenate([labelled[train], rest])), labelled[test]

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:  # noqa: ARG002
        """Return the number of folds."""
        return self.n_splits


@dataclass(frozen=True)
class LabelledScorer:
    """A scorer of the rows that have a label; see :func:`semi_supervised_scorer`."""

    scorer: Callable[..., float] | None

    def __call__(
        self, estimator: Any, X: Any, y_true: Any, sample_weight: Any = None, **options: Any
    ) -> float:
        """Score the labelled rows of X; weights are those of all rows."""
        missing, present, _ = known_labels(y_true)
        if not len(present):
            raise ValueError(
                f"a score needs labelled rows; all {len(missing)} are unlabelled. Pass "
                "cv=dessl.sklearn.SemiSupervisedSplit()."
            )
        rows = np.flatnonzero(~missing)
        if sample_weight is not None:
            options["sample_weight"] = np.asarray(sample_weight)[rows]
        scorer = self.scorer or check_scoring(estimator)
        return float(scorer(estimator, _safe_indexing(X, rows), present, **options))


def semi_supervised_scorer(
    scoring: str | Callable[..., float] | None = None,
) -> Callable[..., float]:
    """Return a scorer that ignores rows without a label.

    Args:
        scoring: A name known to scikit-learn (``sklearn.metrics.get_scorer_names()``), a scorer, or
            None for the estimator's own ``score``.

    >>> from sklearn.dummy import DummyClassifier
    >>> model = DummyClassifier(strategy="constant", constant=1).fit([[0], [0]], [0, 1])
    >>> X, y = np.zeros((4, 1)), [1, 1, 0, -1]
    >>> get_scorer("accuracy")(model, X, y), semi_supervised_scorer("accuracy")(model, X, y)
    (0.5, 0.6666666666666666)
    """
    return LabelledScorer(None if scoring is None else get_scorer(scoring))


class WithUnlabelled(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier that is fitted on labelled rows, and also learns from its own unlabelled rows.

    In ``CalibratedClassifierCV``, ``BaggingClassifier``, ``VotingClassifier`` and any other wrapper
    y then has no missing label that could be mistaken for a class.

    Args:
        estimator: A classifier whose ``fit`` takes ``X_unlabelled``, such as
            :class:`dessl.DeSSLClassifier`; or a pipeline that ends in a DeSSLClassifier. Its other
            steps are fitted on labelled and unlabelled rows.
        X_unlabelled: Rows like those of X. Wrappers copy them with the estimator. A pipeline around
            this classifier would transform X alone: put the pipeline inside.

    Attributes:
        estimator_: The fitted classifier.
        classes_: Its classes.

    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> X = 100.0 + np.arange(40.0)[:, None]
    >>> inside = make_pipeline(StandardScaler(), DeSSLClassifier(steps=20, random_state=0))
    >>> model = WithUnlabelled(inside, X[20:]).fit(X[:20], np.repeat([0, 1], 10))
    >>> model.estimator_[0].mean_  # of all 40 rows
    array([119.5])
    """

    def __init__(self, estimator: Any, X_unlabelled: Any) -> None:
        self.estimator = estimator
        self.X_unlabelled = X_unlabelled

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit a clone on labelled rows and the unlabelled ones.

        Args:
            X: Rows with a label, (n, ...).
            y: (n,) labels.
            sample_weight: (n,) weights; an unlabelled row has weight 1.
        """
        warn_of_untransformed(X, self.X_unlabelled)
        estimator = clone(self.estimator)
        if isinstance(estimator, Pipeline):
            self.estimator_ = _fitted_pipeline(estimator, X, y, self.X_unlabelled, sample_weight)
        else:
            weights = {} if sample_weight is None else {"sample_weight": sample_weight}
            self.estimator_ = estimator.fit(X, y, X_unlabelled=self.X_unlabelled, **weights)
        self.classes_ = self.estimator_.classes_
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable classes, (n,)."""
        check_is_fitted(self)
        labels: NDArray[Any] = self.estimator_.predict(X)
        return labels

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return probabilities (n, classes), the classes in the order of ``classes_``."""
        check_is_fitted(self)
        probabilities: NDArray[np.float64] = self.estimator_.predict_proba(X)
        return probabilities

    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the logarithms of :meth:`predict_proba`, (n, classes)."""
        check_is_fitted(self)
        logs: NDArray[np.float64] = self.estimator_.predict_log_proba(X)
        return logs

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the score of the fitted classifier."""
        check_is_fitted(self)
        return float(self.estimator_.score(X, y, sample_weight))


def _fitted_pipeline(pipeline: Pipeline, X: Any, y: Any, more: Any, sample_weight: Any) -> Pipeline:
    """A pipeline fitted on labelled and unlabelled rows together."""
    last: Any = pipeline
    path = ""
    while isinstance(last, Pipeline):
        name, last = last.steps[-1]
        path += f"{name}__"
    if not isinstance(last, DeSSLClassifier):
        raise TypeError(
            "estimator must be a DeSSLClassifier or a pipeline that ends in one; got a pipeline "
            f"that ends in {type(last).__name__}. Another last step would take missing labels for "
            "a class."
        )
    rows = stacked_rows(X, more)
    n_more = np.shape(more)[0]
    weights = {}
    if sample_weight is not None:
        weights = {f"{path}sample_weight": np.concatenate([sample_weight, np.ones(n_more)])}
    try:
        return pipeline.fit(rows, stacked_labels(y, n_more), **weights)
    except (TypeError, ValueError) as error:
        error.add_note(STACKED)
        raise

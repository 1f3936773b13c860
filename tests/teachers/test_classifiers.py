import copy
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import RidgeClassifier
from sklearn.naive_bayes import GaussianNB

from dessl.teachers import FromClassifier, out_of_fold
from dessl.teachers.classifiers import ROWS_AT_ONCE


class Limited(ClassifierMixin, BaseEstimator):
    """As tabular foundation models are: limits, warnings on each call, other people's filters."""

    def fit(self, x: Any, y: Any) -> "Limited":
        if len(x) > 30:
            raise ValueError("at most 30 rows.")
        self.classes_ = np.unique(y)
        if list(self.classes_) != list(range(len(self.classes_))) or len(self.classes_) < 2:
            raise ValueError(f"classes must be 0, 1, …; got {self.classes_}")
        self.own_ = GaussianNB().fit(x, y)
        return self

    def predict_proba(self, x: Any) -> Any:
        warnings.simplefilter("default")
        warnings.warn("deprecated", UserWarning, stacklevel=1)
        if len(x) > ROWS_AT_ONCE:
            raise MemoryError
        return self.own_.predict_proba(x)


def test_a_clone_is_fitted_and_its_probabilities_mixed(blobs: Callable) -> None:
    rows = blobs()
    own = GaussianNB()
    found = FromClassifier(own).fit(rows.x_l, rows.y_l, rows.x_u, 3).predict_log_proba(rows.x_new)
    assert not hasattr(own, "classes_")
    p = own.fit(rows.x_l.numpy(), rows.y_l.numpy()).predict_proba(rows.x_new.numpy())
    prior = (rows.y_l.bincount() + 1).double().numpy() / 43
    assert found.exp().numpy() == pytest.approx(0.99 * p + 0.01 * prior, abs=1e-6)


@pytest.mark.parametrize("wrong", [RidgeClassifier(), GaussianNB, 3])
def test_what_gives_no_probabilities_is_refused(wrong: object) -> None:
    with pytest.raises(TypeError, match="predict_proba"):
        FromClassifier(wrong)


@pytest.mark.filterwarnings("ignore:deprecated")
def test_classes_that_a_fold_lacks_leave_no_gap(blobs: Callable) -> None:
    rows = blobs(n_l=24)
    some = rows.y_l != 1
    teacher = FromClassifier(Limited()).fit(rows.x_l[some], rows.y_l[some], rows.x_u, 4)
    log_p = teacher.predict_log_proba(rows.x_new)
    assert set(log_p.argmax(1).tolist()) == {0, 2}
    p = GaussianNB().fit(rows.x_l[some], rows.y_l[some]).predict_proba(rows.x_new)
    prior = torch.tensor([9, 1, 9, 1]) / 20
    assert log_p.exp()[:, 2].numpy() == pytest.approx(0.99 * p[:, 1] + 0.01 * 9 / 20, abs=1e-6)
    assert log_p.exp()[0, [1, 3]].tolist() == pytest.approx((0.01 * prior[[1, 3]]).tolist())


def test_with_one_class_the_classifier_is_not_fitted(blobs: Callable) -> None:
    rows = blobs(n_l=18)
    teacher = FromClassifier(Limited()).fit(rows.x_l, torch.zeros_like(rows.y_l), rows.x_u, 2)
    p = teacher.predict_log_proba(rows.x_new).exp()
    assert p[0].tolist() == pytest.approx([0.99 + 0.01 * 19 / 20, 0.01 / 20])


def test_errors_name_the_teacher_and_the_data(blobs: Callable) -> None:
    rows = blobs(n_l=40)
    message = (
        r"teacher 'mine' could not fit 40 labelled rows, 2 columns and 3 classes: ValueError: at "
        r"most 30 rows\. Leave it out of teachers"
    )
    with pytest.raises(RuntimeError, match=message):
        FromClassifier(Limited(), "mine").fit(rows.x_l, rows.y_l, rows.x_u, 3)
    teacher = FromClassifier(GaussianNB()).fit(rows.x_l, rows.y_l, rows.x_u, 3)
    with pytest.raises(RuntimeError, match="'GaussianNB' could not predict 7 rows of 3 columns: "):
        teacher.predict_log_proba(torch.zeros(7, 3))
    with pytest.raises(RuntimeError, match="not been fitted"):
        FromClassifier(GaussianNB()).predict_log_proba(rows.x_new)


def test_a_warning_of_each_call_is_shown_once_and_filters_are_kept(blobs: Callable) -> None:
    rows = blobs(n_l=30)
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        before = list(warnings.filters)
        teacher = FromClassifier(Limited())
        out_of_fold(teacher, rows.x_l, rows.y_l, rows.x_u, rows.folds, 3)
        teacher.fit(rows.x_l, rows.y_l, rows.x_u, 3).predict_log_proba(rows.x_new)
        assert warnings.filters == before
    assert [(one.category, str(one.message)) for one in shown] == [(UserWarning, "deprecated")]
    assert shown[0].filename == __file__
    with warnings.catch_warnings(record=True) as shown:
        warnings.filterwarnings("ignore", message="deprecated")
        FromClassifier(Limited()).fit(rows.x_l, rows.y_l, rows.x_u, 3).predict_log_proba(rows.x_new)
    assert not shown


@pytest.mark.filterwarnings("ignore:deprecated")
def test_many_rows_are_predicted_in_blocks(blobs: Callable) -> None:
    rows = blobs(n_l=30)
    teacher = FromClassifier(Limited()).fit(rows.x_l, rows.y_l, rows.x_u, 3)
    many = rows.x_new.repeat(ROWS_AT_ONCE // 100 + 1, 1)
    assert len(many) > ROWS_AT_ONCE
    log_p = teacher.predict_log_proba(many)
    assert torch.equal(log_p[-100:], teacher.predict_log_proba(rows.x_new))


def test_copies_share_the_classifier_and_fit_apart(blobs: Callable) -> None:
    rows = blobs()
    teacher = FromClassifier(GaussianNB()).fit(rows.x_l, rows.y_l, rows.x_u, 3)
    log_p = teacher.predict_log_proba(rows.x_new)
    other = copy.deepcopy(teacher)
    assert other.classifier is teacher.classifier
    assert torch.equal(other.predict_log_proba(rows.x_new), log_p)
    other.fit(rows.x_l.flip(1), rows.y_l, rows.x_u, 3)
    assert torch.equal(teacher.predict_log_proba(rows.x_new), log_p)

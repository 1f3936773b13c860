from collections.abc import Callable

import pytest
from sklearn.linear_model import RidgeClassifier
from sklearn.naive_bayes import GaussianNB

from dessl.teachers import FromClassifier


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

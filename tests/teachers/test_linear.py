from collections.abc import Callable

import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from dessl.teachers import Linear


@pytest.mark.parametrize("n_classes", [2, 3])
def test_it_is_scikit_learns_on_standardised_columns(blobs: Callable, n_classes: int) -> None:
    rows = blobs()
    y = rows.y_l.clamp(max=n_classes - 1)
    scaler = StandardScaler().fit(torch.cat([rows.x_l, rows.x_u]).double().numpy())
    peer = LogisticRegression(C=0.3, tol=1e-8, max_iter=1000)
    peer.fit(scaler.transform(rows.x_l.double().numpy()), y.numpy())
    expected = peer.predict_log_proba(scaler.transform(rows.x_new.double().numpy()))
    found = Linear(0.3).fit(rows.x_l, y, rows.x_u, n_classes).predict_log_proba(rows.x_new)
    assert found.numpy() == pytest.approx(expected, abs=2e-3)


def test_one_class_alone_has_what_the_shares_leave(blobs: Callable) -> None:
    rows = blobs()
    linear = Linear().fit(rows.x_l, torch.zeros_like(rows.y_l), rows.x_u, 2)
    assert linear.predict_log_proba(rows.x_new)[0].exp().tolist() == pytest.approx(
        [41 / 42, 1 / 42]
    )

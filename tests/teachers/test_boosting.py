import sys
from collections.abc import Callable

import pytest
import torch

from dessl.teachers import Boosting


def test_without_lightgbm_the_error_says_what_to_do(
    blobs: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    rows = blobs()
    with pytest.raises(ImportError, match="pip install lightgbm"):
        Boosting().fit(rows.x_l, rows.y_l, rows.x_u, 3)


def test_it_learns_and_comes_back_from_its_text(blobs: Callable) -> None:
    pytest.importorskip("lightgbm")
    rows = blobs(n_l=200)
    boosting = Boosting(20).fit(rows.x_l, rows.y_l, rows.x_u, 4)
    log_p = boosting.predict_log_proba(rows.x_new)
    assert float((log_p.argmax(1) == rows.y_new).float().mean()) > 0.75
    assert log_p.exp().sum(1).numpy() == pytest.approx(1)
    again = Boosting.from_state(boosting.state())
    assert torch.equal(again.predict_log_proba(rows.x_new), log_p)


def test_one_class_alone_needs_no_tree(blobs: Callable) -> None:
    rows = blobs()
    boosting = Boosting().fit(rows.x_l, torch.zeros_like(rows.y_l), rows.x_u, 2)
    again = Boosting.from_state(boosting.state())
    assert again.predict_log_proba(rows.x_new)[0].exp().tolist() == pytest.approx([41 / 42, 1 / 42])

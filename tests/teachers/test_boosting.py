import json
import sys
from collections.abc import Callable

import pytest
import torch

from dessl.teachers import Boosting
from dessl.teachers.boosting import LIBRARIES, Library


@pytest.mark.parametrize(
    ("library", "message"),
    [
        (None, "needs lightgbm or xgboost: pip install lightgbm"),
        ("xgboost", "needs xgboost: pip install xgboost"),
    ],
)
def test_without_a_library_the_error_says_what_to_do(
    blobs: Callable, monkeypatch: pytest.MonkeyPatch, library: Library | None, message: str
) -> None:
    for name in LIBRARIES:
        monkeypatch.setitem(sys.modules, name, None)
    rows = blobs()
    with pytest.raises(ImportError, match=message):
        Boosting(library=library).fit(rows.x_l, rows.y_l, rows.x_u, 3)


@pytest.mark.parametrize("library", LIBRARIES)
def test_it_learns_and_comes_back_from_its_text(blobs: Callable, library: Library) -> None:
    pytest.importorskip(library)
    rows = blobs(n_l=200)
    boosting = Boosting(20, library=library).fit(rows.x_l, rows.y_l, rows.x_u, 4)
    log_p = boosting.predict_log_proba(rows.x_new)
    assert float((log_p.argmax(1) == rows.y_new).float().mean()) > 0.75
    assert log_p.exp().sum(1).numpy() == pytest.approx(1)
    state = boosting.state()
    again = Boosting.from_state(state._replace(settings=json.loads(json.dumps(state.settings))))
    assert torch.equal(again.predict_log_proba(rows.x_new), log_p)
    assert again.name == boosting.name


def test_xgboost_is_used_where_lightgbm_is_missing(
    blobs: Callable, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("xgboost")
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    rows = blobs()
    boosting = Boosting().fit(rows.x_l, rows.y_l, rows.x_u, 3)
    assert boosting.name == "boosting xgboost"
    assert boosting.state().settings["library"] == "xgboost"


def test_states_without_a_library_are_of_lightgbm(blobs: Callable) -> None:
    rows = blobs()
    state = Boosting().fit(rows.x_l, torch.zeros_like(rows.y_l), rows.x_u, 2).state()
    del state.settings["library"]
    assert Boosting.from_state(state).library == "lightgbm"


def test_another_library_is_refused() -> None:
    with pytest.raises(ValueError, match="library must be one of"):
        Boosting(library="os")  # type: ignore[arg-type]


def test_one_class_alone_needs_no_tree(blobs: Callable) -> None:
    rows = blobs()
    boosting = Boosting().fit(rows.x_l, torch.zeros_like(rows.y_l), rows.x_u, 2)
    again = Boosting.from_state(boosting.state())
    assert again.predict_log_proba(rows.x_new)[0].exp().tolist() == pytest.approx([41 / 42, 1 / 42])

"""Callers that take a missing label for a class, stood in for by functions named as theirs."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dessl.estimator.callers import (
    most_columns_far,
    n_missing,
    warn_of_numbered,
    warn_of_scored,
    warn_of_untransformed,
)

SOME = np.array([0, -1, 1, -1])


def caller(module: str, *names: str, called: str = "caller") -> Callable[..., Any]:
    """A function of a module, with these arguments, that calls its first one."""
    space: dict[str, Any] = {"__name__": module}
    exec(f"def {called}(call, {', '.join(names)}):\n    return call()", space)
    found: Callable[..., Any] = space[called]
    return found


def said(call: Callable[[], object]) -> list[str]:
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always")
        call()
    return [str(one.message) for one in noted]


@pytest.mark.parametrize("name", ["y", "y_true"])
def test_a_scorer_with_missing_labels_is_warned_of(name: str) -> None:
    score = caller("sklearn.metrics._scorer", name)
    (line,) = said(lambda: score(warn_of_scored, SOME))
    assert line.startswith("2 of 4 rows to score have no label")
    assert said(lambda: score(warn_of_scored, np.array([0, 1]))) == []


def test_the_nearest_scorer_counts() -> None:
    inner, outer = (caller("sklearn.metrics._scorer", "y_true") for _ in range(2))
    nothing = caller("sklearn.metrics._scorer", "other")
    labelled = np.array([0, 1])
    assert said(lambda: outer(lambda: inner(warn_of_scored, labelled), SOME)) == []
    assert len(said(lambda: outer(lambda: nothing(warn_of_scored, 3), SOME))) == 1


def test_labels_of_other_modules_are_not_looked_at() -> None:
    assert said(lambda: caller("mine", "y_true")(warn_of_scored, SOME)) == []
    assert said(warn_of_scored) == []
    assert said(lambda: caller("mine", "y")(warn_of_numbered, SOME)) == []
    assert said(lambda: caller("sklearn.pipeline", "y")(warn_of_numbered, SOME)) == []


class Bagging:
    pass


@pytest.mark.parametrize("module", ["sklearn.ensemble._voting", "sklearn.calibration"])
def test_an_estimator_that_numbers_labels_is_named(module: str) -> None:
    fit = caller(module, "self", "y", called="fit")
    (line,) = said(lambda: fit(warn_of_numbered, Bagging(), SOME))
    assert line.startswith("Bagging treats the missing labels in y as a class")
    inner = caller(module, "y", called="_fit")
    (line,) = said(lambda: fit(lambda: inner(warn_of_numbered, SOME), Bagging(), SOME))
    assert line.startswith("Bagging treats")
    (line,) = said(lambda: inner(warn_of_numbered, SOME))  # in a process of its own
    assert line.startswith(f"{module.removesuffix('._voting')} treats")
    assert said(lambda: fit(warn_of_numbered, Bagging(), np.array([0, 1]))) == []


def test_cross_val_predict_is_known_by_its_encoder() -> None:
    class Encoder:
        classes_ = np.array([-1, 0, 1])

    module = "sklearn.model_selection._validation"
    predict = caller(module, "le", called="cross_val_predict")
    (line,) = said(lambda: predict(warn_of_numbered, Encoder()))
    assert line.startswith("cross_val_predict treats")
    assert said(lambda: predict(warn_of_numbered, None)) == []
    assert said(lambda: caller(module, "le", called="other")(warn_of_numbered, Encoder())) == []


def test_the_warning_is_of_the_line_that_called() -> None:
    def estimator() -> None:
        warn_of_scored()

    with pytest.warns(UserWarning, match="rows to score") as noted:
        caller("sklearn.metrics._scorer", "y")(estimator, SOME)
    assert noted[0].filename == "<string>"  # the caller of the estimator's method


@pytest.mark.parametrize(
    ("labels", "n"),
    [
        ([0, 1, -1, -1], 2),
        ([0.0, np.nan, -1.0], 2),
        (np.array(["a", "", "b"]), 1),
        (np.array(["a", None, np.nan, -1, "-1"], dtype=object), 3),
        ([True, False], 0),
        ([[0, -1]], 0),
        (-1, 0),
        ([], 0),
    ],
)
def test_missing_labels_are_counted(labels: Any, n: int) -> None:
    assert n_missing(labels) == n


@pytest.mark.parametrize(
    ("shift", "scale", "far"),
    [
        ([0, 0, 0, 0], [1, 1, 1, 1], False),
        ([1.9, 1.9, 1.9, 1.9], [1, 2.9, 1, 0.34], False),  # a large shift in the same unit
        ([2.1, 2.1, 0, 0], [1, 1, 1, 1], False),  # half of the columns
        ([2.1, 2.1, 2.1, 0], [1, 1, 1, 1], True),
        ([0, 0, 0, 0], [3.1, 0.3, 100, 1], True),
    ],
)
def test_columns_are_far_by_their_means_or_their_spread(
    shift: list[float], scale: list[float], far: bool
) -> None:
    rows = np.random.default_rng(0).normal(size=(50, 4))
    rows = (rows - rows.mean(0)) / rows.std(0)
    assert most_columns_far(7 + rows, 7 + rows * scale + shift) is far


def test_rows_that_cannot_be_compared_are_not_far() -> None:
    rows = np.arange(6.0).reshape(3, 2)
    for more in (rows[:, :1], rows[:0], np.full((3, 2), np.nan), [["a", "b"]], rows[None]):
        assert not most_columns_far(rows, more)
    constant = np.ones((3, 2))
    assert not most_columns_far(constant, 100 * rows)


class Steps:
    def __init__(self, *steps: tuple[str, object]) -> None:
        self.steps = list(steps)


def test_only_rows_that_a_pipeline_has_transformed_are_warned_of() -> None:
    rows, last = np.random.default_rng(0).normal(size=(20, 3)), ("last", object())

    def warned(*before: tuple[str, object], more: Any = 50 + rows) -> list[str]:
        fit = caller("sklearn.pipeline", "self")
        return said(lambda: fit(lambda: warn_of_untransformed(rows, more), Steps(*before, last)))

    (line,) = warned(("scale", object()), ("none", "passthrough"))
    assert line.startswith("the pipeline's 'scale' transformed X, but most columns of X_unlabelled")
    assert "Put the preprocessing inside: WithUnlabelled(make_pipeline(" in line
    assert warned(("scale", object()), more=1 + rows) == []
    assert warned(("none", "passthrough")) == warned() == []
    assert said(lambda: warn_of_untransformed(rows, 50 + rows)) == []

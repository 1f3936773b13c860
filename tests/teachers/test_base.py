from collections.abc import Callable

import pytest
import torch

from dessl.teachers import (
    Boosting,
    FromClassifier,
    Gaussians,
    Graph,
    Kernel,
    Linear,
    Teacher,
    Trees,
)
from dessl.teachers.base import Classes, Saveable, checked_rows
from dessl.teachers.families import KINDS


def test_every_built_in_teacher_keeps_the_protocol() -> None:
    for kind in (Graph, Linear, Kernel, Gaussians, Trees, Boosting):
        assert isinstance(kind(), Teacher)
        assert isinstance(kind(), Saveable)
        assert kind in KINDS.values()


def test_a_classifier_of_the_users_own_is_no_saveable_teacher() -> None:
    from sklearn.naive_bayes import GaussianNB

    assert isinstance(FromClassifier(GaussianNB()), Teacher)
    assert not isinstance(FromClassifier(GaussianNB()), Saveable)


@pytest.mark.parametrize("kind", [Graph, Linear, Kernel, Gaussians, Trees, Boosting])
def test_a_teacher_that_has_not_learnt_says_so(kind: type) -> None:
    with pytest.raises(RuntimeError, match=r"Call \.fit"):
        kind().predict_log_proba(torch.zeros(2, 2))
    with pytest.raises(RuntimeError, match=r"Call \.fit"):
        kind().state()


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        ({"x_l": torch.zeros(4)}, ValueError, "shape \\(n, d\\)"),
        ({"x_l": torch.full((4, 2), torch.nan)}, ValueError, "NaN or infinite"),
        ({"y_l": torch.tensor([0, 1, 0])}, ValueError, "one class for each"),
        ({"y_l": torch.tensor([0, 1, 2, 0])}, ValueError, "0 … 1"),
        ({"y_l": torch.tensor([0, 1, -1, 0])}, ValueError, "go to x_u"),
        ({"y_l": torch.tensor([0.0, 1.0, 0.0, 1.0])}, TypeError, "whole class numbers"),
        ({"x_u": torch.zeros(3, 5)}, ValueError, "same columns"),
        ({"n_classes": 1}, ValueError, "at least 2"),
    ],
)
def test_wrong_rows_are_refused(change: dict, kind: type, message: str) -> None:
    right = {
        "x_l": torch.rand(4, 2), "y_l": torch.tensor([0, 1, 0, 1]), "x_u": torch.rand(3, 2),
        "n_classes": 2,
    }  # fmt: skip
    checked_rows(**right)
    with pytest.raises(kind, match=message):
        checked_rows(**(right | change))


def test_classes_that_were_not_seen_keep_a_share() -> None:
    classes = Classes.of(torch.tensor([1, 1, 3]), 5)
    log_p = classes.among_all(torch.tensor([[0.2, 0.8]]).log())
    assert log_p.exp().sum() == pytest.approx(1.0)
    assert log_p.exp()[0, [0, 2, 4]].tolist() == pytest.approx([1 / 8] * 3)
    assert log_p.exp()[0, 1] / log_p.exp()[0, 3] == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: Graph(alpha=1.0), r"alpha must lie in \(0, 1\); got 1"),
        (lambda: Graph(smoothing=0.0), r"smoothing must lie in \(0, inf\]; got 0"),
        (lambda: Kernel(width=0.0), r"width must lie in \(0, inf\]; got 0"),
        (lambda: Kernel(strength=-1.0), r"strength must lie in \(0, inf\]; got -1"),
        (lambda: Linear(strength=0.0), r"strength must lie in \(0, inf\]; got 0"),
        (lambda: Gaussians("round"), "covariance must be one of 'full', 'diagonal'; got 'round'"),
        (lambda: Gaussians(mass=-1.0), r"mass must lie in \[0, inf\]; got -1"),
    ],
)
def test_settings_without_a_meaning_are_refused(make: Callable[[], object], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        make()

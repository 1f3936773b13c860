"""Predictions out of fold: no row's own label has a part in them."""

import numpy as np
import pytest
import torch
from torch import Tensor

from dessl.safety.answers import fold_answers
from dessl.teachers import Linear, Teacher

FITS: list[tuple[Tensor, Tensor, Tensor]] = []


class Noted:
    """A teacher that remembers what it was fitted on, and predicts the number of its labels."""

    name = "noted"

    def fit(self, x_l: Tensor, y_l: Tensor, x_u: Tensor, n_classes: int) -> Teacher:
        FITS.append((x_l, y_l, x_u))
        self.seen, self.n_classes = x_l[:, 0].tolist(), n_classes
        return self

    def predict_log_proba(self, x: Tensor) -> Tensor:
        assert set(x[:, 0].tolist()).isdisjoint(self.seen)
        return torch.full((len(x), self.n_classes), float(len(self.seen))).double()


@pytest.fixture(autouse=True)
def _forget() -> None:
    FITS.clear()


def test_each_row_is_predicted_by_a_model_that_has_not_seen_its_label() -> None:
    x = torch.arange(43.0)[:, None]
    labelled = np.arange(43) % 3 == 0  # 15 rows
    y = torch.arange(15) % 2
    teacher = Noted()
    found = fold_answers(x, y, labelled, 2, teacher=teacher, folds=5, seed=1)
    assert found.log_p.dtype == torch.float64
    assert np.bincount(found.folds[labelled]).tolist() == [3] * 5
    assert sorted(np.bincount(found.folds[~labelled]).tolist()) == [5, 5, 6, 6, 6]
    assert not hasattr(teacher, "seen")  # copies are fitted
    assert len(FITS) == 5
    for fold, (x_l, y_l, x_u) in enumerate(FITS):
        assert torch.equal(x_l, x[labelled & (found.folds != fold)])
        assert torch.equal(y_l, y[torch.from_numpy(found.folds[labelled] != fold)])
        assert len(x_u) == 0
    assert (found.log_p == 12).all()


def test_a_seed_gives_its_folds() -> None:
    x, labelled = torch.rand(30, 2), np.arange(30) < 12
    y = torch.arange(12) % 2
    one, again, other = (fold_answers(x, y, labelled, 2, seed=seed) for seed in (0, 0, 1))
    assert torch.equal(one.log_p, again.log_p)
    assert (one.folds == again.folds).all()
    assert (one.folds != other.folds).any()
    torch.testing.assert_close(one.log_p.exp().sum(1), torch.ones(30, dtype=torch.float64))


def test_more_folds_than_rows_leave_some_empty() -> None:
    x, labelled = torch.arange(6.0)[:, None], np.array([True] * 4 + [False] * 2)
    found = fold_answers(x, torch.tensor([0, 1, 0, 1]), labelled, 2, teacher=Linear(1.0), folds=9)
    assert torch.isfinite(found.log_p).all()
    assert set(found.folds.tolist()) == {0, 1, 2, 3}

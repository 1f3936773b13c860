from collections.abc import Callable

import pytest
import torch

from dessl.teachers import Trees


def test_one_more_tree_votes_for_the_shares(blobs: Callable) -> None:
    rows = blobs()
    trees = Trees(20, seed=3).fit(rows.x_l, rows.y_l, rows.x_u, 4)
    votes = trees._forest.mean_shares(rows.x_new)
    votes = torch.cat([votes, torch.zeros(len(votes), 1)], 1)
    prior = (rows.y_l.bincount(minlength=4) + 1) / 44
    expected = (20 * votes + prior) / 21
    assert trees.predict_log_proba(rows.x_new).exp().numpy() == pytest.approx(
        expected.numpy(), abs=1e-7
    )


def test_classes_without_a_row_keep_their_place(blobs: Callable) -> None:
    rows = blobs()
    shifted = Trees(20, seed=3).fit(rows.x_l, 2 * rows.y_l, rows.x_u, 6)
    plain = Trees(20, seed=3).fit(rows.x_l, rows.y_l, rows.x_u, 3)
    found = shifted.predict_log_proba(rows.x_new)[:, ::2].log_softmax(1)
    expected = plain.predict_log_proba(rows.x_new).argmax(1)
    assert float((found.argmax(1) == expected).float().mean()) > 0.99


def test_one_class_alone(blobs: Callable) -> None:
    rows = blobs()
    trees = Trees(5).fit(rows.x_l, torch.ones_like(rows.y_l), rows.x_u, 2)
    assert (trees.predict_log_proba(rows.x_new).argmax(1) == 1).all()

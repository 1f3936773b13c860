"""Many small networks at a time: each learns from its own rows and its own targets."""

import pytest
import torch
from torch import Tensor

from dessl.teachers.answers import Answers
from dessl.teachers.fold_networks import (
    Lesson,
    NetworkSetting,
    ensemble_log_p,
    network_log_p,
    trained_networks,
)
from dessl.teachers.school import imitating_networks

SHORT = NetworkSetting(hidden=(16,), dropout=0.0, steps=60, student_steps=120, unlabelled_batch=64)
NONE = torch.empty(0, dtype=torch.int64)


def drawn(n: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    x = torch.randn(n, 3, generator=torch.Generator().manual_seed(seed))
    x[:, 0] *= 4
    return x, (x[:, 0] > 0).long()


def accuracy(log_p: Tensor, y: Tensor) -> float:
    return float((log_p.argmax(1) == y).double().mean())


def test_networks_of_unequal_rows_come_back_in_order() -> None:
    x, y = drawn(60)
    wrong = 1 - y
    labels = torch.where(torch.arange(60) < 30, y, wrong)  # the two halves say the opposite
    lessons = [
        Lesson(torch.arange(0, 25), torch.arange(25, 30)),
        Lesson(torch.arange(30, 56), torch.arange(56, 60)),
        Lesson(torch.arange(0, 24), torch.arange(24, 30)),
    ]
    networks = trained_networks(x, labels, lessons, SHORT, n_classes=2)
    new, truth = drawn(200, seed=1)
    found = [accuracy(network_log_p(one.network, new), truth) for one in networks]
    assert found[0] > 0.8
    assert found[1] < 0.2
    assert found[2] > 0.8


@pytest.mark.parametrize("risk", ["ssl", "debiased"])
def test_each_student_has_targets_of_its_own(risk: str) -> None:
    x, y = drawn(30)
    rest, truth = drawn(400, seed=2)
    right = torch.eye(2)[truth]
    on_gold = torch.eye(2)[y]
    rows = (torch.arange(30), NONE)
    lessons = [
        Lesson(*rows, right, on_gold, 0.9, risk),
        Lesson(*rows, 1 - right, 1 - on_gold, 20.0, "ssl"),
    ]
    first, second = trained_networks(x, y, lessons, SHORT, n_classes=2, x_unlabelled=rest, seed=3)
    new, wanted = drawn(300, seed=4)
    assert accuracy(network_log_p(first.network, new), wanted) > 0.9
    assert accuracy(network_log_p(second.network, new), wanted) < 0.1


def test_imitators_learn_the_answers_and_no_gold_label() -> None:
    x, truth = drawn(500)
    wrong = Answers(torch.where(torch.arange(500) % 5 == 0, -1, 1 - truth), 2)
    networks = imitating_networks(x, wrong, SHORT, seed=0)
    assert len(networks) == 2
    new, wanted = drawn(300, seed=5)
    assert accuracy(ensemble_log_p(networks, new), wanted) < 0.1
    with pytest.raises(ValueError, match="answered none of the 500"):
        imitating_networks(x, Answers(torch.full((500,), -1), 2), SHORT, seed=0)


def test_the_ensemble_is_the_geometric_mean() -> None:
    x, y = drawn(40)
    lessons = [Lesson(torch.arange(40), NONE)] * 2
    networks = [one.network for one in trained_networks(x, y, lessons, SHORT, n_classes=2)]
    each = torch.stack([network_log_p(network, x).exp() for network in networks])
    product = each.prod(0).sqrt()
    expected = product / product.sum(1, keepdim=True)
    torch.testing.assert_close(ensemble_log_p(networks, x).exp(), expected)


def test_a_million_rows_cost_what_the_steps_draw() -> None:
    assert SHORT.most_rows(3) == 120 * 64
    assert NetworkSetting().most_rows(10**6) == NetworkSetting().unlabelled_batch
    assert NetworkSetting.from_dict(SHORT.as_dict()) == SHORT

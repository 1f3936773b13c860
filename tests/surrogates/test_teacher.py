"""The given teacher: a table looked up by row id, never by place."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from dessl import SemiData, TrainPlan, train
from dessl.functional import cross_entropy
from dessl.objective import objective
from dessl.surrogates import Rows, Teacher

Q = torch.tensor([[0.2, 0.5, 0.3], [1.0, 0.0, 0.0], [0.1, 0.1, 0.8], [0.25, 0.35, 0.4]])
X = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
ROWS = Rows(X, torch.tensor([2, 0, 3, 3, 1]))


@pytest.mark.parametrize("hard", [False, True])
def test_the_equation(hard: bool, softmax: Callable[[Tensor], list[float]]) -> None:
    model = nn.Linear(4, 3)
    expected = []
    for row, place in zip(model(X), ROWS.ids.tolist(), strict=True):
        p, q = softmax(row), Q[place].tolist()
        label = q.index(max(q))
        full = -sum(b * math.log(a) for a, b in zip(p, q, strict=True))
        expected.append(-math.log(p[label]) if hard else full)
    h, logits = Teacher(Q.numpy(), hard=hard)(model, ROWS)
    torch.testing.assert_close(h, torch.tensor(expected))
    torch.testing.assert_close(logits[0], model(X))


def test_a_one_logit_model_meets_a_table_of_two_classes(
    softmax: Callable[[Tensor], list[float]],
) -> None:
    rows = Rows(torch.tensor([[2.0]]), torch.tensor([0]))
    p = softmax(torch.tensor([0.0, 2.0]))
    expected = -0.3 * math.log(p[0]) - 0.7 * math.log(p[1])
    assert Teacher([[0.3, 0.7]])(lambda x: x, rows).h.item() == pytest.approx(expected)


def test_unbounded_below_unless_the_teacher_is_right_for_sure() -> None:
    """With q = (0.9, 0.1) and y = 0: L → 0 and H → ∞ as the model grows sure of y."""
    rows, y = Rows(torch.tensor([[1.0, 0.0]]), torch.tensor([0])), torch.tensor([0])
    for lam in (0.01, 1.0):
        for scale in (1e3, 1e4, 1e5):
            h, logits = Teacher([[0.9, 0.1]])(lambda x, s=scale: s * x, rows)
            assert float(cross_entropy(logits[0], y) - lam * h) < -0.09 * lam * scale
    right = Teacher([[1.0, 0.0]])
    scores = right(lambda x: 1e5 * x, rows)
    assert float(cross_entropy(scores.logits[0], y) - scores.h) == 0
    assert Teacher.bounded_up_to == 0


def test_a_teacher_that_saw_the_labels_is_biased_and_a_blind_one_is_not() -> None:
    """Why the docstring asks for cross-fitting: over all labellings of four rows.

    The model is fixed. A teacher that memorised the labelled rows has another H there than on the
    others, so the mean debiased risk is off; a blind one leaves it at the complete-data risk.
    """
    n, logits = 4, torch.tensor([[0.9, -0.2], [0.1, 0.4], [0.0, 0.2], [-0.5, 0.5]])
    y = torch.tensor([0, 1, 1, 0])
    complete = cross_entropy(logits, y).mean()
    blind = Teacher([[0.6, 0.4]] * n)
    means = {"blind": 0.0, "seen": 0.0}
    for first in range(n):
        order = torch.tensor([first, *(row for row in range(n) if row != first)])
        rows = Rows(logits[order], order)
        table = torch.full((n, 2), 0.5)
        table[first] = nn.functional.one_hot(y[first], 2).float()
        for name, teacher in (("blind", blind), ("seen", Teacher(table))):
            value = objective(teacher(lambda x: x, rows), y[order][:1]).value
            means[name] += float(value) / n
    assert means["blind"] == pytest.approx(float(complete), abs=1e-6)
    assert abs(means["seen"] - float(complete)) > 0.01


def test_prepare_refuses_another_table() -> None:
    teacher = Teacher(Q)
    teacher.prepare(nn.Linear(4, 3), 4, 3)
    with pytest.raises(ValueError, match=r"a row for each of the 5 row ids .* got \(4, 3\)"):
        teacher.prepare(nn.Linear(4, 3), 5, 3)
    with pytest.raises(ValueError, match=r"each of the 10 classes.*class_names\.$"):
        teacher.prepare(nn.Linear(4, 3), 4, 10)


def test_the_rows_of_a_separate_validation_part_come_last() -> None:
    x, y = torch.randn(9, 2), torch.tensor([0, 1, -1, -1, -1, -1, -1, 0, 1])
    data = SemiData(x[:7], y[:7], validation=(x[7:], y[7:]))
    plan = TrainPlan(steps=1, labelled_batch=2, unlabelled_batch=4, bound="nonnegative")
    message = r"the 9 row ids.*got \(7, 2\).*The last 2 row ids have none: .* validation part"
    with pytest.raises(ValueError, match=message):
        train(nn.Linear(2, 2), Teacher(torch.full((7, 2), 0.5)), data, plan)
    assert train(nn.Linear(2, 2), Teacher(torch.full((9, 2), 0.5)), data, plan).steps == 1


@pytest.mark.parametrize("table", [[[2.0, -1.0]], [[0.5, 0.6]], np.array([[3.0, 1.0]])])
def test_what_is_not_a_distribution_is_refused(table: object) -> None:
    with pytest.raises(ValueError, match=r"summing to 1.*Pass probabilities, not logits"):
        Teacher(table)  # type: ignore[arg-type]


@pytest.mark.parametrize(("columns", "logits"), [(1, 3), (3, 2), (1, 1)])
def test_a_table_of_other_classes_than_the_model_is_refused(columns: int, logits: int) -> None:
    teacher = Teacher(torch.ones(4, columns) / columns)
    rows = Rows(torch.zeros(4, logits), torch.arange(4))
    with pytest.raises(
        ValueError, match=rf"model's {max(2, logits)} classes; got {columns}\. Order"
    ):
        teacher(lambda x: x, rows)


def test_a_word_is_not_taken_for_true() -> None:
    with pytest.raises(TypeError, match="hard must be True or False; got 'no'"):
        Teacher(Q, hard="no")  # type: ignore[arg-type]

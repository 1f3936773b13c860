"""From scores and labels to a risk, against the formulas in Python floats."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from dessl.functional import cross_entropy, cross_entropy_to
from dessl.objective import objective
from dessl.surrogates import Entropy, Rows, Scores

GENERATOR = torch.Generator().manual_seed(0)
LOGITS = torch.randn(2, 7, 3, generator=GENERATOR, dtype=torch.float64)
H = torch.rand(7, generator=GENERATOR, dtype=torch.float64)
SCORES = Scores(H, LOGITS)
Y = torch.tensor([2, 0, 1])
N_L, LAM = 3, 0.7


def losses() -> list[float]:
    """L of each labelled row: the mean of −log p(y) over the two views."""
    found = []
    for row, label in enumerate(Y.tolist()):
        values = []
        for view in LOGITS:
            weights = [math.exp(v) for v in view[row].tolist()]
            values.append(-math.log(weights[label] / sum(weights)))
        found.append(sum(values) / len(values))
    return found


def mean(values: list[float], weights: list[float] | None = None) -> float:
    weights = [1.0] * len(values) if weights is None else weights
    return sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights)


def value(**options: Any) -> float:
    return float(objective(SCORES, Y, LAM, **options).value)


def test_the_three_risks() -> None:
    h = H.tolist()
    loss, labelled, unlabelled = mean(losses()), mean(h[:N_L]), mean(h[N_L:])
    assert value(risk="complete_case") == pytest.approx(loss)
    assert value(risk="ssl") == pytest.approx(loss + LAM * unlabelled)
    assert value(risk="debiased") == pytest.approx(loss + LAM * (unlabelled - labelled))
    assert value() == value(risk="debiased")


def test_the_parts_are_those_of_the_risk() -> None:
    found = objective(SCORES, Y, LAM)
    assert float(found.loss) == pytest.approx(mean(losses()))
    assert float(found.h_labelled) == pytest.approx(float(H[:N_L].mean()))
    assert float(found.h_unlabelled) == pytest.approx(float(H[N_L:].mean()))


def test_h_on_all_rows() -> None:
    h = H.tolist()
    assert value(on="all") == pytest.approx(mean(losses()) + LAM * (mean(h) - mean(h[:N_L])))


def test_the_nonnegative_bound() -> None:
    h, lam = H.tolist(), 50.0
    found = float(objective(SCORES, Y, lam, bound="nonnegative").value)
    kept = max(0.0, mean(losses()) - lam * mean(h[:N_L]))
    assert kept == 0
    assert found == pytest.approx(lam * mean(h[N_L:]))
    small = 0.01
    both = [objective(SCORES, Y, small, bound=bound).value for bound in (None, "nonnegative")]
    torch.testing.assert_close(*both)


@pytest.mark.parametrize("risk", ["complete_case", "ssl", "debiased"])
def test_weights(risk: str) -> None:
    h, w_l, w_u = H.tolist(), [0.5, 2.0, 1.0], [1.0, 0.0, 3.0, 0.2]
    expected = mean(losses(), w_l)
    if risk != "complete_case":
        expected += LAM * mean(h[N_L:], w_u)
    if risk == "debiased":
        expected -= LAM * mean(h[:N_L], w_l)
    found = value(
        risk=risk, weights_labelled=torch.tensor(w_l), weights_unlabelled=torch.tensor(w_u)
    )
    assert found == pytest.approx(expected)


def test_another_loss_is_averaged_over_the_views_too() -> None:
    def brier(logits: Tensor, y: Tensor) -> Tensor:
        return (logits.softmax(-1) - torch.nn.functional.one_hot(y, 3)).square().sum(-1)

    expected = sum(float(brier(view[:N_L], Y).mean()) for view in LOGITS) / 2
    assert value(risk="complete_case", loss=brier) == pytest.approx(expected)


def test_all_rows_labelled_is_the_complete_case_alone() -> None:
    y = torch.tensor([0, 1, 2, 0, 1, 2, 0])
    expected = sum(float(cross_entropy(view, y).mean()) for view in LOGITS) / 2
    found = objective(SCORES, y, risk="complete_case").value
    assert float(found) == pytest.approx(expected)


def test_gradients_go_through_l_and_both_sides_of_h() -> None:
    x = torch.randn(5, 3, dtype=torch.float64, requires_grad=True)
    scores = Entropy()(lambda x: x, Rows(x, torch.arange(5)))
    objective(scores, torch.tensor([0, 1]), 0.5).value.backward()
    assert x.grad is not None
    assert (x.grad.abs().sum(1) > 0).all()


def test_lambda_may_be_a_tensor() -> None:
    torch.testing.assert_close(
        objective(SCORES, Y, torch.tensor(LAM, dtype=torch.float64)).value,
        objective(SCORES, Y, LAM).value,
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"risk": "biased"}, "risk must be one of 'complete_case', 'ssl', 'debiased'"),
        ({"risk": "ssl", "on": "all"}, "on requires risk='debiased'; got risk='ssl'"),
        ({"risk": "ssl", "bound": "nonnegative"}, "bound requires risk='debiased'"),
        ({"risk": "inverse_propensity"}, "needs propensity"),
        ({"propensity": Y}, "propensity requires risk='inverse_propensity'"),
        (
            {"risk": "inverse_propensity", "propensity": Y, "weights_labelled": Y},
            "weights_labelled requires risk='complete_case' or 'ssl' or 'debiased'",
        ),
        ({"on": "some"}, "on must be one of"),
        ({"bound": "positive"}, "bound must be one of"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        objective(SCORES, Y, LAM, **options)


@pytest.mark.parametrize(
    ("scores", "y", "message"),
    [
        (Scores(H, LOGITS[0]), Y, r"logits \(views, n, classes\).*got \(7,\) and \(7, 3\)"),
        (Scores(H[:4], LOGITS), Y, r"of the same rows; got \(4,\)"),
        (Scores(H[:, None], LOGITS), Y, r"must hold h \(n,\) .*got \(7, 1\)"),
        (Scores(H, LOGITS[:0]), Y, r"got \(7,\) and \(0, 7, 3\)"),
        (SCORES, [0, 1], "y must be a tensor.*got list"),
        (SCORES, torch.tensor([], dtype=torch.long), "at least one and at most 7"),
        (SCORES, torch.zeros(8, dtype=torch.long), r"at most 7; got shape \(8,\)"),
        (SCORES, torch.zeros(3, 1, dtype=torch.long), r"of shape \(3, 1\)"),
        (SCORES, torch.tensor([0, 1, -1]), r"Rows without a label \(-1\) have no loss"),
    ],
)
def test_scores_and_labels_that_do_not_fit_are_refused(
    scores: Scores, y: Tensor, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        objective(scores, y)


def test_a_loss_that_returns_no_tensor_is_refused() -> None:
    with pytest.raises(TypeError, match="loss must return a tensor"):
        objective(SCORES, Y, loss=lambda logits, y: 1.0)  # type: ignore[arg-type, return-value]


def test_soft_labels_are_taken_with_their_loss() -> None:
    h = torch.tensor([0.1, 0.4, 0.3, 0.8])
    logits = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(0))
    q = torch.tensor([[0.2, 0.5, 0.3], [1.0, 0.0, 0.0]])
    found = objective(Scores(h, logits), q, lam=0.5, loss=cross_entropy_to)
    loss = -(q * logits[:, :2].log_softmax(-1)).sum(-1).mean()
    torch.testing.assert_close(found.value, loss + 0.5 * (0.55 - 0.25))
    hard = objective(Scores(h, logits), torch.tensor([2, 0]), lam=0.5)
    one_hot = torch.nn.functional.one_hot(torch.tensor([2, 0]), 3)
    soft = objective(Scores(h, logits), one_hot, lam=0.5, loss=cross_entropy_to)
    torch.testing.assert_close(soft.value, hard.value)


def test_soft_labels_and_plain_terms_are_refused_with_advice() -> None:
    scores = Scores(torch.zeros(4), torch.zeros(1, 4, 3))
    with pytest.raises(ValueError, match=r"in dessl\.objective, loss=cross_entropy_to"):
        objective(scores, torch.full((2, 3), 1 / 3))
    with pytest.raises(TypeError, match=r"Scores\(h, logits\); got Tensor"):
        objective(torch.zeros(4), torch.tensor([0]))

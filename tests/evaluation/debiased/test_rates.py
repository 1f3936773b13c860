"""Rates as means of influences: values against scikit-learn, influences against the bootstrap."""

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn import metrics as sk

from dessl.evaluation import NarrowIntervalWarning, estimate_metric
from dessl.evaluation.debiased.rates import RATES, rate_metric


def wanted(name: str, p: np.ndarray, y: np.ndarray) -> float:
    said, score = p.argmax(1), p[:, 1]
    return {
        "balanced_accuracy": lambda: sk.balanced_accuracy_score(y, said),
        "macro_f1": lambda: sk.f1_score(y, said, average="macro"),
        "auc": lambda: sk.roc_auc_score(y == 1, score),
        "recall": lambda: sk.recall_score(y == 1, said == 1),
        "precision": lambda: sk.precision_score(y == 1, said == 1),
        "tpr": lambda: sk.recall_score(y == 1, score >= 0.3),
        "fpr": lambda: sk.recall_score(y != 1, score >= 0.3),
    }[name]()


def options(name: str) -> dict[str, float]:
    chosen = {} if name in ("balanced_accuracy", "macro_f1") else {"positive": 1}
    return {**chosen, "threshold": 0.3} if name in ("tpr", "fpr") else chosen


@pytest.mark.parametrize("name", RATES)
def test_the_value_is_that_of_scikit_learn(name: str, predictions) -> None:
    p, y = predictions(n=80)
    estimate = estimate_metric(name, p, y, **options(name))
    assert estimate.value == pytest.approx(wanted(name, p.numpy(), y.numpy()))
    assert 0 <= estimate.low < estimate.value < estimate.high <= 1


@pytest.mark.parametrize("name", RATES)
def test_the_influence_is_the_derivative_by_a_rows_weight(name: str, predictions) -> None:
    p, y = predictions(n=40)
    metric, _ = rate_metric(name, p, y, **options(name))
    influence = metric.values(p)[torch.arange(40), y]
    step = 1e-6
    value = float(influence.mean())
    for row in (0, 7, 23):
        weights = torch.full((40,), 1 / 40, dtype=torch.float64)
        weights[row] += step
        moved, _ = rate_metric(name, p, y, weights=weights, **options(name))
        heavier = weights / weights.sum()
        theta = float((heavier * moved.values(p)[torch.arange(40), y]).sum())
        # A row of weight 1/n + ε in a total of 1 + ε moves the rate by ε ψ.
        assert (theta - value) / step == pytest.approx(float(influence[row]) - value, abs=1e-4)


def test_the_macro_auc_of_three_classes_is_the_mean(predictions) -> None:
    p, y = predictions(n=90)
    expected = sk.roc_auc_score(y, p, multi_class="ovr", average="macro")
    assert estimate_metric("auc", p, y).value == pytest.approx(expected)


def test_an_auc_has_the_bounds_of_its_logit() -> None:
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], [60, 15])
    score = rng.beta(2 + y, 2)
    found = estimate_metric("auc", np.stack([1 - score, score], axis=1), y)
    wins = (score[y == 1][:, None] > score[y == 0]).mean
    auc = wins()
    off = np.concatenate([(wins(0) - auc) * 75 / 60, (wins(1) - auc) * 75 / 15])
    error = np.sqrt((off**2).sum() / 74 / 75 * 15 / 14)
    half = stats.t.ppf(0.975, 14) * error / (auc * (1 - auc))
    odds = np.log(auc / (1 - auc)) + np.array([-half, half])
    assert (found.low, found.high) == pytest.approx(tuple(1 / (1 + np.exp(-odds))))


def test_a_labelled_row_is_left_out_of_the_ranks_that_its_own_is_compared_with() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 30)
    score = rng.random(30)
    p = np.stack([1 - score, score], axis=1)
    metric, _ = rate_metric("auc", p, y)
    theta, share = sk.roc_auc_score(y, score), y.mean()
    for i in range(30):
        others = np.arange(30) != i
        below = [(score[others & (y == k)] < score[i]).mean() for k in (0, 1)]
        psi = theta + np.array([(1 - below[1] - theta) / (1 - share), (below[0] - theta) / share])
        # At its own label a row is compared with rows of the other class only.
        told = metric.values(torch.as_tensor(p[i : i + 1]))[0] + metric.left_out[i]
        assert told.numpy() == pytest.approx(psi)


@pytest.mark.parametrize("name", ["recall", "balanced_accuracy", "macro_f1"])
def test_unlabelled_rows_shorten_the_interval(name: str, predictions) -> None:
    p, y = predictions(n=200)
    others, _ = predictions(n=4000, seed=1)
    estimate = estimate_metric(name, p, y, others, **options(name))
    alone = estimate.labelled_only
    assert estimate.high - estimate.low < 0.97 * (alone.high - alone.low)


def test_a_recall_of_rows_that_are_all_hit_has_the_exact_bound() -> None:
    p = torch.tensor([[0.1, 0.9]] * 20 + [[0.9, 0.1]] * 30)
    y = [1] * 20 + [0] * 30
    estimate = estimate_metric("recall", p, y, alternative="larger")
    assert estimate.low == pytest.approx(0.05 ** (1 / 20))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"metric": "recall"}, r"for one class, and there are 3.*positive="),
        ({"metric": "tpr", "positive": 1}, "needs a threshold"),
        ({"metric": "macro_f1", "positive": 1}, "over all classes; omit positive"),
        ({"metric": "recall", "positive": 1, "threshold": 0.5}, "no threshold"),
        ({"metric": "recall", "positive": 3}, "positive must"),
        ({"metric": "accuracy", "positive": 1}, "a mean over all rows; omit positive"),
        ({"metric": "kappa"}, r"metric must be one of .*'auc'"),
        ({"metric": "wins"}, "metric must be one of"),
    ],
)
def test_errors_say_what_to_do(change, complaint, predictions) -> None:
    p, y = predictions()
    with pytest.raises(ValueError, match=complaint):
        estimate_metric(**{"probabilities_labelled": p, "y": y, **change})


def test_an_average_over_classes_needs_rows_of_each(predictions) -> None:
    p, y = predictions()
    with pytest.raises(ValueError, match="needs labelled rows of class 2; got none"):
        estimate_metric("macro_f1", p[y != 2], y[y != 2])


def test_a_rate_of_one_with_unequal_weights_has_bounds() -> None:
    p = torch.tensor([[0.1, 0.9]] * 20 + [[0.9, 0.1]] * 30)
    y = [1] * 20 + [0] * 30
    chances = np.random.default_rng(0).uniform(0.1, 0.9, 50)
    for name in ("recall", "auc", "macro_f1", "balanced_accuracy", "precision"):
        estimate = estimate_metric(name, p, y, p, propensity=chances, check_shift=False)
        assert estimate.value == pytest.approx(1)
        assert 0.5 < estimate.low < 0.99
        assert estimate.high == pytest.approx(1)


def test_a_class_that_is_never_found_is_warned_of() -> None:
    p = np.tile([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1]], (15, 1))
    y = np.where(np.arange(30) == 0, 2, np.arange(30) % 2)
    with pytest.warns(NarrowIntervalWarning, match="no labelled row of class 2 is predicted"):
        estimate_metric("macro_f1", p, y)


def test_influences_are_computed_where_the_predictions_are(predictions) -> None:
    p, y = predictions(n=80)
    metric, _ = rate_metric("auc", p, y, positive=1)
    assert metric.values(p.double().to("meta")).device.type == "meta"

import math

import numpy as np
import pytest
import torch

from dessl.evaluation.debiased import proxies
from dessl.evaluation.debiased.proxies import CLIP, METRICS, sampled
from dessl.evaluation.metrics import accuracy, brier, cross_entropy


def by_hand(name: str, p: np.ndarray, label: int) -> float:
    """L of one row, written out."""
    if name == "accuracy":
        return float(p.argmax() == label)
    if name == "error":
        return float(p.argmax() != label)
    if name == "brier":
        return sum((p[k] - (k == label)) ** 2 for k in range(len(p)))
    return min(-math.log(p[label]), CLIP)


@pytest.mark.parametrize("name", METRICS)
def test_losses_beliefs_and_moments_are_sums_over_labels(name, predictions) -> None:
    p, y = predictions(n=7)
    metric = METRICS[name]
    sample = sampled(metric, (p,), y, ())
    for row in range(7):
        q = p[row].numpy()
        values = [by_hand(name, q, label) for label in range(3)]
        law = (1 - metric.surprise) * q + metric.surprise / 3
        assert sample.loss[row].item() == pytest.approx(values[y[row]])
        assert sample.labelled.h[row].item() == pytest.approx(np.dot(q, values))
        for k in (1, 2, 3):
            expected = sum(law[label] * values[label] ** k for label in range(3))
            assert sample.labelled.moments[k - 1, row].item() == pytest.approx(expected)


def test_closed_forms_of_the_proxies(predictions) -> None:
    p, y = predictions()
    h = {name: sampled(METRICS[name], (p,), y, ()).labelled.h for name in METRICS}
    torch.testing.assert_close(h["accuracy"], p.amax(1))
    torch.testing.assert_close(h["error"], 1 - p.amax(1))
    torch.testing.assert_close(h["brier"], 1 - p.square().sum(1))
    torch.testing.assert_close(h["cross_entropy"], -(p * p.log().clamp(min=-CLIP)).sum(1))


def test_mean_losses_are_the_metrics(predictions) -> None:
    p, y = predictions()
    for name, value in (
        ("accuracy", accuracy(p, y)),
        ("brier", brier(p, y)),
    ):
        assert sampled(METRICS[name], (p,), y, ()).loss.mean().item() == pytest.approx(value)
    p = 0.9 * p + 0.1 / 3  # no loss above the cap
    loss = sampled(METRICS["cross_entropy"], (p,), y, ()).loss
    assert loss.mean().item() == pytest.approx(cross_entropy(p, y))


@pytest.mark.parametrize("name", ["accuracy", "brier"])
def test_two_models_losses_are_subtracted(name, predictions) -> None:
    (a, y), (b, _) = predictions(), predictions(seed=1)
    both = sampled(METRICS[name], (a, b), y, (a, b))
    one, other = (sampled(METRICS[name], (p,), y, ()) for p in (a, b))
    torch.testing.assert_close(both.loss, one.loss - other.loss)
    if name == "brier":
        torch.testing.assert_close(both.unlabelled.h, one.labelled.h - other.labelled.h)
    else:
        agree = a.argmax(1) == b.argmax(1)
        assert (both.labelled.h[agree] == 0).all()
        assert (both.labelled.h[~agree] != 0).any()


def test_blocks_of_rows_make_no_difference(predictions, monkeypatch) -> None:
    p, y = predictions(n=50)
    whole = sampled(METRICS["brier"], (p,), y, (p,))
    monkeypatch.setattr(proxies, "ENTRIES_AT_A_TIME", 21)
    parts = sampled(METRICS["brier"], (p,), y, (p,))
    torch.testing.assert_close(whole.loss, parts.loss)
    torch.testing.assert_close(whole.unlabelled.moments, parts.unlabelled.moments)
    bad = p.clone()
    bad[10] /= 2
    with pytest.raises(ValueError, match=r"counted from row 7: .*row 3 sums to 0.5"):
        sampled(METRICS["brier"], (p,), y, (bad,))


def test_arrays_lists_and_tensors_are_alike(predictions) -> None:
    p, y = predictions(n=5)
    tensor = sampled(METRICS["brier"], (p,), y, ()).loss
    read_only = p.numpy().copy()
    read_only.flags.writeable = False
    torch.testing.assert_close(sampled(METRICS["brier"], (read_only,), y, ()).loss, tensor)
    torch.testing.assert_close(sampled(METRICS["brier"], (p.numpy(),), y.numpy(), ()).loss, tensor)
    turned = sampled(METRICS["brier"], (p.numpy()[::-1],), y.numpy()[::-1], ()).loss
    torch.testing.assert_close(turned.flip(0), tensor)
    torch.testing.assert_close(
        sampled(METRICS["brier"], (p.tolist(),), y.tolist(), ()).loss, tensor
    )


def test_a_probability_of_zero_costs_no_more_than_the_cap() -> None:
    p = torch.tensor([[1.0, 0.0], [0.5, 0.5], [0.25, 0.75]])
    sample = sampled(METRICS["cross_entropy"], (p,), [0, 1, 1], ())
    assert sample.labelled.h[0] == 0
    assert sampled(METRICS["cross_entropy"], (p,), [1, 1, 1], ()).loss[0] == CLIP


def test_probabilities_that_are_no_numbers_are_refused() -> None:
    words = np.array([["a", "b"]] * 4, dtype=object)
    with pytest.raises(TypeError, match="labelled rows must be an array"):
        sampled(METRICS["brier"], (words,), [0] * 4, ())

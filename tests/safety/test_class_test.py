"""The likelihood-ratio test of label-dependent missingness, against an independent maximum."""

import numpy as np
import pytest
import torch

from dessl.safety.answers import fold_answers
from dessl.safety.class_test import _Likelihood, class_test


def drawn(phi: list[float], n: int = 3000, seed: int = 0) -> tuple[torch.Tensor, ...]:
    generator = np.random.default_rng(seed)
    y = generator.integers(0, len(phi), n)
    x = generator.normal(size=(n, 3))
    x[:, 0] += 2 * y
    x[:, 1] += 2 * (y == 1)
    labelled = generator.random(n) < np.array(phi)[y]
    return torch.from_numpy(x).float(), torch.from_numpy(y), torch.from_numpy(labelled)


def test_the_gradient_is_that_of_the_value() -> None:
    x, y, labelled = drawn([0.3, 0.2, 0.1], 400)
    answers = fold_answers(x, y[labelled], labelled.numpy(), 3)
    problem = _Likelihood.of(answers.log_p, y[labelled], labelled.numpy(), np.arange(3))
    at = np.array([0.8, 0.1, -0.3, -1.0, -1.4, -2.0])
    value, gradient = problem.value_and_gradient(at)
    # The likelihood row by row, in plain loops.
    phi, total = 1 / (1 + np.exp(-at[3:])), 0.0
    scores = answers.log_p.numpy()
    for row in range(len(y)):
        logits = at[0] * scores[row] + np.array([0, at[1], at[2]])
        p = np.exp(logits) / np.exp(logits).sum()
        k = int(y[row])
        total += np.log(p[k] * phi[k]) if labelled[row] else np.log(((1 - phi) * p).sum())
    assert value == pytest.approx(-total)
    for place in range(6):
        step = 1e-5 * np.eye(6)[place]
        high, low = (problem.value_and_gradient(at + s * step)[0] for s in (1, -1))
        assert gradient[place] == pytest.approx((high - low) / 2e-5, rel=1e-4, abs=1e-5)


def test_the_maximum_is_a_fixed_point_of_em() -> None:
    x, y, labelled = drawn([0.3, 0.2, 0.1], 1500)
    marks = labelled.numpy()
    answers = fold_answers(x, y[labelled], marks, 3)
    found = class_test(answers.log_p, y[labelled], marks)
    assert found is not None
    problem = _Likelihood.of(answers.log_p, y[labelled], marks, np.arange(3))
    slope, *shift = problem.full(problem.null().parameters).parameters[:3]
    logits = slope * answers.log_p.numpy()[~marks] + np.array([0, *shift])
    joint = np.exp(logits) / np.exp(logits).sum(1, keepdims=True) * (1 - found.propensity)
    posterior = (joint / joint.sum(1, keepdims=True)).sum(0)
    counts = y[labelled].bincount().numpy()
    np.testing.assert_allclose(found.propensity, counts / (counts + posterior), rtol=1e-3)


def test_dependence_on_the_class_is_found_and_its_size_estimated() -> None:
    phi = [0.4, 0.1, 0.03]
    x, y, labelled = drawn(phi, 6000)
    answers = fold_answers(x, y[labelled], labelled.numpy(), 3)
    found = class_test(answers.log_p, y[labelled], labelled.numpy())
    assert found is not None
    assert found.p_value < 1e-6
    assert found.degrees == 2
    assert (np.abs(found.propensity - phi) < 3 * found.standard_error).all()
    assert (found.standard_error < 0.02).all()


def test_equal_chances_are_not_refused() -> None:
    """Its size over 500 simulations is in benchmarks/results/audit.json."""
    found = []
    for seed in range(12):
        x, y, labelled = drawn([0.2, 0.2], 400, seed)
        answers = fold_answers(x, y[labelled], labelled.numpy(), 2, seed=seed)
        test = class_test(answers.log_p, y[labelled], labelled.numpy())
        assert test is not None
        found.append(test.p_value)
    assert (np.array(found) <= 0.1).mean() < 0.4
    assert (np.array(found) <= 0.5).mean() > 0.1


def test_too_few_labels_give_no_test() -> None:
    x, y, _ = drawn([0.5, 0.5], 50)
    labelled = np.arange(50) < 4
    answers = fold_answers(x, y[:4], labelled, 2, folds=2)
    assert class_test(answers.log_p, torch.tensor([0, 0, 0, 1]), labelled) is None

"""The populations of benchmarks/coverage: rows with a label and a model's probabilities."""

import os
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[np.float64]

HELD_OUT = " (held out)"


class Population(NamedTuple):
    """Rows to draw from: probabilities (n, classes) and labels (n,)."""

    name: str
    probabilities: Tensor
    y: Tensor


def simulated(name: str, accuracy: float, temperature: float = 1.0) -> Population:
    """Five Gaussian classes, moved apart until the right accuracy; temperature 1 is calibrated."""
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(5, (40_000,), generator=generator)
    noise = torch.randn(40_000, 5, generator=generator, dtype=torch.float64)
    true = torch.nn.functional.one_hot(y, 5)
    low, high = 0.0, 10.0
    for _ in range(40):
        middle = (low + high) / 2
        right = float(((noise + middle * true).argmax(1) == y).double().mean())
        low, high = (middle, high) if right < accuracy else (low, middle)
    logits = low * (noise + low * true)  # the exact posterior of x = noise + low · e_y
    return Population(name, torch.softmax(logits / temperature, dim=1), y)


def useless(name: str, accuracy: float) -> Population:
    """Confidences that say nothing of who is right."""
    generator = np.random.default_rng(0)
    p = torch.as_tensor(generator.dirichlet([0.3] * 5, 40_000))
    wrong = torch.as_tensor(generator.random(40_000) > accuracy)
    return Population(name, p, (p.argmax(1) + wrong) % 5)


def timid(name: str) -> Population:
    """Three classes; half the rows are nearly all right, and half nearly all wrong but unsure."""
    generator = np.random.default_rng(0)
    sure = generator.random(40_000) < 0.5
    top = np.where(sure, 0.95, 0.4)
    right = generator.random(40_000) < np.where(sure, 0.99, 0.03)
    y = np.where(right, 0, 1 + generator.integers(2, size=40_000))
    p = np.stack([top, (1 - top) / 2, (1 - top) / 2], axis=1)
    return Population(name, torch.as_tensor(p), torch.as_tensor(y))


def thin_tail(name: str) -> Population:
    """Two classes; a model that is timid about all rows but one in fifty, of which it is sure."""
    generator = np.random.default_rng(0)
    kind = generator.choice(3, 40_000, p=(0.49, 0.49, 0.02))
    top = np.array([0.51, 0.53, 0.99])[kind]
    right = generator.random(40_000) < np.array([0.5, 0.95, 0.95])[kind]
    p = np.stack([top, 1 - top], axis=1)
    return Population(name, torch.as_tensor(p), torch.as_tensor(1 - right.astype(np.int64)))


def real(smoke: bool) -> Iterator[Population]:
    """Predictions on rows that the models were not trained on: digits, and MNIST where it is."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.neural_network import MLPClassifier

    from dessl.data import load

    digits = load("digits")
    order = torch.randperm(len(digits.y), generator=torch.Generator().manual_seed(0))
    x, y = _pixels(digits.x[order]), digits.y[order].numpy()
    logistic = LogisticRegression(max_iter=2000)
    yield predicted("digits, logistic, 60 rows", logistic, x[:60], y[:60], x[60:], y[60:])
    if smoke:
        return
    yield predicted("digits, logistic, 200 rows", logistic, x[:200], y[:200], x[200:], y[200:])
    network = MLPClassifier((64,), max_iter=1000, random_state=0)
    yield predicted("digits, MLP, 200 rows", network, x[:200], y[:200], x[200:], y[200:])
    if "DESSL_DATA" not in os.environ:
        print("DESSL_DATA is not set: MNIST and the held-out sets are left out.")
        return
    mnist = load("mnist", download=False)
    x, y = _pixels(mnist.x[:30_000]), mnist.y[:30_000].numpy()
    test = (_pixels(mnist.test.x), mnist.test.y.numpy())
    yield predicted("MNIST, logistic, 1,000 rows", logistic, x[:1000], y[:1000], *test)
    network = MLPClassifier((64,), max_iter=40, random_state=0)
    yield predicted("MNIST, MLP, 5,000 rows", network, x[:5000], y[:5000], *test)
    network = MLPClassifier((128,), max_iter=12, random_state=0)
    yield predicted("MNIST, MLP, 30,000 rows", network, x, y, *test)


def other_sets() -> Iterator[Population]:
    """More data; of what is marked as held out, nothing was seen when the intervals were made."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression

    from dessl.data import load

    forest = RandomForestClassifier(200, random_state=0)
    logistic = LogisticRegression(max_iter=2000)
    for name, rows, model, mark in (
        ("pneumoniamnist", 500, logistic, ""),
        ("retinamnist", 300, forest, ""),
        ("cifar10", 5000, forest, ""),
        ("dermamnist", 1000, logistic, HELD_OUT),
        ("bloodmnist", 3000, forest, HELD_OUT),
    ):
        data = load(name, download=False)
        x, y = _pixels(data.x[:20_000]), data.y[:20_000].numpy()
        kind = "logistic" if model is logistic else "forest"
        title = f"{data.name}, {kind}, {rows:,} rows{mark}"
        yield predicted(title, model, x[:rows], y[:rows], x[rows:], y[rows:])


def predicted(name: str, model: Any, x: Array, y: Array, x_new: Array, y_new: Array) -> Population:
    """The model's probabilities of new rows, trained on others."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a network that stops before it has converged will do
        model.fit(x, y)
    p = torch.as_tensor(model.predict_proba(x_new), dtype=torch.float64)
    return Population(name, p, torch.as_tensor(y_new).long())


def _pixels(x: Tensor) -> Array:
    flat = x.reshape(len(x), -1).double().numpy()
    return flat / flat.max()


def populations(smoke: bool) -> Iterator[Population]:
    """All of them, or two of them."""
    yield simulated("simulated, calibrated", 0.85)
    if not smoke:
        yield simulated("simulated, over-confident", 0.85, temperature=0.3)
        yield useless("simulated, H useless", 0.85)
        yield simulated("simulated, nearly always right", 0.98)
        yield simulated("simulated, timid", 0.95, temperature=2.0)
        yield timid("simulated, timid, two kinds of rows")
        yield thin_tail("simulated, timid, sure of few rows")
    yield from real(smoke)
    if not smoke and "DESSL_DATA" in os.environ:
        yield from other_sets()

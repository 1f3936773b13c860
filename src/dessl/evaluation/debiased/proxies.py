"""Each row's metric L, and its expectation under the model: H = E[L | p] with y drawn from p.

    accuracy   L = 1[arg max p = y]      H = max p
    error      L = 1[arg max p ≠ y]      H = 1 − max p
    brier      L = Σ_k (p_k − 1[k=y])²   H = 1 − Σ_k p_k²
    cross_entropy   L = min(−log p_y, clip)   H = Σ_k p_k min(−log p_k, clip)

If a loss is unbounded, a sample says nothing about rare large values that it does not contain, so
no interval for a mean of −log p_y is valid. Each row's loss is therefore capped at ``clip``, by
default −log 0.01.

H needs no label and is L's conditional mean if the model is calibrated; calibration is not assumed
here.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dessl import _checks
from dessl._checks import ArrayLike
from dessl.evaluation.metrics.predictions import checked_labels, checked_probabilities
from dessl.evaluation.metrics.scoring import true_class

MeanName = Literal["accuracy", "error", "brier", "cross_entropy"]
RateName = Literal["balanced_accuracy", "macro_f1", "auc", "recall", "precision", "tpr", "fpr"]
MetricName = MeanName | RateName

CLIP = -math.log(0.01)  # the largest cross-entropy of a row, by default

ENTRIES_AT_A_TIME = 2**19  # entries of a probability matrix; a large one is never copied in full


class Metric(NamedTuple):
    """A metric of one row, as a function of its possible label.

    Attributes:
        values: Probabilities (n, classes) → L of each row for each possible label, same shape.
        low: Minimum of L.
        high: Maximum of L.
        binary: Whether L is 0 or 1.
        surprise: Share of labels drawn uniformly over the classes, not from p, when the model's
            moments of L are computed, because a model may be overconfident.
        smooth: Whether the metric is not a mean but a smooth function of means in [0, 1], and L its
            value plus each row's influence (:mod:`dessl.evaluation.debiased.rates`).
        share: Whether it is a share of some rows, such as a recall, rather than an average of
            several or an AUC, whose variance is less certain.
        heavy: Whether a row's L may be many times the mean, as for a cross-entropy.
        logit: Whether bounds are computed on the logit scale, as for an AUC.
        left_out: Correction added to L in the H of the labelled rows, for each possible label,
            (m, classes): it leaves the row itself out where L depends on single labelled rows.
        pair: For two models, probabilities of both → L of each row for each possible label; None if
            that is the difference of the models' own values.
        units: Number of groups that a rate is based on, if rows have groups; for a recall, those
            with rows of its class.
    """

    values: Callable[[Tensor], Tensor]
    low: float
    high: float
    binary: bool
    surprise: float
    smooth: bool = False
    share: bool = True
    heavy: bool = False
    logit: bool = False
    left_out: Tensor | None = None
    pair: Callable[[Tensor, Tensor], Tensor] | None = None
    units: float = math.inf


def _hits(p: Tensor) -> Tensor:
    return torch.zeros_like(p).scatter_(1, p.argmax(dim=1, keepdim=True), 1.0)


METRICS: dict[str, Metric] = {
    "accuracy": Metric(_hits, 0.0, 1.0, binary=True, surprise=0.02),
    "error": Metric(lambda p: 1 - _hits(p), 0.0, 1.0, binary=True, surprise=0.02),
    "brier": Metric(
        lambda p: 1 + p.square().sum(dim=1, keepdim=True) - 2 * p,
        0.0,
        2.0,
        binary=False,
        surprise=0.02,
    ),
    "cross_entropy": Metric(
        lambda p: (-torch.log(p)).clamp(max=CLIP),
        0.0,
        CLIP,
        binary=False,
        surprise=0.02,
        heavy=True,
    ),
}


class Proxies(NamedTuple):
    """The model's expectations for rows, without using their labels.

    Attributes:
        h: H, shape (n,).
        moments: E[L], E[L²], E[L³] with the label drawn from p, mixed with uniform labels by the
            metric's ``surprise``; shape (3, n).
        predicted: Predicted classes, (n,); for two models, also whether they agree.
    """

    h: Tensor
    moments: Tensor
    predicted: Tensor | None = None


class Sample(NamedTuple):
    """The inputs of an estimate.

    Attributes:
        loss: L of the labelled rows, (m,).
        labelled: Their proxies.
        unlabelled: Proxies of the other rows.
        labels: Number of labels that the metric is based on: m, except for rates; for a recall, the
            rows of its class.
    """

    loss: Tensor
    labelled: Proxies
    unlabelled: Proxies
    labels: float | None = None

    @property
    def n_labels(self) -> float:
        """The number of labels that the metric is based on."""
        return float(len(self.loss)) if self.labels is None else self.labels

    @property
    def every_h(self) -> Tensor:
        """H of the labelled and then the unlabelled rows, (m + n_u,)."""
        return torch.cat([self.labelled.h, self.unlabelled.h])

    @property
    def alone(self) -> "Sample":
        """The labelled rows only."""
        none = Proxies(self.unlabelled.h[:0], self.unlabelled.moments[:, :0])
        return self._replace(unlabelled=none)


Matrix: TypeAlias = "Tensor | NDArray[Any]"
Matrices = tuple[ArrayLike, ...]  # probabilities of one model, or of two to compare


def capped_cross_entropy(clip: float) -> Metric:
    """The cross-entropy with each row's loss at most ``clip``.

    >>> capped_cross_entropy(2.0).values(torch.tensor([[0.5, 0.5], [0.0, 1.0]])).tolist()
    [[0.6931471824645996, 0.6931471824645996], [2.0, -0.0]]
    """
    return METRICS["cross_entropy"]._replace(
        values=lambda p: (-torch.log(p)).clamp(max=clip), high=clip
    )


def sampled(metric: Metric, labelled: Matrices, y: ArrayLike, unlabelled: Matrices) -> Sample:
    """L and proxies of one model, or of the difference between two, in float64 on the CPU.

    Args:
        metric: One of :data:`METRICS`.
        labelled: Probabilities of the m labelled rows, one matrix (m, classes) per model.
        y: Their labels, (m,), m ≥ 3.
        unlabelled: Probabilities of the other rows, one matrix (n_u, classes) per model, or ().

    >>> sample = sampled(METRICS["brier"], ([[0.5, 0.5], [1.0, 0.0], [0.2, 0.8]],), [0, 0, 0], ())
    >>> sample.loss
    tensor([0.5000, 0.0000, 1.2800], dtype=torch.float64)
    >>> sample.labelled.h
    tensor([0.5000, 0.0000, 0.3200], dtype=torch.float64)
    """
    arrays = _matrices("probabilities of labelled rows", labelled)
    rows, classes = arrays[0].shape if arrays else (0, 0)
    if rows < 3:
        raise ValueError(
            f"an interval needs at least 3 labelled rows; got {rows}. Label more rows."
        )
    device = arrays[0].device if isinstance(arrays[0], Tensor) else torch.device("cpu")
    labels = checked_labels(y, rows=rows, classes=classes, device=device)
    values = [
        true_class(_label_values(metric, block), labels[start : start + len(block[0])])
        for start, block in _blocks("probabilities of labelled rows", arrays)
    ]
    others = _matrices("probabilities of unlabelled rows", unlabelled)
    if others and others[0].shape[1] != classes:
        raise ValueError(
            "labelled and unlabelled rows must have the same classes; "
            f"got {classes} and {others[0].shape[1]}."
        )
    own = _proxies(metric, "probabilities of labelled rows", arrays)
    if metric.left_out is not None:
        blocks = _blocks("probabilities of labelled rows", arrays)
        law = torch.cat([torch.stack(block).mean(dim=0) for _, block in blocks]).cpu()
        own = own._replace(h=own.h + _expected(law, metric.left_out))
    return Sample(
        torch.cat(values).cpu(),
        own,
        _proxies(metric, "probabilities of unlabelled rows", others),
    )


def imagined_moments(sample: Sample, beliefs: Tensor) -> tuple[float, float]:
    """Return the central moments E[r²], E[r³] of r = L − B with labels drawn from the model."""
    moments = torch.cat([sample.labelled.moments, sample.unlabelled.moments], dim=1)
    line = beliefs + (moments[0] - beliefs).mean()
    squares, cubes = moments_about(moments, line)
    return max(0.0, float(squares.mean())), float(cubes.mean())


def moments_about(moments: Tensor, line: Tensor) -> tuple[Tensor, Tensor]:
    """E[(L − u)²] and E[(L − u)³] of each row, from E[L], E[L²] and E[L³], (3, n), and u, (n,)."""
    first, second, third = moments
    squares = second - 2 * line * first + line.square()
    cubes = third - 3 * line * second + 3 * line.square() * first - line**3
    return squares, cubes


def _label_values(metric: Metric, block: tuple[Tensor, ...]) -> Tensor:
    """L of each row for each possible label; for two models, the difference."""
    if metric.pair is not None and len(block) == 2:
        return metric.pair(*block)
    values = metric.values(block[0])
    return values - metric.values(block[1]) if len(block) == 2 else values


def _proxies(metric: Metric, name: str, arrays: list[Matrix]) -> Proxies:
    rows = arrays[0].shape[0] if arrays else 0
    # Filled block by block: small results kept between large temporaries would fragment memory.
    h = torch.empty(rows, dtype=torch.float64)
    moments = torch.empty(3, rows, dtype=torch.float64)
    predicted = torch.empty(rows, dtype=torch.int64)
    for start, block in _blocks(name, arrays):
        values = _label_values(metric, block)
        law = torch.stack(block).mean(dim=0)
        surprised = (1 - metric.surprise) * law + metric.surprise / law.shape[1]
        filled = slice(start, start + len(values))
        h[filled] = _believed(metric, block, law, values)
        first = block[0].argmax(dim=1)
        predicted[filled] = (
            first if len(block) == 1 else 2 * first + (block[1].argmax(dim=1) == first)
        )
        for k in (1, 2, 3):
            moments[k - 1, filled] = _expected(surprised, values**k)
    return Proxies(h, moments, predicted)


def _believed(metric: Metric, block: tuple[Tensor, ...], law: Tensor, values: Tensor) -> Tensor:
    """H of one model, or of the difference between two.

    For accuracy and error the label is drawn from the mean of the two models' probabilities: rows
    on which they agree then have H = 0, like L. For the Brier score that difference
    would be zero, so each model uses its own probabilities.
    """
    if len(block) == 1 or metric.binary or metric.pair is not None:
        return _expected(law, values)
    first, second = block
    return _expected(first, metric.values(first)) - _expected(second, metric.values(second))


def _expected(law: Tensor, values: Tensor) -> Tensor:
    """Σ_k law_k values_k of each row."""
    return (law * values).sum(dim=1)


def _blocks(name: str, arrays: list[Matrix]) -> Iterator[tuple[int, tuple[Tensor, ...]]]:
    """Yield checked float64 probabilities in blocks of rows, with each block's first row."""
    rows, classes = arrays[0].shape if arrays else (0, 1)
    step = max(1, ENTRIES_AT_A_TIME // max(1, classes))
    for start in range(0, rows, step):
        parts = (array[start : start + step] for array in arrays)
        try:
            # Arrays are copied: they may be read-only, reversed or memory-mapped.
            block = tuple(
                checked_probabilities(part if isinstance(part, Tensor) else np.array(part))
                for part in parts
            )
        except (TypeError, ValueError) as error:
            place = f", counted from row {start}" if start else ""
            raise type(error)(f"{name}{place}: {error}") from error
        yield start, block


def _matrices(name: str, matrices: Matrices) -> list[Matrix]:
    arrays = [_checks.numbers(name, matrix) for matrix in matrices]
    shapes = [tuple(array.shape) for array in arrays]
    if set(shapes) == {(0,)}:  # empty lists
        return []
    if any(len(shape) != 2 for shape in shapes) or len(set(shapes)) > 1:
        got = " and ".join(str(shape) for shape in shapes)
        raise ValueError(
            f"{name} must have shape (n, classes), the same for all models; got {got}."
        )
    return arrays if shapes and shapes[0][0] else []

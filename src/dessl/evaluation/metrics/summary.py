"""Metrics: all the metrics of one model's predictions on one labelled set, in batches or not."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from dessl import _checks
from dessl._checks import ArrayLike
from dessl._json import json_ready
from dessl.evaluation.metrics.calibration import (
    Reliability,
    bin_edges,
    bin_index,
    binned,
    calibration_error,
    debiased_calibration,
)
from dessl.evaluation.metrics.classification import Confusion
from dessl.evaluation.metrics.predictions import (
    checked_labels,
    checked_logits,
    checked_probabilities,
)
from dessl.evaluation.metrics.ranking import AucHistogram, log_odds
from dessl.evaluation.metrics.scoring import squared_errors, true_class

CELLS_AT_ONCE = 1 << 20  # predictions in float64 at a time: 8 MB for each temporary


@dataclass(frozen=True, eq=False)
class Metrics:
    """All metrics of one model's predictions on n labelled rows; tensors are on the CPU.

    A class missing from y is NaN in ``per_class_accuracy``; ``balanced_accuracy``,
    ``worst_class_accuracy`` and ``auc`` skip it. ``auc`` is NaN if y has only one class.
    ``auc_error`` bounds the error of ``auc``: zero unless it was streamed. ``ece`` has equal-width
    bins and ``adaptive_ece`` equal-mass bins, both in l1; ``debiased_ece`` has equal-mass bins in
    l2 (never below l1 for the same gaps), corrected for the bias from few rows. ``scaled`` has the
    metrics at ``temperature``, if validation rows were given to fit it on; all other fields are for
    the unscaled model.
    """

    n: int
    accuracy: float
    balanced_accuracy: float
    worst_class_accuracy: float
    macro_f1: float
    cross_entropy: float
    brier: float
    ece: float
    adaptive_ece: float
    debiased_ece: float
    auc: float
    auc_error: float
    per_class_accuracy: Tensor  # (classes,)
    class_counts: Tensor  # (classes,)
    confusion: Tensor  # (classes, classes): rows are true classes
    reliability: Reliability
    temperature: float | None = None
    scaled: "Metrics | None" = None

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for JSON: tensors as lists, NaN as None, ∞ as "Infinity".

        ``float("Infinity")`` reads the last one back.
        """
        return {field.name: json_ready(_plain(getattr(self, field.name))) for field in fields(self)}


def _plain(value: Any) -> Any:
    """Convert tensors to lists, and tuples of them to dicts."""
    if isinstance(value, Metrics):
        return value.as_dict()
    if isinstance(value, Reliability):
        return {name: _plain(part) for name, part in value._asdict().items()}
    return value.tolist() if isinstance(value, Tensor) else value


class GrowingVector:
    """A growing tensor (n,) whose capacity doubles.

    A list of small tensors would be scattered over the heap between large temporaries, and keep
    that memory from being released.

    >>> vector = GrowingVector()
    >>> vector.extend(torch.tensor([1.0, 2.0]))
    >>> vector.extend(torch.tensor([3.0]))
    >>> vector.values
    tensor([1., 2., 3.])
    """

    def __init__(self) -> None:
        self._room = torch.empty(0)
        self._n = 0

    def extend(self, values: Tensor) -> None:
        """Append values (k,)."""
        n = self._n + values.shape[0]
        if self._room.shape[0] < n:
            room = values.new_empty(max(2 * n, 1 << 16))
            room[: self._n] = self.values
            self._room = room
        self._room[self._n : n] = values
        self._n = n

    @property
    def values(self) -> Tensor:
        """All values so far, (n,)."""
        return self._room[: self._n]


class StreamingMetrics:
    """Accumulate predictions, then ``compute()`` the Metrics of all of them.

    It keeps the confusion counts, two sums, and each row's confidence and whether it was correct (9
    bytes, with capacity for up to twice as many rows): every metric but the AUC is the same as from
    all rows at once. The exact AUC would need all scores; it is computed from a histogram per class
    instead, and ``Metrics.auc_error`` bounds its error (see ``AucHistogram``).

    Args:
        classes: number of classes.
        inputs: what ``update`` takes, "logits" or "probabilities".
        bins: number of bins of the calibration errors.
        auc_bins: bins per AUC histogram, 16·classes·auc_bins bytes; None skips the AUC (NaN).

    >>> metrics = StreamingMetrics(2, inputs="probabilities")
    >>> metrics.update([[0.9, 0.1], [0.4, 0.6]], [0, 0])
    >>> metrics.update([[0.2, 0.8]], [1])
    >>> round(metrics.compute().accuracy, 4)
    0.6667
    """

    def __init__(
        self,
        classes: int,
        *,
        inputs: Literal["logits", "probabilities"],
        bins: int = 15,
        auc_bins: int | None = 2000,
    ) -> None:
        _checks.one_of("inputs", inputs, ("logits", "probabilities"))
        self.classes = _checks.whole_number("classes", classes, low=2)
        self.inputs = inputs
        self.bins = _checks.whole_number("bins", bins, low=1)
        if auc_bins is not None:
            _checks.whole_number("auc_bins", auc_bins, low=2)
        self.auc_bins = auc_bins
        self._histogram: AucHistogram | None = None
        self._counts: Tensor | None = None
        self._cross_entropy = 0.0
        self._brier = 0.0
        self._confidence = GrowingVector()
        self._correct = GrowingVector()

    def update(self, predictions: ArrayLike, y: ArrayLike) -> None:
        """Add predictions, (n, classes), and their labels, (n,).

        Rows are processed a few at a time, so a batch may have any size. A batch that raises an
        error may have been counted in part: start over after an error.
        """
        _checks.unmasked("y", y)
        # Arrays are sliced by position; a table with its own index would be sliced by its labels.
        values = _checks.numbers("predictions", predictions)
        labels = y if isinstance(y, Tensor) else np.asarray(y)
        if values.ndim == 0 or values.shape[0] == 0 or values.shape[:1] != labels.shape[:1]:
            raise ValueError(
                "predictions and y must have the same number of rows, at least one; "
                f"got shapes {tuple(values.shape)} and {tuple(labels.shape)}."
            )
        checked = checked_logits if self.inputs == "logits" else checked_probabilities
        for some in self._blocks(len(values)):
            own = checked(values[some])
            if own.shape[1] != self.classes:
                raise ValueError(
                    f"predictions must have shape (n, {self.classes}); got {tuple(own.shape)}."
                )
            known = checked_labels(
                labels[some], rows=len(own), classes=self.classes, device=own.device
            )
            self._add(own, known)

    def add_checked(self, values: Tensor, labels: Tensor) -> None:
        """Add predictions (n, classes) and labels (n,) as the checks of ``update`` return them."""
        for some in self._blocks(len(values)):
            self._add(values[some], labels[some])

    def _blocks(self, n: int) -> Iterator[slice]:
        step = max(1, CELLS_AT_ONCE // self.classes)
        return (slice(first, first + step) for first in range(0, n, step))

    def _add(self, values: Tensor, labels: Tensor) -> None:
        predicted = values.argmax(dim=1)
        log_p = torch.log_softmax(values, dim=1) if self.inputs == "logits" else None
        p = values if log_p is None else log_p.exp()
        log_right = true_class(p, labels).log() if log_p is None else true_class(log_p, labels)
        counts = Confusion.of(predicted, labels, self.classes).counts
        self._counts = counts if self._counts is None else self._counts.add_(counts)
        self._cross_entropy -= float(log_right.sum())
        self._brier += float(squared_errors(p, labels).sum())
        self._confidence.extend(true_class(p, predicted))
        self._correct.extend(predicted == labels)
        if self.auc_bins is not None:
            odds = torch.logit(values) if log_p is None else log_odds(values)
            if self._histogram is None:
                self._histogram = AucHistogram(self.classes, self.auc_bins, values.device)
            self._histogram.update(odds, labels)

    def compute(self) -> Metrics:
        """Return the metrics of all rows so far."""
        if self._counts is None:
            raise ValueError("no predictions yet; call update(predictions, y) first.")
        auc, auc_error = math.nan, math.nan
        if self._histogram is not None:
            auc, auc_error = self._histogram.macro_auc_and_bound()
        confidence, correct = self._confidence.values, self._correct.values
        confusion, n = Confusion(self._counts.clone()), len(correct)
        diagram = binned(confidence, correct, bin_edges(confidence, self.bins, "equal_width"))
        equal_mass = bin_edges(confidence, self.bins, "equal_mass")
        index = bin_index(confidence, equal_mass)
        debiased = debiased_calibration(confidence, correct, index, "l2")
        return Metrics(
            n=n,
            accuracy=confusion.accuracy,
            balanced_accuracy=confusion.balanced_accuracy,
            worst_class_accuracy=confusion.worst_class_accuracy,
            macro_f1=confusion.macro_f1,
            cross_entropy=self._cross_entropy / n,
            brier=self._brier / n,
            ece=calibration_error(diagram, "l1"),
            adaptive_ece=calibration_error(binned(confidence, correct, equal_mass), "l1"),
            debiased_ece=debiased if math.isnan(debiased) else max(0.0, debiased),
            auc=auc,
            auc_error=auc_error,
            per_class_accuracy=confusion.per_class_accuracy.cpu(),
            class_counts=confusion.class_counts.cpu(),
            confusion=confusion.counts.cpu(),
            reliability=Reliability(*(part.cpu() for part in diagram)),
        )

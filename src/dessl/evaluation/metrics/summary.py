"""Metrics: all the metrics of one model's predictions on one labelled set."""

import math
from dataclasses import dataclass, fields
from typing import Any

from torch import Tensor

from dessl._json import json_ready
from dessl.evaluation.metrics.calibration import (
    Reliability,
    bin_edges,
    bin_index,
    binned,
    calibration_error,
)
from dessl.evaluation.metrics.confusion import Confusion
from dessl.evaluation.metrics.debiased_bins import debiased_calibration


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


def summarised(
    confusion: Confusion,
    confidence: Tensor,
    correct: Tensor,
    *,
    cross_entropy: float,
    brier: float,
    auc: tuple[float, float],
    bins: int,
) -> Metrics:
    """Build Metrics from counts, confidences and hits, two means, and the AUC with its bound."""
    diagram = binned(confidence, correct, bin_edges(confidence, bins, "equal_width"))
    equal_mass = bin_edges(confidence, bins, "equal_mass")
    index = bin_index(confidence, equal_mass)
    debiased = debiased_calibration(confidence, correct, index, "l2")
    return Metrics(
        n=confidence.shape[0],
        accuracy=confusion.accuracy,
        balanced_accuracy=confusion.balanced_accuracy,
        worst_class_accuracy=confusion.worst_class_accuracy,
        macro_f1=confusion.macro_f1,
        cross_entropy=cross_entropy,
        brier=brier,
        ece=calibration_error(diagram, "l1"),
        adaptive_ece=calibration_error(binned(confidence, correct, equal_mass), "l1"),
        debiased_ece=debiased if math.isnan(debiased) else max(0.0, debiased),
        auc=auc[0],
        auc_error=auc[1],
        per_class_accuracy=confusion.per_class_accuracy.cpu(),
        class_counts=confusion.class_counts.cpu(),
        confusion=confusion.counts.cpu(),
        reliability=Reliability(*(part.cpu() for part in diagram)),
    )

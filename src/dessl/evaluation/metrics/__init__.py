"""Metrics of a classifier's predictions, computed on their device."""

from dessl.evaluation.metrics.benefit import benefit_ratio, benefit_ratio_std
from dessl.evaluation.metrics.calibration import (
    Reliability,
    adaptive_ece,
    debiased_ece,
    ece,
    reliability,
)
from dessl.evaluation.metrics.classification import (
    accuracy,
    balanced_accuracy,
    confusion_matrix,
    macro_f1,
    per_class_accuracy,
    worst_class_accuracy,
)
from dessl.evaluation.metrics.from_predictions import (
    evaluate,
    metrics_from_logits,
    metrics_from_probabilities,
    predicted_logits,
)
from dessl.evaluation.metrics.ranking import auc
from dessl.evaluation.metrics.scoring import (
    brier,
    cross_entropy,
    sample_brier,
    sample_cross_entropy,
)
from dessl.evaluation.metrics.summary import Metrics, StreamingMetrics
from dessl.evaluation.metrics.temperature import fitted_temperature, temperature_scaled

__all__ = [
    "Metrics",
    "Reliability",
    "StreamingMetrics",
    "accuracy",
    "adaptive_ece",
    "auc",
    "balanced_accuracy",
    "benefit_ratio",
    "benefit_ratio_std",
    "brier",
    "confusion_matrix",
    "cross_entropy",
    "debiased_ece",
    "ece",
    "evaluate",
    "fitted_temperature",
    "macro_f1",
    "metrics_from_logits",
    "metrics_from_probabilities",
    "per_class_accuracy",
    "predicted_logits",
    "reliability",
    "sample_brier",
    "sample_cross_entropy",
    "temperature_scaled",
    "worst_class_accuracy",
]

"""Evaluation of trained models: metrics of their predictions, and statistics over runs."""

from dessl.evaluation.conformal import PredictionSets, prediction_sets
from dessl.evaluation.debiased import (
    NarrowIntervalWarning,
    ShiftWarning,
    compare_models,
    estimate_ece,
    estimate_metric,
)
from dessl.evaluation.metrics import (
    Metrics,
    StreamingMetrics,
    evaluate,
    metrics_from_logits,
    metrics_from_probabilities,
)
from dessl.evaluation.mirrored import Mirrored
from dessl.evaluation.statistics import (
    holm,
    mcnemar,
    mean_interval,
    paired_t_test,
    wilcoxon_test,
)

__all__ = [
    "Metrics",
    "Mirrored",
    "NarrowIntervalWarning",
    "PredictionSets",
    "ShiftWarning",
    "StreamingMetrics",
    "compare_models",
    "estimate_ece",
    "estimate_metric",
    "evaluate",
    "holm",
    "mcnemar",
    "mean_interval",
    "metrics_from_logits",
    "metrics_from_probabilities",
    "paired_t_test",
    "prediction_sets",
    "wilcoxon_test",
]

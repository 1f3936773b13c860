"""Metrics from few labelled and many unlabelled rows, with confidence intervals."""

from dessl.evaluation.debiased.calibration import ECEEstimate, estimate_ece
from dessl.evaluation.debiased.compare import ModelComparison, compare_models
from dessl.evaluation.debiased.estimate import LabelledOnly, MetricEstimate, estimate_metric
from dessl.evaluation.debiased.groups import NarrowIntervalWarning
from dessl.evaluation.debiased.shift import ShiftWarning

__all__ = [
    "ECEEstimate",
    "LabelledOnly",
    "MetricEstimate",
    "ModelComparison",
    "NarrowIntervalWarning",
    "ShiftWarning",
    "compare_models",
    "estimate_ece",
    "estimate_metric",
]

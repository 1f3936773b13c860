"""Intervals and tests for comparing methods over folds, and two models on one test set."""

from dessl.evaluation.statistics.multiple import holm
from dessl.evaluation.statistics.signed_ranks import WilcoxonTest, wilcoxon_test
from dessl.evaluation.statistics.student import (
    MeanInterval,
    PairedTTest,
    mean_interval,
    paired_t_test,
)
from dessl.evaluation.statistics.two_classifiers import McNemarTest, mcnemar

__all__ = [
    "McNemarTest",
    "MeanInterval",
    "PairedTTest",
    "WilcoxonTest",
    "holm",
    "mcnemar",
    "mean_interval",
    "paired_t_test",
    "wilcoxon_test",
]

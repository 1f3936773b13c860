"""What benchmarks/coverage draws from a population, and how often bounds hold its mean."""

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dessl.evaluation.debiased.proxies import Proxies, Sample

UNLABELLED = 5000
CONFIDENCES = (0.90, 0.95)
LABELS = (20, 50, 100, 500)
METRIC_NAMES = ("accuracy", "brier")


def drawn(rows: Sample, m: int, generator: torch.Generator) -> Sample:
    """A labelled and an unlabelled sample of the population's rows, with replacement."""
    n = len(rows.loss)
    labelled = torch.randint(n, (m,), generator=generator)
    others = torch.randint(n, (UNLABELLED,), generator=generator)
    return Sample(rows.loss[labelled], _taken(rows, labelled), _taken(rows, others))


def _taken(rows: Sample, index: Tensor) -> Proxies:
    return Proxies(rows.labelled.h[index], rows.labelled.moments[:, index])


def held(low: NDArray[Any], high: NDArray[Any], truth: float) -> dict[str, Any]:
    """Coverage with its Monte-Carlo error, and misses on either side."""
    coverage = float(np.mean((low <= truth) & (truth <= high)))
    return {
        "coverage": coverage,
        "coverage_error": math.sqrt(coverage * (1 - coverage) / len(low)),
        "missed_below": float((high < truth).mean()),
        "missed_above": float((low > truth).mean()),
        "replications": len(low),
    }

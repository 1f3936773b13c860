"""What a trained model says of the debiased risk on a test set: the paper's appendix experiments."""

from typing import Any

import torch
from torch import Tensor, nn

from dessl.data import SemiData
from dessl.evaluation.mode import evaluating
from dessl.evaluation.risk_quality import (
    gradient_variance_ratio_over_lambda,  # noqa: F401
    oracle_lambda,
    risk_over_lambda,
    variance_ratio_over_lambda,
)
from dessl.experiments.parts import term
from dessl.experiments.specification import Experiment
from dessl.functional import cross_entropy
from dessl.surrogates import Rows

AT_ONCE = 500


def probed(
    experiment: Experiment, model: nn.Module, data: SemiData
) -> tuple[dict[str, Any], dict[str, Any]]:
    raise NotImplementedError

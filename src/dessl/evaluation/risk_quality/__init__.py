"""The paper's experiments on how well the debiased risk estimates the risk."""

from dessl.evaluation.risk_quality.network_gradients import network_gradient_spread
from dessl.evaluation.risk_quality.ratio import Spread, Traces, VarianceRatio
from dessl.evaluation.risk_quality.risk import (
    OracleLambda,
    RiskOverLambda,
    oracle_lambda,
    risk_over_lambda,
)
from dessl.evaluation.risk_quality.spread import (
    gradient_variance_ratio_over_lambda,
    last_layer_variance_ratio_over_lambda,
    variance_ratio_over_lambda,
)

__all__ = [
    "OracleLambda",
    "RiskOverLambda",
    "Spread",
    "Traces",
    "VarianceRatio",
    "gradient_variance_ratio_over_lambda",
    "last_layer_variance_ratio_over_lambda",
    "network_gradient_spread",
    "oracle_lambda",
    "risk_over_lambda",
    "variance_ratio_over_lambda",
]

"""The paper's experiments on how well the debiased risk estimates the risk."""

from dessl.evaluation.risk_quality.risk import (
    OracleLambda,
    RiskOverLambda,
    oracle_lambda,
    risk_over_lambda,
)
from dessl.evaluation.risk_quality.spread import (
    VarianceRatio,
    gradient_variance_ratio_over_lambda,
    last_layer_variance_ratio_over_lambda,
    variance_ratio_over_lambda,
)

__all__ = [
    "OracleLambda",
    "RiskOverLambda",
    "VarianceRatio",
    "gradient_variance_ratio_over_lambda",
    "last_layer_variance_ratio_over_lambda",
    "oracle_lambda",
    "risk_over_lambda",
    "variance_ratio_over_lambda",
]

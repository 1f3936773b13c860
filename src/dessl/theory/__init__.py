"""The paper's results on the debiased risk as functions: variance, λ_opt, covariance, bounds."""

from dessl.theory.asymptotics import AsymptoticCovariance, asymptotic_covariance
from dessl.theory.generalisation import (
    GeneralisationBound,
    generalisation_bound,
    generalisation_constant,
)
from dessl.theory.gradient import (
    logit_gradients,
    optimal_lambda_gradient,
    optimal_lambda_last_layer,
)
from dessl.theory.lambda_estimate import LambdaEstimate, optimal_lambda
from dessl.theory.propensity import PropensityLambda, inverse_propensity_lambda
from dessl.theory.scoring import scoring_rule
from dessl.theory.several import (
    SeveralLambdas,
    optimal_lambdas,
    optimal_lambdas_from_moments,
    optimal_lambdas_gradient,
)
from dessl.theory.variance import (
    correlation,
    optimal_lambda_from_moments,
    risk_variance,
    variance_ratio,
)

__all__ = [
    "AsymptoticCovariance",
    "GeneralisationBound",
    "LambdaEstimate",
    "PropensityLambda",
    "SeveralLambdas",
    "asymptotic_covariance",
    "correlation",
    "generalisation_bound",
    "generalisation_constant",
    "inverse_propensity_lambda",
    "logit_gradients",
    "optimal_lambda",
    "optimal_lambda_from_moments",
    "optimal_lambda_gradient",
    "optimal_lambda_last_layer",
    "optimal_lambdas",
    "optimal_lambdas_from_moments",
    "optimal_lambdas_gradient",
    "risk_variance",
    "scoring_rule",
    "variance_ratio",
]

"""Safe semi-supervised learning: few labels, many unlabelled examples, and a debiased risk."""

from typing import TYPE_CHECKING, Any

from dessl._version import __version__
from dessl.data import (
    Batches,
    DataError,
    LabelDraw,
    SemiData,
    draw_labels,
    draw_labels_by_class,
    redraw_labels,
)
from dessl.evaluation import (
    Metrics,
    StreamingMetrics,
    compare_models,
    estimate_ece,
    estimate_metric,
    evaluate,
    metrics_from_logits,
    metrics_from_probabilities,
)
from dessl.functional import (
    confident_cross_entropy,
    cross_entropy,
    cross_entropy_to,
    entropy,
    kl_divergence,
    log_probabilities,
    pseudo_label,
    renyi_entropy,
    squared_distance,
)
from dessl.models import MODELS
from dessl.objective import objective
from dessl.recipes import Recipe, recipe_for
from dessl.risk import (
    Risk,
    complete_case_risk,
    debiased_risk,
    inverse_propensity_risk,
    ssl_risk,
    subset_debiased_risk,
)
from dessl.saved import SavedModel, load_model, save_model
from dessl.surrogates import SURROGATES, Rows, Scores, Surrogate, as_surrogate
from dessl.theory import (
    LambdaEstimate,
    optimal_lambda,
    optimal_lambda_gradient,
    risk_variance,
)
from dessl.training import (
    PopulationRun,
    TrainPlan,
    TrainResult,
    train,
    train_population,
)

if TYPE_CHECKING:
    from dessl.estimator import DeSSLClassifier

__all__ = [
    "MODELS",
    "SURROGATES",
    "Batches",
    "DataError",
    "DeSSLClassifier",
    "LabelDraw",
    "LambdaEstimate",
    "Metrics",
    "PopulationRun",
    "Recipe",
    "Risk",
    "Rows",
    "SavedModel",
    "Scores",
    "SemiData",
    "StreamingMetrics",
    "Surrogate",
    "TrainPlan",
    "TrainResult",
    "__version__",
    "as_surrogate",
    "compare_models",
    "complete_case_risk",
    "confident_cross_entropy",
    "cross_entropy",
    "cross_entropy_to",
    "debiased_risk",
    "draw_labels",
    "draw_labels_by_class",
    "entropy",
    "estimate_ece",
    "estimate_metric",
    "evaluate",
    "inverse_propensity_risk",
    "kl_divergence",
    "load_model",
    "log_probabilities",
    "metrics_from_logits",
    "metrics_from_probabilities",
    "objective",
    "optimal_lambda",
    "optimal_lambda_gradient",
    "pseudo_label",
    "recipe_for",
    "redraw_labels",
    "renyi_entropy",
    "risk_variance",
    "save_model",
    "squared_distance",
    "ssl_risk",
    "subset_debiased_risk",
    "train",
    "train_population",
]


def __getattr__(name: str) -> Any:
    """Import scikit-learn only when its estimator is asked for."""
    if name == "DeSSLClassifier":
        from dessl.estimator import DeSSLClassifier

        return DeSSLClassifier
    raise AttributeError(f"module 'dessl' has no attribute {name!r}")

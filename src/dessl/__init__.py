"""Safe semi-supervised learning: few labels, many unlabelled examples, and a debiased risk.

Names are imported when they are first used. ``import dessl`` and ``dessl --help`` therefore do not
load torch, and a command can handle an interrupt cleanly soon after its start. Add a new name here
and to ``__init__.pyi``.
"""

import sys
from types import ModuleType

_HOMES = {
    "dessl._version": ("__version__",),
    "dessl.data": (
        "Batches",
        "DataError",
        "LabelDraw",
        "SemiData",
        "draw_labels",
        "draw_labels_by_class",
        "redraw_labels",
    ),
    "dessl.estimator": ("DeSSLClassifier",),
    "dessl.evaluation": (
        "Metrics",
        "StreamingMetrics",
        "compare_models",
        "estimate_ece",
        "estimate_metric",
        "evaluate",
        "metrics_from_logits",
        "metrics_from_probabilities",
    ),
    "dessl.functional": (
        "confident_cross_entropy",
        "cross_entropy",
        "cross_entropy_to",
        "entropy",
        "kl_divergence",
        "log_probabilities",
        "pseudo_label",
        "renyi_entropy",
        "squared_distance",
    ),
    "dessl.models": ("MODELS",),
    "dessl.objective": ("objective",),
    "dessl.recipes": (
        "Recipe",
        "recipe_for",
    ),
    "dessl.risk": (
        "Risk",
        "complete_case_risk",
        "debiased_risk",
        "inverse_propensity_risk",
        "ssl_risk",
        "subset_debiased_risk",
    ),
    "dessl.saved": (
        "SavedModel",
        "load_model",
        "save_model",
    ),
    "dessl.surrogates": (
        "SURROGATES",
        "Rows",
        "Scores",
        "Surrogate",
        "as_surrogate",
    ),
    "dessl.theory": (
        "LambdaEstimate",
        "optimal_lambda",
        "optimal_lambda_gradient",
        "risk_variance",
    ),
    "dessl.training": (
        "PopulationRun",
        "TrainPlan",
        "TrainResult",
        "train",
        "train_population",
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
__all__ = sorted(_HOME_OF)


class _Package(ModuleType):
    """The package. ``dessl.objective`` is the function, even after its module is imported."""

    def __getattr__(self, name: str) -> object:
        from importlib import import_module

        if name in _HOME_OF:
            found: object = getattr(import_module(_HOME_OF[name]), name)
            self.__dict__[name] = found
            return found
        if not name.startswith("_"):
            try:
                return import_module(f"dessl.{name}")
            except ModuleNotFoundError as error:
                if error.name != f"dessl.{name}":
                    raise
        raise AttributeError(f"module 'dessl' has no attribute {name!r}")

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _HOME_OF and isinstance(value, ModuleType)):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*self.__dict__, *__all__})


sys.modules[__name__].__class__ = _Package

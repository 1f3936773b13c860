"""What a trained model's test rows say of the debiased risk: the paper's appendix experiments.

The setting ``probe`` of an experiment names one of ``PROBES``, ``terms`` the unlabelled terms that
it looks at, and ``labelled`` the labelled rows of the risk. Curves have ``points`` λ up to
``reach`` · λ_opt, since nobody knows λ_opt before the model is trained.
"""

import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn

from dessl import _checks
from dessl._json import finite
from dessl.data import SemiData
from dessl.data.parts import Part
from dessl.evaluation import evaluate
from dessl.evaluation.mode import evaluating
from dessl.evaluation.risk_quality import (
    VarianceRatio,
    network_gradient_spread,
    oracle_lambda,
    risk_over_lambda,
    variance_ratio_over_lambda,
)
from dessl.functional import cross_entropy
from dessl.surrogates import SURROGATES, Rows, Scores, Surrogate
from dessl.surrogates.base import as_is
from dessl_paper.parts import shown, term
from dessl_paper.specification import Experiment

AT_ONCE = 500  # rows in a forward pass
CONTEXT = ("accuracy", "cross_entropy", "ece")  # how good and how sure of itself the model is

Outcome: TypeAlias = tuple[dict[str, Any], dict[str, Any]]


class LossAndTerm(NamedTuple):
    """L and H of each test row, and how sure the model is of its first view; (n,), in float64."""

    loss: Tensor
    h: Tensor
    confidence: Tensor


def probed(experiment: Experiment, model: nn.Module, data: SemiData) -> Outcome:
    """Look at the test rows through a trained model.

    Args:
        experiment: Of the kind ``"probe"``.
        model: From normalised images to logits.
        data: With a test part whose labels are all known, where the model is.

    Returns:
        A few numbers by name, and the curves over λ by name. Both are ready for JSON; None stands
        for what is not finite.
    """
    which = experiment.settings.get("probe")
    _checks.one_of(f"the probe of {experiment.name}", which, tuple(PROBES))
    assert data.test is not None  # noqa: S101 (experiment_data refuses data without)
    with evaluating(model):
        seen = evaluate(model, *data.test, transform=shown(experiment.views)).as_dict()
        metrics, arrays = PROBES[str(which)](experiment, model, data.test)
    context = {name: seen[name] for name in CONTEXT}
    return finite(context | {"rows": len(data.test.y)} | metrics), finite(arrays)


def loss_and_term(surrogate: Surrogate, model: nn.Module, part: Part) -> LossAndTerm:
    """L and H of all rows, from logits that are widened to float64; L is the mean over views."""
    found = []
    ids = torch.arange(len(part.y), device=part.y.device)
    with torch.no_grad():
        for some in (ids[first : first + AT_ONCE] for first in range(0, len(ids), AT_ONCE)):
            scores: Scores = surrogate(lambda x: model(x).double(), Rows(part.x[some], some))
            y = part.y[some].expand(scores.logits.shape[:-1])
            confidence = scores.logits[0].softmax(-1).amax(-1)
            found.append((cross_entropy(scores.logits, y).mean(0), scores.h, confidence))
    return LossAndTerm(*(torch.cat(parts) for parts in zip(*found, strict=True)))


def _risk(experiment: Experiment, model: nn.Module, test: Part) -> Outcome:
    """The risk's estimates over λ against the oracle, and their variance."""
    settings = experiment.settings
    loss, h, _ = loss_and_term(term(_only_term(experiment), experiment.views), model, test)
    drawn = {"n_labelled": settings["labelled"], "splits": settings["splits"]}
    best = oracle_lambda(loss, h, n_labelled=settings["labelled"])
    lams = _lams(best.lam, settings)
    estimates = risk_over_lambda(loss, h, lams, **drawn)
    ratio = variance_ratio_over_lambda(loss, h, lams, **drawn)
    at_best = variance_ratio_over_lambda(loss, h, [best.lam], **drawn)
    metrics = {
        "oracle": estimates.oracle,
        "mean_h": float(h.mean()),
        "share_with_h": float((h > 0).double().mean()),
        "correlation": best.correlation,
        "debiased_largest_bias_in_errors": _largest_bias(estimates.debiased, estimates.oracle),
        "ssl_largest_bias_in_errors": _largest_bias(estimates.ssl, estimates.oracle),
        "debiased_largest_bias": _largest(estimates.debiased_mean - estimates.oracle),
        "ssl_largest_bias": _largest(estimates.ssl_mean - estimates.oracle),
    }
    arrays = {
        f"{risk}_{what}": getattr(estimates, f"{risk}_{what}").tolist()
        for risk in ("ssl", "debiased")
        for what in ("mean", "low", "high")
    }
    return metrics | _least(at_best), arrays | _curves(ratio)


def _gradient(experiment: Experiment, model: nn.Module, test: Part) -> Outcome:
    """The variance of the whole network's gradient over λ."""
    settings = experiment.settings
    loss, h, _ = loss_and_term(term(_only_term(experiment), experiment.views), model, test)
    spread = network_gradient_spread(
        model,
        _still(_only_term(experiment)),
        shown(experiment.views)(test.x),
        test.y,
        n_labelled=settings["labelled"],
        splits=settings["splits"],
        at_once=settings["at_once"],
    )
    metrics = {
        "parameters": sum(p.numel() for p in model.parameters() if p.requires_grad),
        "correlation": spread.correlation,
        "lam_opt_of_the_risk": oracle_lambda(loss, h, n_labelled=settings["labelled"]).lam,
    }
    return metrics | _least(spread.over([spread.lam])), _curves(
        spread.over(_lams(spread.lam, settings))
    )


def _lambda_opt(experiment: Experiment, model: nn.Module, test: Part) -> Outcome:
    """λ_opt of each term, for as many labelled and unlabelled rows as a training has."""
    metrics: dict[str, Any] = {}
    n_l, n_u = (experiment.settings[key] for key in ("labelled", "unlabelled"))
    for settings in experiment.settings["terms"]:
        own = dict(settings)
        name = own.pop("as", own["name"])  # where one term comes in several ways
        above = own["threshold"] if own.pop("confident_rows_alone", False) else 0.0
        loss, h, confidence = loss_and_term(term(own, experiment.views), model, test)
        loss, h = loss[confidence > above], h[confidence > above]
        metrics[f"rows.{name}"] = len(h)
        if not len(h):  # a model that is sure of nothing
            metrics[f"lam_opt.{name}"] = None
            continue
        best = oracle_lambda(loss, h, n_labelled=n_l, n_unlabelled=n_u)
        metrics |= {
            f"lam_opt.{name}": best.lam,
            f"standard_error.{name}": best.standard_error,
            f"slope.{name}": best.lam * (n_l + n_u) / n_u,
            f"correlation.{name}": best.correlation,
            f"variance_ratio.{name}": best.variance_ratio,
            f"regime_low.{name}": min(0.0, 2 * best.lam),
            f"regime_high.{name}": max(0.0, 2 * best.lam),
            f"mean_loss.{name}": float(loss.mean()),
            f"mean_h.{name}": float(h.mean()),
        }
    return metrics, {}


PROBES: dict[str, Callable[[Experiment, nn.Module, Part], Outcome]] = {
    "risk": _risk,
    "gradient": _gradient,
    "lambda_opt": _lambda_opt,
}


def _only_term(experiment: Experiment) -> Mapping[str, Any]:
    terms = experiment.settings["terms"]
    if len(terms) != 1:
        raise ValueError(
            f"{experiment.name} looks at one unlabelled term; got {len(terms)} in its settings."
        )
    settings: Mapping[str, Any] = terms[0]
    return settings


def _still(settings: Mapping[str, Any]) -> Surrogate:
    """The term on rows that are shown already: nothing can be drawn in a per-sample gradient."""
    own = dict(settings)
    kind = SURROGATES[own.pop("name")]
    if "view" not in inspect.signature(kind).parameters:
        raise ValueError(
            f"the gradient of a term is looked at in one view that draws nothing; "
            f"{kind.__name__} has several. Use another, such as pseudo_label."
        )
    own["view"] = as_is
    return kind(**own)


def _lams(best: float, settings: Mapping[str, Any]) -> Tensor:
    """The λ of the curves: from 0, or from both sides of it where λ_opt is negative."""
    end = settings["reach"] * (abs(best) or 1.0)
    start = -end if best < 0 else 0.0
    return torch.linspace(start, end, settings["points"], dtype=torch.float64)


def _largest_bias(estimates: Tensor, oracle: float) -> float:
    """Of the mean over splits (splits, lams), in its standard errors, at the λ where it is so."""
    error = estimates.std(0) / math.sqrt(len(estimates))
    return _largest((estimates.mean(0) - oracle) / error)


def _largest(values: Tensor) -> float:
    return float(values.abs().max())


def _least(at_best: VarianceRatio) -> dict[str, float]:
    return {
        "lam_opt": at_best.lam,
        "least_ratio": at_best.least,
        "least_ratio_empirical": float(at_best.empirical[0]),
    }


def _curves(ratio: VarianceRatio) -> dict[str, Any]:
    return {
        "lams": ratio.lams.tolist(),
        "ratio_empirical": ratio.empirical.tolist(),
        "ratio_theory": ratio.theory.tolist(),
    }

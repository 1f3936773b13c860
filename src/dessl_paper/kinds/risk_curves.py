"""The debiased risk of a trained model over λ: is it unbiased, and does its variance fall?

The paper's appendix on the quality of risk estimation: both estimates of the risk against the
oracle, and the variance of the risk or of the whole gradient as a share of the complete case's.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from dessl._entries import EntryError, read_as
from dessl.data.parts import Part
from dessl.evaluation.risk_quality import (
    VarianceRatio,
    network_gradient_spread,
    oracle_lambda,
    risk_over_lambda,
    variance_ratio_over_lambda,
)
from dessl.report.chart import COLOURS, INK, pictures
from dessl.results.averages import number
from dessl.results.record import Record
from dessl.surrogates import LossesAndTerms, Rows, Surrogate, losses_and_terms
from dessl_paper.figures import Pictures, drawing, headline, panels
from dessl_paper.findings import Finding
from dessl_paper.kinds.confidence import still_term
from dessl_paper.results import Results
from dessl_paper.specification import Experiment
from dessl_paper.training import Measured, shown, unlabelled_term
from dessl_paper.wording import lambda_text, title

if TYPE_CHECKING:
    from matplotlib.axes import Axes

AT_ONCE = 500  # rows in a forward pass
SSL, DEBIASED, ORACLE = COLOURS["s1"], COLOURS["s2"], INK

# An estimate that is unbiased at all λ is a line in λ with two random coefficients: its largest
# bias over all λ, in standard errors, is below this in 95 % of cases (χ² with 2 degrees, rooted).
CHANCE = math.sqrt(-2 * math.log(0.05))

LEAST = ("lam_opt", "least_ratio", "least_ratio_empirical")
RISK_METRICS = (
    "oracle",
    "mean_h",
    "share_with_h",
    "correlation",
    "debiased_largest_bias_in_errors",
    "ssl_largest_bias_in_errors",
    "debiased_largest_bias",
    "ssl_largest_bias",
    *LEAST,
)
GRADIENT_METRICS = ("parameters", "correlation", "lam_opt_of_the_risk", *LEAST)


@dataclass(frozen=True)
class RiskSettings:
    """The settings of an experiment on the risk over λ.

    Attributes:
        probe: Its name.
        labelled: Number of labelled rows in a split of the test rows.
        splits: Number of splits.
        reach: The curves go up to this times λ_opt, which is not known before training.
        points: Number of λ on a curve.
        terms: The unlabelled term, exactly one.
    """

    probe: str
    labelled: int
    splits: int
    reach: float
    points: int
    terms: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True)
class GradientSettings(RiskSettings):
    """The settings of an experiment on the gradient over λ.

    Attributes:
        at_once: Number of rows whose gradients are computed at once.
    """

    at_once: int


def loss_and_term(surrogate: Surrogate, model: nn.Module, part: Part) -> LossesAndTerms:
    """L and H of all rows, from logits widened to float64; L is the mean over views."""
    rows = Rows(part.x, torch.arange(len(part.y), device=part.y.device))
    return losses_and_terms(lambda x: model(x).double(), surrogate, rows, part.y, at_once=AT_ONCE)


def measured_risk(experiment: Experiment, model: nn.Module, test: Part) -> Measured:
    """The risk's estimates over λ against the oracle, and their variance."""
    settings = read_as(RiskSettings, experiment.settings, at="settings")
    loss, h, _ = loss_and_term(
        unlabelled_term(only_term(settings.terms), experiment.views), model, test
    )
    drawn: dict[str, Any] = {"n_labelled": settings.labelled, "splits": settings.splits}
    best = oracle_lambda(loss, h, n_labelled=settings.labelled)
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


def measured_gradient(experiment: Experiment, model: nn.Module, test: Part) -> Measured:
    """The variance of the whole network's gradient over λ."""
    settings = read_as(GradientSettings, experiment.settings, at="settings")
    loss, h, _ = loss_and_term(
        unlabelled_term(only_term(settings.terms), experiment.views), model, test
    )
    spread = network_gradient_spread(
        model,
        still_term(only_term(settings.terms)),
        shown(experiment.views)(test.x),
        test.y,
        n_labelled=settings.labelled,
        splits=settings.splits,
        at_once=settings.at_once,
    )
    metrics = {
        "parameters": sum(p.numel() for p in model.parameters() if p.requires_grad),
        "correlation": spread.correlation,
        "lam_opt_of_the_risk": oracle_lambda(loss, h, n_labelled=settings.labelled).lam,
    }
    return metrics | _least(spread.over([spread.lam])), _curves(
        spread.over(_lams(spread.lam, settings))
    )


def only_term(terms: Sequence[Mapping[str, Any]], source: str = "") -> Mapping[str, Any]:
    """The one unlabelled term of an experiment over λ; any other number is an error."""
    if len(terms) != 1:
        where = f"{source}: " if source else ""
        raise EntryError(f"{where}settings.terms must have one unlabelled term; got {len(terms)}")
    return terms[0]


def _lams(best: float, settings: RiskSettings) -> Tensor:
    """The λ of the curves: from 0, or from both sides of it where λ_opt is negative."""
    end = settings.reach * (abs(best) or 1.0)
    start = -end if best < 0 else 0.0
    return torch.linspace(start, end, settings.points, dtype=torch.float64)


def _largest_bias(estimates: Tensor, oracle: float) -> float:
    """Largest bias over λ of the mean over splits (splits, lams), in standard errors."""
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


def curves_figure(results: Results, record: Record) -> Pictures | None:
    """Both estimates of the risk over λ and their variance; a gradient's variance alone.

    None if the record has no curves.
    """
    if "ratio_theory" not in record.arrays:
        return None
    arrays, metrics = record.arrays, record.metrics
    estimates = "ssl_mean" in arrays
    with drawing():
        figure, axes = panels(1 + estimates)
        if estimates:
            draw_risk(axes[0], arrays, number(metrics.get("oracle")))
        least = number(metrics.get("lam_opt")), number(metrics.get("least_ratio"))
        draw_variance_ratio(axes[-1], arrays, least, of="risk" if estimates else "gradient")
        subtitle = f"{record.data}, {record.title}, split {record.seed}"
        headline(figure, title(results), subtitle)
        return pictures(figure)


def draw_risk(axes: "Axes", curves: Mapping[str, Sequence[float]], oracle: float) -> None:
    """Draw both estimates with their bands, and the oracle.

    Args:
        axes: Where.
        curves: ``lams``, and ``ssl`` and ``debiased`` with ``_mean``, ``_low``, ``_high``; (lams,).
        oracle: The risk itself.
    """
    lams = curves["lams"]
    for label, name, colour in (("SSL", "ssl", SSL), ("debiased", "debiased", DEBIASED)):
        mean, low, high = (curves[f"{name}_{what}"] for what in ("mean", "low", "high"))
        axes.fill_between(lams, low, high, color=colour, alpha=0.2, linewidth=0)
        axes.plot(lams, mean, color=colour, label=label)
    axes.axhline(oracle, color=ORACLE, linestyle="--", label="oracle")
    axes.set(xlabel="λ", ylabel="estimate of the risk")
    axes.legend()


def draw_variance_ratio(
    axes: "Axes", curves: Mapping[str, Sequence[float]], least: tuple[float, float], *, of: str
) -> None:
    """Draw the variance over λ, by the theorem and over the splits.

    Args:
        axes: Where to draw.
        curves: ``lams``, ``ratio_theory`` and ``ratio_empirical``; (lams,) each.
        least: λ_opt and the ratio there.
        of: What varies.
    """
    lams = curves["lams"]
    axes.plot(lams, curves["ratio_theory"], color=DEBIASED, label="theorem 3.1")
    dots: dict[str, Any] = {"linestyle": "none", "marker": "o", "markersize": 4}
    axes.plot(lams, curves["ratio_empirical"], color=DEBIASED, label="splits", **dots)
    axes.axhline(1.0, color=ORACLE, linestyle="--", label="complete case")
    axes.plot(*([value] for value in least), "*", color=SSL, markersize=12,
              label=f"λ_opt = {least[0]:.3g}")  # fmt: skip
    heights = np.array([1.0, *curves["ratio_theory"], *curves["ratio_empirical"]], dtype=float)
    axes.set(xlabel="λ", ylabel=f"variance of the {of}, relative")
    axes.set_ylim(0, 1.05 * np.nanmax(heights))  # a ratio is missing where nothing varies
    axes.legend()


def curve_findings(record: Record, splits: int) -> Iterator[Finding]:
    """Findings from a run's curves: is the estimate unbiased, and is its variance smaller?"""
    if "ssl_mean" in record.arrays:
        yield _bias(record)
    if "ratio_theory" in record.arrays:
        yield _variance(record, splits)


def _bias(record: Record) -> Finding:
    debiased = number(record.metrics["debiased_largest_bias_in_errors"])
    ssl = number(record.metrics["ssl_largest_bias_in_errors"])
    lams, oracle = record.arrays["lams"], number(record.metrics["oracle"])
    inside = {
        name: sum(
            low <= oracle <= high
            for low, high in zip(
                record.arrays[f"{name}_low"], record.arrays[f"{name}_high"], strict=True
            )
        )
        for name in ("ssl", "debiased")
    }
    text = (
        f"The oracle lies within the band of the debiased estimate at {inside['debiased']} of "
        f"{len(lams)} λ and within that of the SSL estimate at {inside['ssl']}. The mean over "
        f"splits is off by up to {debiased:.1f} standard errors (debiased) and {ssl:.1f} (SSL); "
        f"chance alone explains up to {CHANCE:.1f}. In the paper the debiased estimate is unbiased "
        "and the SSL estimate is not."
    )
    if debiased > CHANCE:
        return Finding("differs", text)
    return Finding("agrees" if ssl > CHANCE else "open", text)


def _variance(record: Record, splits: int) -> Finding:
    """Does debiasing make the estimate less variable, as in the paper for λ > 0?

    For splits of these rows theorem 3.1 is exact, and the splits differ from it only by chance.
    But only the splits are a measurement: if they are on the other side of the complete case, the
    theorem's number alone is not evidence.
    """
    lam, exact, seen = (number(record.metrics[name]) for name in LEAST)
    if lam == 0 and set(record.arrays["ratio_theory"]) == {1.0}:
        text = "H is the same for all these rows: the variance equals the complete case's at all λ."
        return Finding("open", text)
    error = ratio_error(exact, splits)
    chance = min(seen, exact) > 0 and abs(math.log(seen / exact)) <= 2 * error
    at_best = (
        f"At λ_opt = {lambda_text(lam)} the variance is {exact:.3f} times the complete case's by "
        f"theorem 3.1, which is exact for these rows, and {seen:.3f} times over {splits} splits. "
        f"The gap {'may be chance' if chance else 'is larger than chance explains'} "
        f"(standard error {exact * error:.3f}, for normal estimates with the correlation that the "
        "theorem gives)."
    )
    over_lambda, shown = _above(record) if lam <= 0 else _below(record, lam, seen)
    text = f"{at_best} {over_lambda}"
    if not shown or (lam > 0 and not chance):
        return Finding("open", text)
    return Finding("differs" if lam <= 0 else "agrees", text)


def _below(record: Record, lam: float, at_best: float) -> tuple[str, bool]:
    """With λ_opt > 0: where the variance is below, and whether the splits confirm it at λ_opt."""
    end = 2 * lam
    ratios = _seen(record, lambda at: at < end and not math.isclose(at, end))
    text = (
        f"By the theorem it is below the complete case's for λ from 0 to {lambda_text(end)}, as in "
        f"the paper; over the splits it is below at {sum(ratio < 1 for ratio in ratios)} of the "
        f"{len(ratios)} λ in between"
    )
    shown = at_best < 1
    return f"{text}{'' if shown else ', so they do not show a decrease'}.", shown


def _above(record: Record) -> tuple[str, bool]:
    """With λ_opt ≤ 0: the variance is above for λ > 0, and whether the splits confirm it."""
    ratios = _seen(record, lambda _: True)
    above = sum(ratio > 1 for ratio in ratios)
    text = (
        "By the theorem it is above the complete case's at every λ > 0, and over the splits "
        f"at {above} of {len(ratios)} λ; in the paper it is below."
    )
    return text, above == len(ratios)


def _seen(record: Record, chosen: Callable[[float], bool]) -> list[float]:
    """The ratio of variances over the splits at each chosen positive λ of the curve."""
    lams, ratios = record.arrays["lams"], record.arrays["ratio_empirical"]
    zero = 1e-9 * max(lams)  # the middle of a curve that goes both ways is 0 but for rounding
    pairs = zip(lams, ratios, strict=True)
    return [number(ratio) for lam, ratio in pairs if lam > zero and chosen(lam)]


def ratio_error(ratio: float, splits: int) -> float:
    """Standard error of the logarithm of the variances' ratio over n splits: 2 √((1 − r)/(n − 1)).

    The two estimates, one of least variance among a + λb and the other a, correlate with √r.

    >>> round(ratio_error(0.75, 101), 3)
    0.1
    """
    return 2 * math.sqrt(max(0.0, 1 - ratio) / max(1, splits - 1))

"""Pictures of how well the debiased risk estimates the risk: estimates and variance over λ."""

import io
from typing import TYPE_CHECKING

from dessl.evaluation.risk_quality import RiskOverLambda, VarianceRatio

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SSL, DEBIASED, ORACLE = "#e07b39", "#3b6fb6", "#333333"


def risk_figure(result: RiskOverLambda) -> bytes:
    """Return a PNG: the semi-supervised and the debiased estimate over λ against the oracle.

    Lines are means over the splits, bands hold the middle share of them.
    """
    figure, axes = _panel()
    lams = result.lams.cpu().numpy()
    bands = {
        "SSL": (SSL, result.ssl_mean, result.ssl_low, result.ssl_high),
        "debiased": (DEBIASED, result.debiased_mean, result.debiased_low, result.debiased_high),
    }
    for label, (colour, mean, low, high) in bands.items():
        axes.fill_between(lams, low.cpu().numpy(), high.cpu().numpy(), color=colour, alpha=0.2)
        axes.plot(lams, mean.cpu().numpy(), color=colour, label=label)
    axes.axhline(result.oracle, color=ORACLE, linestyle="--", label="oracle")
    axes.set(xlabel="λ", ylabel="estimate of the risk")
    axes.legend()
    return _png(figure)


def variance_ratio_figure(result: VarianceRatio, *, of: str = "risk") -> bytes:
    """Return a PNG: the variance over λ as a share of the complete case's, with λ_opt.

    Args:
        result: Of the risk or of a gradient.
        of: What varies, for the label of the axis.
    """
    figure, axes = _panel()
    lams = result.lams.cpu().numpy()
    axes.plot(lams, result.theory.cpu().numpy(), color=DEBIASED, label="theorem 3.1")
    axes.plot(
        lams, result.empirical.cpu().numpy(), "o", color=DEBIASED, markersize=4, label="splits"
    )
    axes.axhline(1.0, color=ORACLE, linestyle="--", label="complete case")
    axes.plot([result.lam], [result.least], "*", color=SSL, markersize=12,
              label=f"λ_opt = {result.lam:.3g}")  # fmt: skip
    axes.set(xlabel="λ", ylabel=f"variance of the {of}, relative", ylim=(0, None))
    axes.legend()
    return _png(figure)


def _panel() -> "tuple[Figure, Axes]":
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.6, 4.0), layout="constrained")
    return figure, figure.subplots()


def _png(figure: "Figure") -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=120)
    return buffer.getvalue()

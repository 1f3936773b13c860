"""Pictures of how well the debiased risk estimates the risk: estimates and variance over λ."""

import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

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
    entries = result._asdict()
    curves = {
        name: entries[name].tolist() for name in ("lams", *_bands("ssl"), *_bands("debiased"))
    }
    draw_risk(axes, curves, result.oracle)
    return _png(figure)


def variance_ratio_figure(result: VarianceRatio, *, of: str = "risk") -> bytes:
    """Return a PNG: the variance over λ as a share of the complete case's, with λ_opt.

    Args:
        result: Of the risk or of a gradient.
        of: What varies, for the label of the axis.
    """
    figure, axes = _panel()
    curves = {
        "lams": result.lams.tolist(),
        "ratio_theory": result.theory.tolist(),
        "ratio_empirical": result.empirical.tolist(),
    }
    draw_variance_ratio(axes, curves, (result.lam, result.least), of=of)
    return _png(figure)


def draw_risk(axes: "Axes", curves: Mapping[str, Sequence[float]], oracle: float) -> None:
    """Draw both estimates with their bands, and the oracle.

    Args:
        axes: Where.
        curves: ``lams``, and ``ssl`` and ``debiased`` with ``_mean``, ``_low``, ``_high``; (lams,).
        oracle: The risk itself.
    """
    lams = curves["lams"]
    for label, name, colour in (("SSL", "ssl", SSL), ("debiased", "debiased", DEBIASED)):
        mean, low, high = (curves[key] for key in _bands(name))
        axes.fill_between(lams, low, high, color=colour, alpha=0.2, linewidth=0)
        axes.plot(lams, mean, color=colour, label=label)
    axes.axhline(oracle, color=ORACLE, linestyle="--", label="oracle")
    axes.set(xlabel="λ", ylabel="estimate of the risk")
    axes.legend()


def draw_variance_ratio(
    axes: "Axes", curves: Mapping[str, Sequence[float]], least: tuple[float, float], *, of: str
) -> None:
    """Draw the variance over λ, of the theorem and of the splits.

    Args:
        axes: Where.
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


def _bands(name: str) -> tuple[str, str, str]:
    return f"{name}_mean", f"{name}_low", f"{name}_high"


def _panel() -> "tuple[Figure, Axes]":
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.6, 4.0), layout="constrained")
    return figure, figure.subplots()


def _png(figure: "Figure") -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=120)
    return buffer.getvalue()

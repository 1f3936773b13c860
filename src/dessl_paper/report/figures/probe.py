"""The figures of the probes: estimates and variances over λ, and λ_opt of each term."""

import math

from dessl.results.record import Record
from dessl_paper.report.averages import average, number, values_of
from dessl_paper.report.figures.panels import legend_below, panels
from dessl_paper.report.figures.style import DEBIASED, drawing, headline, pictures
from dessl_paper.report.paper import printed
from dessl_paper.report.results import Block, Results
from dessl_paper.report.risk_quality import draw_risk, draw_variance_ratio
from dessl_paper.report.tables.probe import LAMBDA, terms_of
from dessl_paper.report.titles import data_title, title


def curves_figure(results: Results, record: Record) -> dict[str, bytes] | None:
    """Both estimates of the risk over λ and their variance; a gradient's variance alone.

    None where the record has no curves.
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
        said = f"{record.data}, {record.title}, split {record.seed}"
        headline(figure, title(results), said)
        return pictures(figure)


def lambda_figure(results: Results, block: Block, method: str) -> dict[str, bytes] | None:
    """λ_opt of each term, ours and the paper's; None where none was computed."""
    terms = terms_of(results, block, method)
    if not terms:
        return None
    shown: list[float] = []
    with drawing():
        figure, (axes,) = panels(1)
        for place, term in enumerate(terms):
            metric = f"{LAMBDA}{term}"
            ours = average(values_of(results.runs(block, method), metric))
            half = None if ours.half_width is None else [ours.half_width]
            axes.errorbar([ours.mean], [place], xerr=half, color=DEBIASED[0], marker="o",
                          ls="none", capsize=3, label=None if place else "ours")  # fmt: skip
            given = printed(results, block, method, metric).mean
            first = not any(map(math.isfinite, shown[1::2]))
            axes.plot([given], [place + 0.25], color=DEBIASED[0], marker="o", linestyle="none",
                      markerfacecolor="none", label="paper" if first else None)  # fmt: skip
            shown += [ours.mean - (ours.half_width or 0.0), given]
        if all(value > 0 for value in shown if math.isfinite(value)):
            axes.set_xscale("log")
        axes.set_yticks(range(len(terms)), [term.replace("_", " ") for term in terms])
        axes.set_ylim(len(terms) - 0.4, -0.5)
        axes.set_xlabel("λ_opt")
        legend_below(figure, axes, ["ours", "paper"])
        headline(figure, title(results), data_title(results, block))
        return pictures(figure)

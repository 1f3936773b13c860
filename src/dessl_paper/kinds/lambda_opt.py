"""λ_opt of unlabelled terms, computed with a trained model: its table, figure and findings."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from dessl.data.parts import Part
from dessl.evaluation.metrics.vocabulary import NONE
from dessl.evaluation.risk_quality import oracle_lambda
from dessl.report.chart import pictures
from dessl.report.tables import Table
from dessl.results.averages import average, values_of
from dessl.results.record import Record
from dessl_paper.figures import DEBIASED, Pictures, drawing, headline, legend_below, panels
from dessl_paper.findings import Finding, Level, Outcome, gap, level, level_outcome
from dessl_paper.kinds.risk_curves import loss_and_term
from dessl_paper.results import Block, Results
from dessl_paper.specification import Experiment
from dessl_paper.targets import printed
from dessl_paper.training import unlabelled_term
from dessl_paper.wording import beside_paper, data_title, listed, title, written

LAMBDA = "lam_opt."
QUANTITIES = (
    "rows",
    "lam_opt",
    "standard_error",
    "slope",
    "correlation",
    "variance_ratio",
    "regime_low",
    "regime_high",
    "mean_loss",
    "mean_h",
)  # of each term, as ``lam_opt.entropy``
OWN = ("as", "confident_rows_alone")  # entries of a term that are not the surrogate's


@dataclass(frozen=True)
class LambdaSettings:
    """The settings of an experiment that computes λ_opt.

    Attributes:
        probe: Its name.
        labelled: Number of labelled rows in training.
        unlabelled: Number of unlabelled rows in training.
        terms: The unlabelled terms. ``as`` renames a term that appears several times;
            ``confident_rows_alone`` leaves out rows below its threshold.
    """

    probe: str
    labelled: int
    unlabelled: int
    terms: tuple[Mapping[str, Any], ...]


def lambdas_on(
    experiment: Experiment, model: nn.Module, test: Part, settings: LambdaSettings
) -> dict[str, Any]:
    """λ_opt of each term and related quantities, named like ``lam_opt.entropy``."""
    metrics: dict[str, Any] = {}
    n_l, n_u = settings.labelled, settings.unlabelled
    for one in settings.terms:
        own = dict(one)
        name = own.pop("as", own["name"])  # one term may appear in several ways
        above = own["threshold"] if own.pop("confident_rows_alone", False) else 0.0
        loss, h, confidence = loss_and_term(unlabelled_term(own, experiment.views), model, test)
        loss, h = loss[confidence >= above], h[confidence >= above]
        metrics[f"rows.{name}"] = len(h)
        if not len(h):  # a model that is confident in no row
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
    return metrics


def lambda_names(experiment: Experiment) -> list[str]:
    """The names of what is measured for each term of an experiment."""
    terms = [str(one.get("as", one.get("name"))) for one in experiment.settings["terms"]]
    return [f"{quantity}.{name}" for name in terms for quantity in QUANTITIES]


def terms_of(results: Results, block: Block, method: str) -> list[str]:
    """The unlabelled terms whose λ_opt was computed."""
    runs = results.runs(block, method)
    return [key.removeprefix(LAMBDA) for key in (runs[0].metrics if runs else ()) if LAMBDA in key]


def model_title(results: Results, block: Block, method: str) -> str:
    """The data set, and the model if there are several."""
    name = f", {results.methods[method]}" if len(results.methods) > 1 else ""
    return data_title(results, block) + name


def lambda_table(results: Results, block: Block, method: str) -> Table:
    """λ_opt of each term, ours and the paper's."""
    runs, rows = results.runs(block, method), []
    for term in terms_of(results, block, method):
        metric = f"{LAMBDA}{term}"
        ours, given, off = beside_paper(
            metric, average(values_of(runs, metric)), printed(results, block, method, metric)
        )
        rows.append(
            (
                term.replace("_", " "),
                ours,
                written(metric, _mean(runs, f"standard_error.{term}")),
                given,
                off,
                written(metric, _mean(runs, f"correlation.{term}")),
                written(metric, _mean(runs, f"variance_ratio.{term}")),
                _shared_range(runs, term),
            )
        )
    headings = (
        "unlabelled term",
        "λ_opt",
        "its standard error over test rows",
        "paper's",
        "off by",
        "ρ(L, H)",
        "variance at λ_opt, relative",
        "λ at which every model's variance is below the complete case's",
    )
    caption = f"{model_title(results, block, method)}: λ_opt of each term"
    return Table(caption, headings, tuple(rows)).without_empty_columns()


def _shared_range(runs: Sequence[Record], term: str) -> str:
    """The λ in every model's range; a model that is confident in no row has none and is ignored."""
    low, high = (
        [end for end in values_of(runs, f"regime_{side}.{term}") if not math.isnan(end)]
        for side in ("low", "high")
    )
    if not low:
        return NONE
    ends = max(low), min(high)
    if ends[0] >= ends[1]:
        return "none"
    return " to ".join(written(f"{LAMBDA}{term}", end) for end in ends)


def _mean(runs: Sequence[Record], key: str) -> float:
    return average(values_of(runs, key)).mean


def lambda_figure(results: Results, block: Block, method: str) -> Pictures | None:
    """λ_opt of each term, ours and the paper's; None if none was computed."""
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
        headline(figure, title(results), model_title(results, block, method))
        return pictures(figure)


def lambda_findings(results: Results, block: Block, method: str) -> Iterator[Finding]:
    """λ_opt of each term compared with the paper's, and their order."""
    known: list[Level] = []
    name = f"{results.methods[method]}: " if len(results.methods) > 1 else ""
    for term in terms_of(results, block, method):
        metric = f"{LAMBDA}{term}"
        found = level(results, block, method, metric, 0.0, term.replace("_", " "))
        if found is None:
            continue
        known.append(found)
        outcome, why = level_outcome(metric, found)
        yield Finding(outcome, f"{name}λ_opt of {found.name}: {gap(metric, found)}; {why}.")
    if len(known) > 1:
        ours = [one.name for one in sorted(known, key=lambda one: one.ours.mean)]
        theirs = [one.name for one in sorted(known, key=lambda one: one.paper.mean)]
        text = (
            f"{name}In increasing order of λ_opt: {listed(ours)}; in the paper: {listed(theirs)}."
        )
        same: Outcome = "agrees" if ours == theirs else "differs"
        sure = all(one.ours.half_width is not None for one in known)
        yield Finding(same if sure else "open", text)

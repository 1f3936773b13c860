"""The probes: properties of the debiased risk of a trained model, measured on the test rows.

The paper's appendix experiments. The setting ``probe`` names one of ``PROBES``: the risk and its
gradient over λ (:mod:`dessl_paper.kinds.risk_curves`), λ_opt of several unlabelled terms
(:mod:`dessl_paper.kinds.lambda_opt`), or these and the gradient's on test and training rows
(:mod:`dessl_paper.kinds.confidence`).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from torch import nn

from dessl._entries import EntryError, check_name, read_as
from dessl._json import finite
from dessl.data import SemiData
from dessl.data.parts import Part
from dessl.evaluation import evaluate
from dessl.evaluation.metrics.from_predictions import evaluating
from dessl.report.tables import Table
from dessl.results.averages import average, values_of
from dessl.results.record import Record
from dessl.surrogates import SURROGATES
from dessl_paper.comparison import Comparison
from dessl_paper.figures import Pictures, numbered
from dessl_paper.findings import Finding
from dessl_paper.kinds.confidence import confidence_names, confidence_on, has_one_view, still_term
from dessl_paper.kinds.lambda_opt import (
    OWN,
    LambdaSettings,
    lambda_figure,
    lambda_findings,
    lambda_names,
    lambda_table,
    lambdas_on,
    model_title,
)
from dessl_paper.kinds.risk_curves import (
    GRADIENT_METRICS,
    RISK_METRICS,
    GradientSettings,
    RiskSettings,
    curve_findings,
    curves_figure,
    measured_gradient,
    measured_risk,
    only_term,
)
from dessl_paper.made_with import Repeats
from dessl_paper.results import Block, Results
from dessl_paper.specification import Cell, Experiment, check_metrics
from dessl_paper.training import VIEWS, Measured, check_part, check_training, shown, trained_cells
from dessl_paper.wording import heading, ours_text

PUBLIC_DATA = True
REPEATS: Repeats = "models"  # here, splits divide the test rows

CONTEXT = ("accuracy", "cross_entropy", "ece")  # how good and how confident the model is


@dataclass(frozen=True)
class ConfidenceSettings(LambdaSettings):
    """The settings of an experiment on both test and training rows.

    Attributes:
        rows: At most this many of each are used for the gradient; the first ones are taken.
        at_once: Number of rows whose gradients are computed at once.
    """

    rows: int
    at_once: int


class Parts(NamedTuple):
    """The rows on which a model can be examined."""

    test: Part
    training: Part


def run_cells(
    experiment: Experiment,
    cells: list[Cell],
    left: set[str],
    data: SemiData | None,
    folder: Path,
    *,
    progress: bool,
) -> Iterator[Record]:
    """Train some cells and examine each model on the test rows."""
    return trained_cells(experiment, cells, left, data, folder, progress=progress, measured=probed)


def check(experiment: Experiment, source: str) -> None:
    """Reject settings that the probe does not have, and metrics that it does not measure."""
    check_training(experiment, source)
    check_name(experiment.settings.get("probe"), PROBES, source=source, at="settings.probe")
    probe = PROBES[experiment.settings["probe"]]
    settings = read_as(probe.settings, experiment.settings, source=source, at="settings")
    for place, entries in enumerate(settings.terms):
        at = f"settings.terms[{place}]"
        own = {key: value for key, value in entries.items() if key not in OWN}
        if len(own) < len(entries) and not issubclass(probe.settings, LambdaSettings):
            raise EntryError(f"{source}: {at}: {' and '.join(OWN)} go with probe = 'lambda_opt'")
        check_part(at, own, SURROGATES, (*VIEWS, "seed"), source)
    if not issubclass(probe.settings, LambdaSettings):
        only_term(settings.terms, source)
    check_metrics(experiment, [*CONTEXT, "rows", *probe.metrics(experiment)], source)


def probed(experiment: Experiment, model: nn.Module, data: SemiData) -> Measured:
    """Examine a trained model on the test rows.

    Args:
        experiment: An experiment of kind ``"probe"``.
        model: A map from normalised images to logits.
        data: On the model's device, with a test part whose labels are all known. Its labelled rows
            are those that the model was trained on.

    Returns:
        A few numbers by name, and the curves over λ by name. Both are ready for JSON; None stands
        for values that are not finite.
    """
    which = experiment.settings.get("probe")
    check_name(which, PROBES, at=f"the probe of {experiment.name}")
    assert data.test is not None  # noqa: S101 (experiment_data refuses data without)
    with evaluating(model):
        seen = evaluate(model, *data.test, transform=shown(experiment.views)).as_dict()
        trained_on = data.labelled_rows
        parts = Parts(data.test, Part(data.x[trained_on], data.y[trained_on]))
        metrics, arrays = PROBES[str(which)].measured(experiment, model, parts)
    context = {name: seen[name] for name in CONTEXT}
    return finite(context | {"rows": len(data.test.y)} | metrics), finite(arrays)


def measured_lambdas(experiment: Experiment, model: nn.Module, parts: Parts) -> Measured:
    """λ_opt of each term, for the numbers of labelled and unlabelled rows in training."""
    settings = read_as(LambdaSettings, experiment.settings, at="settings")
    return lambdas_on(experiment, model, parts.test, settings), {}


def measured_confidence(experiment: Experiment, model: nn.Module, parts: Parts) -> Measured:
    """λ_opt of each term on test rows; that of its gradient, and confidence, on both parts."""
    settings = read_as(ConfidenceSettings, experiment.settings, at="settings")
    metrics = lambdas_on(experiment, model, parts.test, settings)
    terms = {name: still_term(own) for name, own in _gradient_terms(settings.terms).items()}
    share = settings.labelled / (settings.labelled + settings.unlabelled)
    for name, part in parts._asdict().items():
        x, y = shown(experiment.views)(part.x[: settings.rows]), part.y[: settings.rows]
        n_labelled = max(1, round(share * len(y)))
        found = confidence_on(model, x, y, terms, n_labelled=n_labelled, at_once=settings.at_once)
        metrics |= {f"{name}_{quantity}": value for quantity, value in found.items()}
    return metrics, {}


def _gradient_terms(terms: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """The terms, by name, that use one view and every row."""
    named = {
        str(one.get("as", one["name"])): {key: one[key] for key in one if key not in OWN}
        for one in terms
        if not one.get("confident_rows_alone", False)
    }
    return {name: own for name, own in named.items() if has_one_view(own)}


class Probe(NamedTuple):
    """One way to examine a model: its settings, what it measures, and the metrics' names."""

    settings: type[RiskSettings | LambdaSettings]
    measured: Callable[[Experiment, nn.Module, Parts], Measured]
    metrics: Callable[[Experiment], Sequence[str]]


def _confidence_metrics(experiment: Experiment) -> list[str]:
    terms = _gradient_terms(experiment.settings["terms"])
    return [*lambda_names(experiment), *confidence_names(Parts._fields, terms)]


PROBES: dict[str, Probe] = {
    "risk": Probe(
        RiskSettings,
        lambda experiment, model, parts: measured_risk(experiment, model, parts.test),
        lambda _: RISK_METRICS,
    ),
    "gradient": Probe(
        GradientSettings,
        lambda experiment, model, parts: measured_gradient(experiment, model, parts.test),
        lambda _: GRADIENT_METRICS,
    ),
    "lambda_opt": Probe(LambdaSettings, measured_lambdas, lambda_names),
    "confidence": Probe(ConfidenceSettings, measured_confidence, _confidence_metrics),
}


def tables(results: Results) -> list[Table]:
    """A table of the model's metrics, then one of λ_opt."""
    found = []
    for block in results.blocks:
        for method in results.methods:
            found.append(_quantities(results, block, method))
            found.append(lambda_table(results, block, method))
    return [table for table in found if table.rows]


def _quantities(results: Results, block: Block, method: str) -> Table:
    runs = results.runs(block, method)
    plain = [metric for metric in results.metrics if "." not in metric]
    wanted = [metric for metric in (*CONTEXT, *plain) if runs and metric in runs[0].metrics]
    rows = tuple(
        (heading(metric), ours_text(metric, average(values_of(runs, metric)))) for metric in wanted
    )
    alone = len(results.methods) == 1
    of = f"with the model of the {results.methods[method]}" if alone else "the model"
    caption = f"{model_title(results, block, method)}: {of}"
    return Table(caption, ("quantity", "ours"), rows)


def comparisons(results: Results, block: Block) -> list[Comparison]:  # noqa: ARG001
    """None: a probe examines one method."""
    return []


def figures(results: Results) -> dict[str, Pictures]:
    """The curves of each method's first split, or λ_opt over all of them."""
    found: list[Pictures | None] = []
    for block in results.blocks:
        for method in results.methods:
            runs = results.runs(block, method)
            found += [curves_figure(results, runs[0])] if runs else []
            found.append(lambda_figure(results, block, method))
    made = [pictures for pictures in found if pictures]
    names = numbered("figure", [str(number + 1) for number in range(len(made))])
    return dict(zip(names, made, strict=True))


def findings(results: Results) -> list[Finding]:
    """Findings of every run that was examined, or of λ_opt over all of them."""
    found: list[Finding] = []
    splits = results.experiment.settings.get("splits", 0)
    for block in results.blocks:
        for method in results.methods:
            runs = results.runs(block, method)
            for record in runs:
                name = f"Split {record.seed}: " if len(runs) > 1 else ""
                found += [
                    Finding(one.outcome, name + one.text) for one in curve_findings(record, splits)
                ]
            found += lambda_findings(results, block, method)
    return found

"""``dessl evaluate``: evaluate a run's model on fully or partly labelled rows."""

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, cast

from rich.table import Table
from rich.text import Text
from typer import Option

from dessl.cli.against import DEFAULTS, compared, other_probabilities, show_differences
from dessl.cli.options import AsJson, DataArgument, RunFolder, Sheet
from dessl.cli.output import PlainConsole, noted_warnings, say, show, show_json, visible
from dessl.cli.predict import Twin, run_model

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from torch import Tensor

    from dessl.data import Part
    from dessl.evaluation import Metrics
    from dessl.evaluation.conformal import PredictionSets
    from dessl.evaluation.debiased.compare import ModelComparison
    from dessl.evaluation.debiased.estimate import MetricEstimate
    from dessl.evaluation.debiased.proxies import MetricName
    from dessl.saved import SavedModel

LEAST_LABELS = 3
LEAST_IN_GROUP = 10  # fewest labelled rows for a useful interval
LabelsFile = Annotated[str | None, Option(help="File with the labels, for .npy files.")]
Label = Annotated[
    str | None, Option(help="Column with the labels in that file, if it has several.")
]
MetricNames = Annotated[
    list[str] | None,
    Option(
        "--metric",
        help="Metric to estimate: auc, macro_f1, recall, precision, ...; repeatable.",
    ),
]
ClassName = Annotated[
    str | None, Option("--class", help="Class for recall, precision, tpr, fpr and auc.")
]
Threshold = Annotated[
    float | None, Option(help="Probability above which a row is positive, for tpr and fpr.")
]
Propensity = Annotated[
    str | None,
    Option(help="Column with each labelled row's probability of being labelled."),
]
Strata = Annotated[
    str | None, Option(help="Column of strata, if a fixed number of rows was labelled in each.")
]
By = Annotated[
    str | None, Option("--by", help="Also report the metrics for each value of this column.")
]
Sets = Annotated[
    float | None,
    Option("--sets", help="Compute prediction sets with this coverage, such as 0.9."),
]

Against = Annotated[
    str | None,
    Option(
        metavar="RUN",
        help="Another run to compare with, or complete-case for this run's complete case.",
    ),
]


class Question(NamedTuple):
    """What to estimate, and the columns read from DATA, with one entry per row."""

    metrics: tuple[str, ...] = ("accuracy", "cross_entropy", "brier")
    positive: int | None = None
    threshold: float | None = None
    propensity: "NDArray[np.float64] | None" = None
    strata: "NDArray[np.str_] | None" = None


def evaluate(
    run: RunFolder,
    data: DataArgument,
    labels: LabelsFile = None,
    label: Label = None,
    sheet: Sheet = None,
    metric: MetricNames = None,
    class_name: ClassName = None,
    threshold: Threshold = None,
    propensity: Propensity = None,
    strata: Strata = None,
    by: By = None,
    sets: Sets = None,
    against: Against = None,
    complete_case: Twin = False,
    as_json: AsJson = False,
) -> None:
    """Evaluate a model on rows it was not trained on, with 95 % intervals.

    If only some rows are labelled, the unlabelled ones make the estimates more precise without
    bias.

    Example: dessl evaluate runs/people later.csv --metric auc --metric recall --class ill

    Example: dessl evaluate runs/people later.csv --against runs/older --metric wins
    """
    from dessl.cli.columns import labelled_numbers, text_column
    from dessl.cli.new_rows import Expected, new_rows
    from dessl.cli.teaching import probabilities

    model = run_model(run, complete_case=complete_case)
    rows = _labelled_rows(model, data, labels, label, sheet)
    metrics = tuple(metric or (DEFAULTS if against else Question().metrics))
    _check_complete(metrics, model.class_names, class_name, threshold, against)
    question = Question(
        metrics=metrics,
        positive=_class_number(class_name, model.class_names),
        threshold=threshold,
        propensity=None
        if propensity is None
        else labelled_numbers(data, propensity, rows, sheet=sheet),
        strata=None if strata is None else text_column(data, strata, rows, sheet=sheet),
    )
    groups = None if by is None else text_column(data, by, rows, sheet=sheet)

    def read(other: "SavedModel") -> "Tensor":
        x = new_rows(data, Expected.of(other), labels=False, sheet=sheet)[0].x
        return probabilities(other, data, x, sheet=sheet)

    with noted_warnings():
        p = probabilities(model, data, rows.x, sheet=sheet)
        measured = _measured(p, rows, question, groups, sets)
        if against:
            other = other_probabilities(run, against, model, read)
            how = partial(_options, rows, question, slice(None))
            measured = measured._replace(differences=compared(p, other, rows, metrics, how))
    if as_json:
        show_json(measured.as_dict())
        return
    _show(data, rows, measured, by)
    if against and measured.differences:
        show_differences(measured.differences, against)


def _labelled_rows(
    model: "SavedModel", data: str, labels: str | None, label: str | None, sheet: str | None
) -> "Part":
    """The rows of DATA, some of them with a label."""
    from dessl.cli.new_rows import Expected, check_labels_present, new_rows
    from dessl.cli.sources import fingerprint
    from dessl.data import DataError

    expected = Expected.of(model)
    with noted_warnings():
        rows, _ = new_rows(data, expected, labels_file=labels, label=label, sheet=sheet)
    check_labels_present(data, rows, expected, sheet=sheet)
    known = fingerprint(data)  # reads all of DATA
    if known is not None and known == model.details.get("data_sha256"):
        say(
            f"Note: the model was trained on rows of {data}, so these metrics are optimistic.",
            style="yellow",
        )
    n_labelled = int(rows.labelled.sum())
    if n_labelled < LEAST_LABELS:
        raise DataError.of(
            data,
            expected=f"at least {LEAST_LABELS} labelled rows",
            got=f"{n_labelled}",
            do="Label some rows, or use dessl predict.",
        )
    return rows


class Measured(NamedTuple):
    """Metrics on the labelled rows, and estimates for all rows and for each group."""

    metrics: "Metrics"
    estimates: "dict[str, MetricEstimate]"
    groups: "dict[str, dict[str, MetricEstimate]]"
    sets: "PredictionSets | None"
    set_size: float
    differences: "dict[str, ModelComparison] | None" = None

    def as_dict(self) -> dict[str, Any]:
        """Return everything for JSON."""
        from dessl._json import json_ready

        def entries(
            estimates: "dict[str, MetricEstimate] | dict[str, ModelComparison]",
        ) -> dict[str, Any]:
            return {
                name: {**one._asdict(), "labelled_only": one.labelled_only._asdict()}
                for name, one in estimates.items()
            }

        found = {"labelled_rows": self.metrics.as_dict(), "estimates": entries(self.estimates)}
        if self.groups:
            found["groups"] = {name: entries(one) for name, one in self.groups.items()}
        if self.differences:
            found["differences"] = entries(self.differences)
        if self.sets:
            found["sets"] = {**self.sets._asdict(), "classes_per_row": self.set_size}
        return cast("dict[str, Any]", json_ready(found))


def _measured(
    p: "Tensor",
    rows: "Part",
    question: Question,
    groups: "NDArray[np.str_] | None",
    coverage: float | None,
) -> Measured:
    import torch

    from dessl.evaluation import metrics_from_probabilities, prediction_sets

    known = rows.labelled
    metrics = metrics_from_probabilities(p[known], rows.y[known])
    by_group: dict[str, dict[str, MetricEstimate]] = {}
    for name in sorted(set(groups.tolist())) if groups is not None else ():
        inside = torch.as_tensor(groups == name)
        if int((inside & known).sum()) < LEAST_IN_GROUP:
            say(f"Note: {name} has fewer than {LEAST_IN_GROUP} labelled rows and was skipped.")
            continue
        by_group[name] = _estimates(p, rows, question, inside)
    rule, size = None, 0.0
    if coverage is not None:
        rule = prediction_sets(p[known], rows.y[known], p[~known], coverage=coverage)
        size = float(rule.sets(p).sum(dim=1).double().mean())
    everyone = torch.ones_like(known)
    return Measured(metrics, _estimates(p, rows, question, everyone), by_group, rule, size)


def _estimates(
    p: "Tensor", rows: "Part", question: Question, inside: "Tensor"
) -> "dict[str, MetricEstimate]":
    """Every metric over some of the rows."""
    from dessl.evaluation import estimate_metric

    known, others = rows.labelled & inside, ~rows.labelled & inside
    return {
        name: estimate_metric(
            cast("MetricName", name),
            p[known],
            rows.y[known],
            p[others],
            **_options(rows, question, inside.numpy(), name),
        )
        for name in question.metrics
        if name != "wins"
    }


def _options(
    rows: "Part", question: Question, inside: "NDArray[np.bool_] | slice", name: str
) -> dict[str, Any]:
    """The class, threshold and sampling design for a metric over some of the rows."""
    from dessl.evaluation.debiased.rates import AT_A_THRESHOLD, OF_ONE_CLASS

    known = rows.labelled.numpy()
    found: dict[str, Any] = {}
    if name in (*OF_ONE_CLASS, "auc"):
        found["positive"] = question.positive
    if name in AT_A_THRESHOLD:
        found["threshold"] = question.threshold
    if question.propensity is not None:
        found["propensity"] = question.propensity[inside][known[inside]]
    if question.strata is not None:
        strata = question.strata[inside]
        found["strata"] = strata[known[inside]]
        if question.propensity is None:
            found["strata_unlabelled"] = strata[~known[inside]]
    return found


def _check_complete(
    metrics: tuple[str, ...],
    names: tuple[str, ...],
    class_name: str | None,
    threshold: float | None,
    against: str | None,
) -> None:
    """Raise a ValueError that names the option a metric needs."""
    from dessl.evaluation.debiased.rates import AT_A_THRESHOLD, OF_ONE_CLASS

    for metric in metrics:
        if metric == "wins" and not against:
            raise ValueError(
                "wins compares two models. Pass --against RUN with the other model's run."
            )
        if metric in OF_ONE_CLASS and class_name is None and len(names) > 2:
            raise ValueError(
                f"{metric} is computed for one class. Pass --class NAME, one of {', '.join(names)}."
            )
        if metric in AT_A_THRESHOLD and threshold is None and len(names) > 2:
            raise ValueError(
                f"{metric} needs a threshold with more than two classes. Pass --threshold T, the "
                "probability above which a row counts as positive."
            )


def _class_number(name: str | None, names: tuple[str, ...]) -> int | None:
    if name is None:
        return None
    if name not in names:
        from dessl.cli.sources import nearest

        raise ValueError(
            f"--class must be one of the model's classes; got {name!r}. "
            + nearest(name, names, otherwise=f"The classes are {', '.join(names)}.")
        )
    return names.index(name)


def _show(source: str, rows: "Part", measured: Measured, by: str | None) -> None:
    from dessl.evaluation.metrics.vocabulary import MAIN, metric_text, written

    metrics, estimates = measured.metrics, measured.estimates
    n, n_unlabelled = metrics.n, len(rows.y) - metrics.n
    more = f" and {n_unlabelled} unlabelled" if n_unlabelled else ""
    table = Table(title=Text(visible(f"{source}: {n} labelled rows{more}")))
    headings = ("metric", "labelled rows only", "estimate", "95 % interval")
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "metric" else "right")
    for name in dict.fromkeys((*MAIN, *estimates)):
        plain = getattr(metrics, name, None)
        one = estimates.get(name)
        cells = ["" if plain is None else written(name, plain)]
        table.add_row(metric_text(name), *cells, *(_cells(name, one) if one else ("", "")))
    PlainConsole().print(table)
    if measured.groups:
        _show_groups(measured.groups, by or "")
    if capped := estimates.get("cross_entropy"):
        show(f"For the cross-entropy estimate, dessl caps each row's loss at {capped.clip:.1f}.")
    if n_unlabelled:
        show("The estimates also use the unlabelled rows, with their bias removed.")
    if rule := measured.sets:
        show(
            f"Prediction sets with coverage {rule.coverage:.0%}: all classes with probability of "
            f"at least {1 - rule.threshold:.3f}; {measured.set_size:.2f} classes on average."
        )


def _cells(name: str, one: "MetricEstimate") -> tuple[str, str]:
    from dessl.evaluation.metrics.vocabulary import written

    return written(name, one.value), f"{written(name, one.low)} to {written(name, one.high)}"


def _show_groups(groups: "dict[str, dict[str, MetricEstimate]]", by: str) -> None:
    from dessl.evaluation.metrics.vocabulary import metric_text

    table = Table(title=Text(visible(f"By {by}")))
    for heading in (by, "labelled rows", "metric", "estimate", "95 % interval"):
        table.add_column(heading)
    for group, estimates in groups.items():
        for name, one in estimates.items():
            table.add_row(group, str(one.n_labelled), metric_text(name), *_cells(name, one))
    PlainConsole().print(table)

"""``dessl evaluate``: evaluate a run's model on fully or partly labelled rows."""

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, cast

from rich.table import Table
from rich.text import Text
from typer import Option

from dessl.cli.against import DEFAULTS, compared, other_probabilities, show_differences
from dessl.cli.options import (
    AS_IT_IS,
    AsJson,
    DataArgument,
    Encoding,
    Missing,
    OtherAnswers,
    Reading,
    RunFolder,
    Sheet,
    SkipDamaged,
)
from dessl.cli.output import PlainConsole, noted_warnings, say, show, show_json, visible
from dessl.cli.predict import Twin, run_model
from dessl.cli.question import ESTIMATED, Question, check_complete, class_number

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

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

LEAST_IN_GROUP = 10  # fewest labelled rows for a useful interval
LabelsFile = Annotated[
    str | None,
    Option(
        help="File with the labels of .npy files, or table with the file names of images, their "
        "labels and other columns."
    ),
]
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
    float | None, Option(help="Probability from which a row counts as positive, for tpr and fpr.")
]
Propensity = Annotated[
    str | None,
    Option(help="Column with each labelled row's probability of being labelled."),
]
Strata = Annotated[
    str | None, Option(help="Column of strata, if a fixed number of rows was labelled in each.")
]
Group = Annotated[
    str | None,
    Option(
        metavar="COLUMN",
        help="Column that says which rows belong together, such as a patient's: intervals then "
        "allow for their correlation; for images, a regular expression of file names. Default: "
        "that of the run, if DATA has it.",
    ),
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


def evaluate(
    run: RunFolder,
    data: DataArgument,
    labels: LabelsFile = None,
    label: Label = None,
    sheet: Sheet = None,
    encoding: Encoding = None,
    missing: Missing = None,
    skip_damaged: SkipDamaged = False,
    metric: MetricNames = None,
    class_name: ClassName = None,
    threshold: Threshold = None,
    propensity: Propensity = None,
    strata: Strata = None,
    group: Group = None,
    by: By = None,
    sets: Sets = None,
    against: Against = None,
    other_answers: OtherAnswers = None,
    complete_case: Twin = False,
    as_json: AsJson = False,
) -> None:
    """Evaluate a model on rows it was not trained on, with 95 % intervals.

    If only some rows are labelled, the unlabelled ones make the estimates more precise without
    bias.

    Example: dessl evaluate runs/people later.csv --metric auc --metric recall --class ill

    Example: dessl evaluate runs/people later.csv --against runs/older --metric wins

    Example: dessl evaluate runs/people visits.csv --group patient
    """
    from dessl.cli.columns import group_names, labelled_numbers, texts_of
    from dessl.cli.groups import groups_of_run
    from dessl.cli.labelled_rows import labelled_rows, padded
    from dessl.cli.new_answers import probabilities
    from dessl.cli.new_rows import Expected, new_rows
    from dessl.evaluation.metrics.vocabulary import MAIN

    model = run_model(run, complete_case=complete_case)
    given = Reading.of(sheet, encoding, missing)
    read_rows = labelled_rows(
        model, data, labels=labels, label=label, reading=given, skip_damaged=skip_damaged
    )
    if sets is not None:
        read_rows.refuse_unknown_classes("--sets")
    rows, names, beside = read_rows.rows, read_rows.class_names, read_rows.named.beside
    how = given.like(model.encoding, data)
    metrics = tuple(dict.fromkeys(metric or (DEFAULTS if against else ESTIMATED)))
    check_complete(metrics, model.class_names, class_name, threshold, against)
    with noted_warnings():
        question = Question(
            metrics=metrics,
            class_names=names,
            positive=class_number(class_name, names),
            threshold=threshold,
            propensity=None
            if propensity is None
            else labelled_numbers(data, propensity, rows, reading=how, beside=beside),
            strata=None
            if strata is None
            else texts_of(data, strata, len(rows.y), how, beside=beside),
            groups=groups_of_run(run, group, read_rows.named, how),
            check_shift=not read_rows.trained_on,
        )
    _note_propensity(run, rows, given=propensity is not None or strata is not None)
    groups = None if by is None else group_names(data, by, rows, reading=how, beside=beside)

    answers = None if str(labels).endswith(".npy") else labels

    def read(other: "SavedModel") -> "Tensor":
        x = new_rows(
            data, Expected.of(other), labels=False, skip_damaged=skip_damaged,
            reading=AS_IT_IS if beside else given,
        )[0].x  # fmt: skip
        return probabilities(
            other, data, x, file=answers, reading=given, other_answers=other_answers
        )

    with noted_warnings():
        known = probabilities(
            model, data, rows.x, file=answers, reading=given, other_answers=other_answers
        )
        p = padded(known, names)
        measured = _measured(p, rows, question, groups, sets)
        if against:
            other = padded(other_probabilities(run, against, model, read), names)
            options = partial(question.options, rows, slice(None))
            measured = measured._replace(differences=compared(p, other, rows, metrics, options))
    if as_json:
        show_json(measured.as_dict(question))
        return
    _show(data, rows, measured, question, metrics if metric else MAIN)
    if measured.groups:
        _show_groups(measured.groups, by or "", question)
    _show_notes(measured, len(rows.y))
    if against and measured.differences:
        show_differences(measured.differences, against, question.heading)


def _note_propensity(run: "Path", rows: "Part", *, given: bool) -> None:
    """Say that labels of a run with propensities may be no random sample here either."""
    from dessl.cli.fit_folder import run_options

    name = run_options(run).get("propensity")
    if name is not None and not given and not bool(rows.labelled.all()):
        say(
            f"Note: the run was fitted with --propensity {name}, but here the labelled rows are "
            "taken as a random sample of DATA. If they are not one, pass --propensity COLUMN with "
            "each row's probability of being labelled.",
            style="yellow",
        )


class Measured(NamedTuple):
    """Metrics on the labelled rows, and estimates for all rows and for each group.

    ``set_size`` is the mean number of classes in a prediction set, and ``n_below`` the number of
    rows without a class above the threshold, whose set is the most likely class.
    """

    metrics: "Metrics"
    estimates: "dict[str, MetricEstimate]"
    groups: "dict[str, dict[str, MetricEstimate]]"
    sets: "PredictionSets | None"
    set_size: float
    n_below: int
    differences: "dict[str, ModelComparison] | None" = None

    def as_dict(self, question: Question) -> dict[str, Any]:
        """Return everything for JSON, with the class and threshold of each metric."""
        from dessl._json import json_ready

        def entries(
            estimates: "dict[str, MetricEstimate] | dict[str, ModelComparison]",
        ) -> dict[str, Any]:
            return {
                name: {
                    **question.subject(name),
                    **one._asdict(),
                    "labelled_only": one.labelled_only._asdict(),
                }
                for name, one in estimates.items()
            }

        found = {"labelled_rows": self.metrics.as_dict(), "estimates": entries(self.estimates)}
        if self.groups:
            found["groups"] = {name: entries(one) for name, one in self.groups.items()}
        if self.differences:
            found["differences"] = entries(self.differences)
        if self.sets:
            found["sets"] = {
                **self.sets._asdict(),
                "classes_per_row": self.set_size,
                "rows_below_threshold": self.n_below,
            }
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
    from dessl.evaluation.debiased.groups import FEWEST_GROUPS

    known = rows.labelled
    metrics = metrics_from_probabilities(p[known], rows.y[known])
    by_group: dict[str, dict[str, MetricEstimate]] = {}
    for name in sorted(set(groups.tolist())) if groups is not None else ():
        inside = torch.as_tensor(groups == name)
        if int((inside & known).sum()) < LEAST_IN_GROUP:
            say(f"Note: {name} has fewer than {LEAST_IN_GROUP} labelled rows and was skipped.")
            continue
        if question.groups is not None:
            own = len(set(question.groups[(inside & known).numpy()].tolist()))
            if own < FEWEST_GROUPS:
                say(f"Note: {name} has labels of fewer than {FEWEST_GROUPS} groups: skipped.")
                continue
        by_group[name] = _estimates(p, rows, question, inside, where=f" for {name}")
    rule, size, below = None, 0.0, 0
    if coverage is not None:
        together = None if question.groups is None else question.groups[known.numpy()]
        rule = prediction_sets(
            p[known], rows.y[known], p[~known], coverage=coverage, groups=together,
            check_shift=question.check_shift,
        )  # fmt: skip
        size = float(rule.sets(p).sum(dim=1).double().mean())
        below = int((~rule.above(p).any(dim=1)).sum())
    everyone = torch.ones_like(known)
    estimates = _estimates(p, rows, question, everyone)
    if not estimates and set(question.metrics) != {"wins"}:
        raise ValueError("none of the metrics can be estimated. Label more rows, or use others.")
    return Measured(metrics, estimates, by_group, rule, size, below)


def _estimates(
    p: "Tensor", rows: "Part", question: Question, inside: "Tensor", where: str = ""
) -> "dict[str, MetricEstimate]":
    """Every metric over some of the rows; those that these rows do not define are skipped."""
    from dessl._checks import quoted
    from dessl.evaluation import estimate_metric
    from dessl.evaluation.debiased.rates import UndefinedMetricError

    known, others = rows.labelled & inside, ~rows.labelled & inside
    found = {}
    for name in question.metrics:
        if name == "wins":
            continue
        options = question.options(rows, inside.numpy(), name)
        try:
            found[name] = estimate_metric(
                cast("MetricName", name), p[known], rows.y[known], p[others], **options
            )
        except UndefinedMetricError as error:
            which = error.words.format(quoted(question.class_names[error.number]))
            heading = question.heading(name).removesuffix(", %")
            say(f"Note: {heading}{where} is not defined: no labelled row is {which}.")
    return found


def _show(
    source: str, rows: "Part", measured: Measured, question: Question, shown: "Sequence[str]"
) -> None:
    """A table of the metrics named in ``shown``; those of two models are shown elsewhere."""
    from dessl.evaluation.metrics.vocabulary import MAIN, written

    metrics, estimates = measured.metrics, measured.estimates
    n, n_unlabelled = metrics.n, len(rows.y) - metrics.n
    more = f" and {n_unlabelled} unlabelled" if n_unlabelled else ""
    table = Table(title=Text(visible(f"{source}: {n} labelled rows{more}")))
    headings = ("metric", "labelled rows only", "estimate", "95 % interval")
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "metric" else "right")
    for name in (name for name in shown if name in (*MAIN, *estimates)):
        one = estimates.get(name)
        alone = getattr(metrics, name) if name in MAIN or one is None else one.labelled_only.value
        cells = _cells(name, one) if one else ("", "")
        table.add_row(question.heading(name), written(name, alone), *cells)
    if table.row_count:
        PlainConsole().print(table)


def _show_notes(measured: Measured, n_rows: int) -> None:
    """How the estimates were made, and the rule of the prediction sets."""
    if capped := measured.estimates.get("cross_entropy"):
        show(f"For the cross-entropy estimate, dessl caps each row's loss at {capped.clip:.1f}.")
    if measured.estimates and n_rows > measured.metrics.n:
        show("The estimates also use the unlabelled rows, with their bias removed.")
    if rule := measured.sets:
        whose = "" if rule.n_groups is None else " of rows of new groups"
        show(
            f"Prediction sets with coverage {rule.coverage:.0%}{whose}: the most likely class, and "
            f"every class with probability of at least {1 - rule.threshold:.3f}; "
            f"{measured.set_size:.2f} classes on average. {measured.n_below} of {n_rows} rows have "
            "no class with that probability: their set is the most likely class alone."
        )


def _cells(name: str, one: "MetricEstimate") -> tuple[str, str]:
    from dessl.evaluation.metrics.vocabulary import written

    return written(name, one.value), f"{written(name, one.low)} to {written(name, one.high)}"


def _show_groups(
    groups: "dict[str, dict[str, MetricEstimate]]", by: str, question: Question
) -> None:
    table = Table(title=Text(visible(f"By {by}")))
    for heading in (by, "labelled rows", "metric", "estimate", "95 % interval"):
        table.add_column(heading)
    for group, estimates in groups.items():
        for name, one in estimates.items():
            table.add_row(group, str(one.n_labelled), question.heading(name), *_cells(name, one))
    PlainConsole().print(table)

"""``dessl evaluate``: evaluate a run's model on fully or partly labelled rows."""

import math
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from dessl.cli.options import AsJson, DataArgument, RunFolder
from dessl.cli.output import noted_warnings, say, show, show_json
from dessl.cli.predict import Twin, run_model

if TYPE_CHECKING:
    from torch import Tensor

    from dessl.data import Part
    from dessl.evaluation import Metrics
    from dessl.evaluation.debiased.estimate import MetricEstimate
    from dessl.evaluation.debiased.proxies import MetricName

LEAST_LABELS = 3


def evaluate(
    run: RunFolder, data: DataArgument, complete_case: Twin = False, as_json: AsJson = False
) -> None:
    """Evaluate a model on rows it was not trained on, with 95 % intervals.

    If only some rows have a label, the others make the estimates more precise without bias.

    Example: dessl evaluate runs/people later.csv
    """
    from dessl.cli.sources import Expected, check_labels_present, fingerprint, new_rows
    from dessl.cli.teaching import probabilities
    from dessl.data import DataError

    model = run_model(run, complete_case=complete_case)
    expected = Expected.of(model)
    with noted_warnings():
        rows, _ = new_rows(data, expected)
    check_labels_present(data, rows, expected)
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
            expected=f"at least {LEAST_LABELS} rows with a label",
            got=f"{n_labelled}",
            do="Label some rows, or use dessl predict.",
        )
    metrics, estimates = _measured(probabilities(model, data, rows.x), rows)
    if as_json:
        found = {name: one._asdict() for name, one in estimates.items()}
        for entry in found.values():
            entry["labelled_only"] = entry["labelled_only"]._asdict()
        show_json({"labelled_rows": metrics.as_dict(), "estimates": found})
        return
    _show(data, rows, metrics, estimates)


def _measured(p: "Tensor", rows: "Part") -> "tuple[Metrics, dict[str, MetricEstimate]]":
    from dessl.evaluation import estimate_metric, metrics_from_probabilities
    from dessl.evaluation.debiased.estimate import FEW_LABELS

    known = rows.labelled
    metrics = metrics_from_probabilities(p[known], rows.y[known])
    names: tuple[MetricName, ...] = ("accuracy", "brier")
    if int(known.sum()) >= FEW_LABELS and math.isfinite(metrics.cross_entropy):
        names = (*names, "cross_entropy")
    return metrics, {
        name: estimate_metric(name, p[known], rows.y[known], p[~known]) for name in names
    }


def _show(
    source: str, rows: "Part", metrics: "Metrics", estimates: "dict[str, MetricEstimate]"
) -> None:
    from dessl.evaluation.metrics.vocabulary import MAIN, metric_text, written

    n, n_unlabelled = metrics.n, len(rows.y) - metrics.n
    beside = f" and {n_unlabelled} without" if n_unlabelled else ""
    table = Table(title=Text(f"{source}: {n} rows with a label{beside}"))
    headings = ("metric", "on the labelled rows", "estimate", "95 % interval")
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "metric" else "right")
    for name in MAIN:
        cells = [written(name, getattr(metrics, name)), "", ""]
        if one := estimates.get(name):
            interval = f"{written(name, one.low)} to {written(name, one.high)}"
            cells[1:] = [written(name, one.value), interval]
        table.add_row(metric_text(name), *cells)
    Console().print(table)
    if n_unlabelled:
        show("The estimates are debiased: they also use the rows without a label.")

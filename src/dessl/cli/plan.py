"""``dessl plan``: how many labels are needed, and which rows to label next."""

import csv
import io
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from typer import Option

from dessl.cli.audit import Label, Labels
from dessl.cli.options import (
    HOLD_OUT,
    AsJson,
    Categorical,
    DataArgument,
    Encoding,
    Ignore,
    Missing,
    Reading,
    Seed,
    Sheet,
    Size,
    SkipDamaged,
)

if TYPE_CHECKING:
    from dessl.data import SemiData

Metric = Annotated[Literal["accuracy", "cross_entropy"], Option(help="Metric to estimate.")]
Width = Annotated[
    float | None, Option(help="Half-width of the 95 % interval you want, such as 0.02.")
]
Difference = Annotated[
    float | None, Option(help="Smallest difference between two models that you want to detect.")
]
Rows = Annotated[
    int | None,
    Option(
        min=1, help="Number of rows to label next; with --group, about this many, in whole groups."
    ),
]
Group = Annotated[
    str | None,
    Option(
        metavar="COLUMN",
        help="Column that says which rows belong together, such as a patient's: the plan then "
        "allows for their correlation. For images: a regular expression of file names.",
    ),
]
Out = Annotated[Path | None, Option(metavar="FILE", help="Write these rows to this .csv file.")]


def plan(
    data: DataArgument,
    label: Label = None,
    labels: Labels = None,
    ignore: Ignore = None,
    categorical: Categorical = None,
    size: Size = None,
    sheet: Sheet = None,
    encoding: Encoding = None,
    missing: Missing = None,
    skip_damaged: SkipDamaged = False,
    group: Group = None,
    metric: Metric = "accuracy",
    width: Width = None,
    difference: Difference = None,
    rows: Rows = None,
    out: Out = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Plan labels: how many are needed, and which rows to label next.

    Only test labels, which no model is trained on, make an interval narrower:
    of the labels in DATA, dessl fit holds out a fifth.

    Rows are drawn at random, more often where a model is uncertain. The file has
    a line for each row of DATA: whether to label it, and the probability that it
    has a label afterwards. Pass that column to --propensity later, so that
    estimates stay unbiased. For images, the file is a table for --labels.

    Example: dessl plan people.csv --label outcome --width 0.02

    Example: dessl plan people.csv --label outcome --rows 50 --out next.csv

    Example: dessl plan visits.csv --label outcome --group patient --width 0.05
    """
    from dessl.cli.groups import grouped_data
    from dessl.cli.output import noted_warnings, show, show_json
    from dessl.evaluation.verdict import of_groups
    from dessl.safety.planner import next_rows, plan_labels

    _check_options(width, difference, rows, out)
    with noted_warnings():
        read = grouped_data(
            data, label=label, ignore=ignore, categorical=categorical, group=group, size=size,
            skip_damaged=skip_damaged, reading=Reading.of(sheet, encoding, missing), labels=labels,
        )  # fmt: skip
    if rows is not None and rows > len(read.unlabelled_rows):
        raise ValueError(
            f"--rows must be at most {len(read.unlabelled_rows)}, the number of unlabelled rows; "
            f"got {rows}. Pass a smaller number."
        )
    answer: dict[str, object] = {}
    lines = []
    if width is not None or difference is not None:
        planned = plan_labels(
            read,
            metric=metric,
            width=width,
            difference=difference,
            share=HOLD_OUT if read.test is None else 1.0,
            seed=seed,
        )
        answer["plan"] = vars(planned)
        lines.append(planned.sentence)
    if rows is not None and out is not None:
        chosen = next_rows(read, rows, seed=seed)
        names = read.row_names or [str(row) for row in range(len(read))]
        more = {"label": _known_labels(read)} if _is_images(data) else {}
        _write(out, names, set(chosen.rows.tolist()), chosen.propensity.tolist(), more)
        answer["rows"] = [names[row] for row in chosen.rows.tolist()]
        drawn = None if read.groups is None else len(set(read.groups[chosen.rows].tolist()))
        lines.append(
            f"{len(chosen.rows)} rows{of_groups(drawn)} to label: {out}. {_then(data, group, out)}"
        )
    if as_json:
        show_json(answer)
    else:
        for line in lines:
            show(line)


def _is_images(data: str) -> bool:
    from dessl.cli.sources import kind_of

    return kind_of(data) == "images"


def _known_labels(read: "SemiData") -> list[str]:
    """The class of each row, "" for none."""
    return [read.class_names[code] if code >= 0 else "" for code in read.y.tolist()]


def _then(data: str, group: str | None, out: Path) -> str:
    """How to train on the labels afterwards."""
    from dessl.cli.sources import kind_of

    more = f" and --group {shlex.quote(group)}" if group else ""
    if _is_images(data):
        return (
            "Then fill in their labels in its column label, and pass --labels "
            f"{shlex.quote(str(out))} --label label --propensity propensity{more}; leave the "
            "images where they are."
        )
    if kind_of(data) in ("table", "npz"):
        return (
            f"Then add its column propensity to the data, and pass --propensity propensity{more}."
        )
    return "Then pass --propensity estimate-x: these data have no columns for propensities."


def _check_options(
    width: float | None, difference: float | None, rows: int | None, out: Path | None
) -> None:
    if width is None and difference is None and rows is None:
        raise ValueError(
            "nothing to plan. Pass --width W (how many labels for an interval of ±W?), "
            "--difference D (how many to tell two models apart that differ by D?), or --rows N "
            "--out FILE.csv (which N rows to label next?)."
        )
    if width is not None and difference is not None:
        raise ValueError("--width and --difference cannot be combined. Pass one of them.")
    if (rows is None) != (out is None):
        raise ValueError("--rows needs --out, and --out needs --rows. Pass both, or neither.")


def _write(
    path: Path,
    names: "list[str] | tuple[str, ...]",
    chosen: set[int],
    chances: list[float],
    more: dict[str, list[str]],
) -> None:
    from dessl._files import write_whole
    from dessl.cli.predict import without_formula

    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("row", *more, "label_next", "propensity"))
    for row, (name, chance) in enumerate(zip(names, chances, strict=True)):
        texts = [without_formula(one) for one in (name, *(column[row] for column in more.values()))]
        writer.writerow((*texts, "yes" if row in chosen else "", f"{chance:.9g}"))
    write_whole(path, text.getvalue())

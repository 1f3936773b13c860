"""``dessl audit``: is it safe to use the unlabelled rows, and what can be gained?"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from dessl.cli.options import (
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
    from dessl.safety import Audit

Label = Annotated[
    str | None, Option(help="Column with the labels, in a table or a file of labels.")
]
Labels = Annotated[
    str | None,
    Option(
        metavar="FILE",
        help="File with the labels of .npy files, or table with the file names of images, their "
        "labels and other columns.",
    ),
]
TestFile = Annotated[str | None, Option(help="File of test rows, to check for duplicates of DATA.")]
Group = Annotated[
    str | None,
    Option(
        metavar="COLUMN",
        help="Column that says which rows belong together, such as a patient's: the tests then "
        "ask which groups have labels. For images: a regular expression of file names.",
    ),
]
Cheap = Annotated[
    bool, Option(help="Skip the slow checks: near duplicates, suspicious labels, possible gains.")
]
Out = Annotated[
    Path | None, Option(metavar="FILE", help="Also write the result to this .html file.")
]


def audit(
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
    test_file: TestFile = None,
    group: Group = None,
    cheap: Cheap = False,
    out: Out = None,
    seed: Seed = 0,
    as_json: AsJson = False,
) -> None:
    """Check whether the unlabelled rows can be used, before anything is trained.

    Tests whether labels are missing at random, looks for duplicates, columns that
    give the label away and suspicious labels, and estimates what can be gained. The
    verdict is "use it", "use it with care" or "do not use it"; if all rows are
    labelled and nothing else was found, it is "no unlabelled rows".

    Example: dessl audit people.csv --label outcome

    Example: dessl audit scans/ --out audit.html

    Example: dessl audit visits.csv --label outcome --group patient
    """
    import torch

    from dessl.cli.groups import grouped_data
    from dessl.cli.new_rows import Expected, new_rows
    from dessl.cli.output import noted_warnings, say, show_json
    from dessl.report.page import write_audit
    from dessl.safety import audit as audited

    if out is not None and out.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"--out must be an .html file; got {out}. For JSON, pass --json.")
    with noted_warnings():
        rows = grouped_data(
            data, label=label, ignore=ignore, categorical=categorical, group=group, size=size,
            skip_damaged=skip_damaged, reading=Reading.of(sheet, encoding, missing), labels=labels,
        )  # fmt: skip
        if test_file is not None:
            rows.test = new_rows(test_file, Expected.of(rows), skip_damaged=skip_damaged)[0]
    # The products are small: a second thread would mostly wait, and for long on a busy machine.
    torch.set_num_threads(1)
    found = audited(rows, cheap=cheap, seed=seed)
    if out is not None:
        write_audit(out, found)
        say(f"Report: {out}")
    if as_json:
        show_json(found.as_dict())
    else:
        _show(found)


def _show(found: "Audit") -> None:
    from rich.table import Table
    from rich.text import Text

    from dessl.cli.output import PlainConsole, show
    from dessl.evaluation.verdict import short_p

    console = PlainConsole()
    show(found.heading)
    for reason in found.reasons:
        show(f"- {reason}")
    if found.tests:
        table = Table(title=Text("Are labels missing at random?"))
        for heading in ("test", "p", "corrected", "finding"):
            table.add_column(heading)
        for one in found.tests:
            table.add_row(one.test, *map(short_p, (one.p_value, one.corrected)), one.finding)
        console.print(table)
        if found.groups:
            show(found.exchanged)
    if found.gains:
        table = Table(title=Text(f"Possible gain with {found.labelled} labels"))
        for heading in ("term", "ρ", "95 % interval", "remaining variance", "equivalent labels"):
            table.add_column(heading, justify="left" if heading == "term" else "right")
        for gain in found.gains:
            table.add_row(
                gain.term,
                f"{gain.correlation:.2f}",
                f"{gain.low:.2f} to {gain.high:.2f}",
                f"{gain.variance_ratio:.0%}",
                f"{gain.equivalent_labels:.0f}",
            )
        console.print(table)
        show(f"A term helps only if its ρ is above {found.least_correlation:.2f}.")

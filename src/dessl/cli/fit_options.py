"""The options of ``dessl fit``."""

from pathlib import Path
from typing import Annotated, Literal

from typer import Option

from dessl.cli.options import LARGEST_SEED
from dessl.recipes.defaults import MEMBERS

Out = Annotated[Path, Option(metavar="RUN", help="Folder for the run.")]
Label = Annotated[str | None, Option(help="Column of the labels, for a table.")]
Ignore = Annotated[list[str] | None, Option(help="A column to leave out; repeatable.")]
Categorical = Annotated[
    list[str] | None, Option(help="A column of numbers that are categories; repeatable.")
]
Size = Annotated[int | None, Option(min=4, help="Side of the images, in pixels.")]
Labels = Annotated[
    int | None, Option(min=1, help="Keep this many labels, drawn at random; hide the rest.")
]
SurrogateName = Annotated[
    str,
    Option(
        help="The unlabelled term: a name of dessl.SURROGATES, but for combine, smooth and "
        "teacher, which need more than a name."
    ),
]
Lam = Annotated[str, Option(help="λ, or 'auto': chosen on held-out labels.")]
RiskName = Annotated[
    Literal["debiased", "ssl"], Option(help="The debiased risk, or the usual biased one.")
]
TestFile = Annotated[
    str | None, Option(help="Rows to judge by; if not given, some are held out of DATA.")
]
HoldOut = Annotated[float, Option(min=0.01, max=0.9, help="Share of the rows to hold out.")]
Steps = Annotated[int | None, Option(min=1, help="Steps of each network.")]
Networks = Annotated[
    int | None,
    Option(
        min=1,
        max=MEMBERS,
        help="Networks to average; if not given, 5, and 1 for images above 16 pixels a side "
        "(grey ones above 32).",
    ),
]
Seed = Annotated[int, Option(min=0, max=LARGEST_SEED, help="Seed of all draws.")]
Device = Annotated[str, Option(help="'auto', 'cpu', 'cuda', 'cuda:1', ...")]
Resume = Annotated[bool, Option(help="Go on with a run that is in RUN.")]

"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

LARGEST_SEED = 2**63 - 1
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON, for programs.")]
RunFolder = Annotated[Path, typer.Argument(help="Folder that dessl fit wrote.", metavar="RUN")]
DataArgument = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A table (.csv, .tsv, .parquet), an .npz file, a folder of images, or a name of "
        "dessl datasets list.",
    ),
]

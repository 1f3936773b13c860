"""Options that several commands share, and what their values stand for."""

from pathlib import Path
from typing import Annotated

import torch
import typer

from dessl import _checks

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
Device = Annotated[str, typer.Option(help="'auto', 'cpu', 'cuda', 'cuda:1', ...")]


def device_named(name: str) -> torch.device:
    """Return the device of a name; ``"auto"`` is the GPU where there is one.

    Raises:
        ValueError: There is no such device.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return _checks.device("--device", name)

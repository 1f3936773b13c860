"""Options that several commands share."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    import torch

LARGEST_SEED = 2**63 - 1
HOLD_OUT = 0.2  # default share of the rows to evaluate on
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
RunFolder = Annotated[Path, typer.Argument(help="A folder written by dessl fit.", metavar="RUN")]
DataArgument = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A table (.csv, .tsv, .parquet, .xlsx), an .npz file, .npy files (a.npy,b.npy: joined "
        "column-wise), a folder of images, or a name from dessl datasets list.",
    ),
]
Sheet = Annotated[str | None, typer.Option(help="Sheet of an Excel workbook. Default: the first.")]
Ignore = Annotated[list[str] | None, typer.Option(help="Column to drop; repeatable.")]
Categorical = Annotated[
    list[str] | None, typer.Option(help="Numeric column to treat as categories; repeatable.")
]
Size = Annotated[int | None, typer.Option(min=4, help="Side length of the images, in pixels.")]
SkipDamaged = Annotated[
    bool,
    typer.Option("--skip-damaged", help="Leave out image files that cannot be read, with a note."),
]
Seed = Annotated[int, typer.Option(min=0, max=LARGEST_SEED, help="Random seed.")]
Device = Annotated[str, typer.Option(help="'auto', 'cpu', 'cuda', 'cuda:1', ...")]

OtherAnswers = Annotated[
    Literal["missing"] | None,
    typer.Option(
        help="With 'missing', a teacher's answers that are not a class count as no answer. By "
        "default, they are an error.",
        show_default=False,
    ),
]


def device_named(name: str) -> "torch.device":
    """Return the device with this name; ``"auto"`` is the GPU if available.

    Raises:
        ValueError: The device does not exist.
    """
    import torch

    from dessl import _checks
    from dessl.training.ranks import ranks

    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    device = _checks.device("--device", name)
    if ranks() > 1 and device.index is not None:
        raise ValueError(
            f"--device {name} is one GPU, but each of the {ranks()} ranks needs its own. Use "
            "--device auto, and choose GPUs with CUDA_VISIBLE_DEVICES."
        )
    return device

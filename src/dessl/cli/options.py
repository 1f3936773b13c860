"""Options that several commands share."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

if TYPE_CHECKING:
    import torch

    from dessl.data.formats.encoding import TableEncoding

LARGEST_SEED = 2**63 - 1
HOLD_OUT = 0.2  # default share of the rows to evaluate on
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
RunFolder = Annotated[Path, typer.Argument(help="A folder written by dessl fit.", metavar="RUN")]
DataArgument = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A table (.csv, .tsv, .parquet, .xlsx, .jsonl), an .npz file, .npy files "
        "(a.npy,b.npy: joined column-wise), a folder of images, or a name from dessl datasets "
        "list.",
    ),
]
Sheet = Annotated[str | None, typer.Option(help="Sheet of an Excel workbook. Default: the first.")]
Encoding = Annotated[
    str | None,
    typer.Option(
        "--encoding",
        metavar="NAME",
        help="Encoding of a CSV table, such as cp1252 or latin-1. Default: UTF-8, or that of the "
        "training data.",
    ),
]
Missing = Annotated[
    list[str] | None,
    typer.Option(
        metavar="MARK",
        help="Text or number that marks a missing cell in any column, such as -999, in addition to "
        "an empty cell; repeatable. Default: none, or those of the training data.",
    ),
]
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


class Reading(NamedTuple):
    """How tables are read: a workbook's sheet, a CSV's encoding, marks of missing cells."""

    sheet: str | None = None
    text_encoding: str | None = None
    missing: tuple[str, ...] = ()

    @classmethod
    def of(cls, sheet: str | None, encoding: str | None, missing: list[str] | None) -> "Reading":
        """Return it for options as typed."""
        return cls(sheet, encoding, tuple(missing or ()))

    @classmethod
    def typed_in(cls, options: Mapping[str, Any]) -> "Reading":
        """Return it for the options of ``dessl fit``, by name."""
        return cls.of(options["sheet"], options["encoding"], options["missing"])

    @property
    def options(self) -> dict[str, Any]:
        """Arguments of ``open_table``, except for defaults."""
        return {name: value for name, value in self._asdict().items() if value}

    @property
    def typed(self) -> dict[str, Any]:
        """The values by the names of their options."""
        return {"sheet": self.sheet, "encoding": self.text_encoding, "missing": self.missing}

    def for_file(self, source: str) -> "Reading":
        """Return it for another file: the first sheet, and no encoding of text if it has none."""
        from dessl.data.formats.csv_dialect import is_csv

        return Reading(None, self.text_encoding if is_csv(source) else None, self.missing)

    def like(self, known: "TableEncoding | None", source: str) -> "Reading":
        """Return it with what was not given as in training.

        Args:
            known: The encoding of the training table; None if it was no table.
            source: The file to read; a text encoding is for CSV files only.
        """
        from dessl.data.formats.csv_dialect import is_csv

        if known is None:
            return self
        before = known.text_encoding if is_csv(source) else None
        return self._replace(
            text_encoding=self.text_encoding or before, missing=self.missing or known.missing
        )


AS_IT_IS = Reading()


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

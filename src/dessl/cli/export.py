"""``dessl export``: a run's model as one graph for other programs, in ONNX or PyTorch's format."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from dessl.cli.options import AsJson, RunFolder
from dessl.cli.output import noted_warnings, show, show_json
from dessl.cli.predict import Twin, run_model

Out = Annotated[Path, typer.Option(help="Write the graph to this .onnx or .pt2 file.")]
FormatName = Annotated[
    Literal["onnx", "pt2"] | None,
    typer.Option(
        "--format",
        help="onnx, or pt2 for torch.export. Default: from the file extension.",
        show_default=False,
    ),
]
NetworksOnly = Annotated[
    bool,
    typer.Option("--networks-only", help="Export the networks of a pool without its teachers."),
]


def export(
    run: RunFolder,
    out: Out,
    format_: FormatName = None,
    networks_only: NetworksOnly = False,
    complete_case: Twin = False,
    as_json: AsJson = False,
) -> None:
    """Write a model as one graph from rows to probabilities, for serving.

    The graph is compared with the model before it is written. A JSON file next to it lists
    the classes, and how the columns of a table become rows.

    Example: dessl export runs/people --out model.onnx
    """
    from dessl.export import export_model

    model = run_model(run, complete_case=complete_case)
    with noted_warnings():
        found = export_model(out, model, format=format_, networks_only=networks_only)
    if as_json:
        entries = {"graph": str(found.path), "description": str(found.description)}
        more = {"members": found.members, "difference": found.difference, "tied": found.tied}
        show_json({**entries, **more})
        return
    show(f"Exported: {', '.join(found.members)}")
    show(f"Checked:  probabilities differ from the model's by at most {found.difference:.1g}")
    show(f"Graph:    {found.path}")
    show(f"Inputs:   {found.description}")

"""``dessl datasets``: list and download public data sets."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from dessl.cli.options import AsJson
from dessl.cli.output import PlainConsole, show, show_json

datasets_app = typer.Typer(help="List or download public data sets.")
Root = Annotated[Path | None, typer.Option(help="Also look in this folder, before the cache.")]


@datasets_app.callback(invoke_without_command=True)
def _datasets(context: typer.Context) -> None:
    """List or download public data sets."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(2)


@datasets_app.command("list")
def list_datasets(root: Root = None, as_json: AsJson = False) -> None:
    """List the available data sets, and which are already on disk.

    Example: dessl datasets list
    """
    from dessl.data import DATASETS

    rows = []
    for name, description in DATASETS.items():
        rows.append(
            {
                "name": name,
                "title": description.title,
                "classes": len(description.class_names),
                "shape": list(description.shape),
                "rows": dict(zip(("train", "validation", "test"), description.sizes, strict=True)),
                "here": _here(name, root),
                "licence": description.licence,
                "citation": description.citation,
            }
        )
    if as_json:
        show_json(rows)
        return
    table = Table(title="dessl fit NAME --labels N --out RUN")
    for heading in ("name", "classes", "shape", "train", "validation", "test", "here"):
        table.add_column(heading, no_wrap=True)
    for name, row in zip(DATASETS, rows, strict=True):
        shape = "×".join(map(str, DATASETS[name].shape))
        sizes = map(str, DATASETS[name].sizes)
        table.add_row(name, str(len(DATASETS[name].class_names)), shape, *sizes, str(row["here"]))
    PlainConsole().print(table)


def _here(name: str, root: Path | None) -> str:
    from dessl.data import DATASETS
    from dessl.data.catalogue import find

    if not DATASETS[name].remote:
        return "built in"
    place = find(name, root=root)
    if place is None:
        return "no"
    return "rebuilt" if place.rebuilt else "yes"


@datasets_app.command("fetch")
def fetch_datasets(
    names: Annotated[
        list[str], typer.Argument(metavar="NAME...", help="Names from dessl datasets list.")
    ],
    root: Annotated[
        Path | None, typer.Option(help="Download to this folder. Default: the user's cache.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Download data sets and verify the publishers' checksums.

    Example: dessl datasets fetch mnist --root data
    """
    from dessl.data import DATASETS
    from dessl.data.catalogue import fetch

    folders = {name: str(fetch(name, root=root)) for name in names}
    if as_json:
        show_json(folders)
        return
    for name, folder in folders.items():
        show(f"{name}: {folder}" if DATASETS[name].remote else f"{name} is built in.")

"""The commands by name. Only the command that was typed is imported, and none imports torch.

``dessl --help`` and ``dessl fit --help`` must answer at once: a command's module imports
heavy packages inside its functions. To add a command, add an entry to COMMANDS.
"""

import importlib
from collections.abc import Sequence
from typing import Annotated

import typer

from dessl._version import __version__

HELP = "Safe semi-supervised learning through a debiased risk."
COMMANDS = {  # the function, or the Typer of several, and the first line of its help
    "demo": (
        "dessl_paper.demo_command:demo",
        "Show in under a minute what dessl does, in four small experiments.",
    ),
    "fit": (
        "dessl.cli.fit:fit",
        "Train with and without the unlabelled rows, and report which is better.",
    ),
    "audit": (
        "dessl.cli.audit:audit",
        "Check whether the unlabelled rows can be used, before anything is trained.",
    ),
    "plan": (
        "dessl.cli.plan:plan",
        "Plan labels: how many are needed, and which rows to label next.",
    ),
    "predict": (
        "dessl.cli.predict:predict",
        "Predict the class of each row, with the probability of every class.",
    ),
    "evaluate": (
        "dessl.cli.evaluate:evaluate",
        "Evaluate a model on rows it was not trained on, with 95 % intervals.",
    ),
    "export": (
        "dessl.cli.export:export",
        "Write a model as one graph from rows to probabilities, for serving.",
    ),
    "report": (
        "dessl.cli.report:report",
        "Write the report of one run, or compare several side by side.",
    ),
    "reproduce": (
        "dessl_paper.command:reproduce",
        "Rerun an experiment of the paper; write tables and figures next to the paper's numbers.",
    ),
    "datasets": ("dessl.cli.datasets:datasets_app", "List or download public data sets."),
}


def app_for(typed: Sequence[str]) -> typer.Typer:
    """Return the command line app, and import only the command that was typed."""
    wanted = next((word for word in typed if not word.startswith("-")), None)
    app = typer.Typer(
        help=HELP,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,  # boxes would double the time of --help
    )
    app.callback(help=HELP)(_root)
    for name, (place, words) in COMMANDS.items():
        if name != wanted:
            app.command(name, help=words)(_not_imported)
            continue
        command = imported(place)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(name)(command)
    return app


def imported(place: str) -> typer.Typer:
    """Import a command from its place in COMMANDS: a function, or the Typer of several."""
    module, _, name = place.partition(":")
    found: typer.Typer = getattr(importlib.import_module(module), name)
    return found


def _not_imported() -> None:
    raise RuntimeError("this command was not typed.")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dessl {__version__}")
        raise typer.Exit


def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    pass

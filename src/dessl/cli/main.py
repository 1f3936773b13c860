"""The ``dessl`` command line: one file per command, one-line errors, results as text or JSON.

Exit codes: 0 success; 1 some of several experiments failed, the others finished; 2 a problem the
user can fix, reported in one line; 130 stopped by Ctrl-C, 143 by SIGTERM.
"""

import io
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from dessl._version import __version__
from dessl.cli.audit import audit
from dessl.cli.datasets import datasets_app
from dessl.cli.errors import MENDABLE, TYPED, complaint, stoppable
from dessl.cli.evaluate import evaluate
from dessl.cli.fit import fit
from dessl.cli.output import say
from dessl.cli.plan import plan
from dessl.cli.predict import predict
from dessl.cli.report import report
from dessl_paper.command import reproduce
from dessl_paper.demo import demo

app = typer.Typer(
    help="Safe semi-supervised learning through a debiased risk.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(demo)
app.command()(audit)
app.command()(plan)
app.command()(fit)
app.command()(predict)
app.command()(evaluate)
app.command()(report)
app.command()(reproduce)
app.add_typer(datasets_app, name="datasets")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dessl {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Safe semi-supervised learning through a debiased risk."""


def _from_home(argument: str) -> str:
    """Expand a ~ that the shell does not, as in --out=~/runs and "~/my scans"."""
    home = re.match(r"(--[\w-]+=)?~(?=[/\\]|$)", argument)
    return argument if home is None else f"{home[1] or ''}{Path.home()}{argument[home.end() :]}"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit.

    Args:
        arguments: The arguments after ``dessl``; by default those of the process.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # few code pages have λ
    try:
        typed = tuple(map(_from_home, sys.argv[1:] if arguments is None else arguments))
        TYPED.set(typed)
        with stoppable():
            app(typed)
    except MENDABLE as error:
        say(f"dessl: {complaint(error)}", style="red")
        sys.exit(2)

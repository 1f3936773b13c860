"""The command ``dessl demo``; what it does is in :mod:`dessl_paper.demo`, which imports torch."""

from pathlib import Path
from typing import Annotated

import typer

from dessl.cli.options import LARGEST_SEED, AsJson


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the results.")] = Path("runs/demo"),
    seed: Annotated[
        int | None,
        typer.Option(
            min=0, max=LARGEST_SEED, help="Use this seed instead of the one fixed in advance."
        ),
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(min=1, help="Limit every training run to this many steps, for a quick try."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show in under a minute what dessl does, in four small experiments.

    Their settings are fixed in advance: a toy example whose true
    posterior is known, dessl fit on real digits with 100 labels, a teacher
    that answers at random, and an interval from few labels next to the truth.

    Example: dessl demo

    Example: dessl demo --seed 1 --out runs/another
    """
    from dessl_paper.demo import made_demo

    made_demo(out, seed=seed, steps=steps, as_json=as_json)

"""Would it help to leave out unlabelled rows where the pool's report says that they clearly hurt?

The pool's report compares it with the same pool from labelled rows alone, on held-out labels. For
each cell of gains.py whose report says that unlabelled rows clearly raised the cross-entropy, the
default is fitted again with teachers that see no unlabelled rows, and both are compared on the test
rows. About one cell in forty would be called so by chance if unlabelled rows changed nothing.

    PYTHONPATH=src python benchmarks/gains.py --fresh --cells CELLS           # with their reports
    PYTHONPATH=src python benchmarks/unlabelled_left_out.py --cells CELLS \
        --out benchmarks/results/unlabelled_left_out.json
"""

import argparse
import json
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch

from dessl._files import write_whole
from dessl.evaluation import mean_interval
from dessl.teachers import pooling
from dessl.teachers.evaluated import EvaluatedRows, evaluated_rows
from dessl.teachers.report import PoolReport
from gains import PREPARED, scored
from gains_methods import dessl_default
from gains_report import OURS, Cell, read_cells
from gains_sets import draw, load
from machine import machine


def clearly_worse(cell: Cell) -> bool:
    """Whether the report of the cell's pool says that unlabelled rows clearly hurt."""
    report = cell["methods"][OURS].get("report")
    gain = report and PoolReport.from_dict(report).unlabelled
    return bool(gain and gain.clear and gain.mean < 0)


def labelled_alone(*args: Any) -> EvaluatedRows:
    """The rows that teachers see, without those that have no label."""
    rows = evaluated_rows(*args)
    return replace(rows, x_u=rows.x[:0])


def measured(cell: Cell, tables: Path = PREPARED) -> dict[str, Any]:
    """Test scores of the cell's default with and without unlabelled rows in its teachers."""
    drawn = draw(load(cell["set"], tables), cell["labelled"], cell["seed"])
    if drawn is None or len(drawn[1]) != cell["test"]:
        raise SystemExit(f"{cell['set']} is another table than the one that was measured.")
    with patch.object(pooling, "evaluated_rows", labelled_alone), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = scored(dessl_default(drawn[0])[OURS], drawn[1])
    kept = cell["methods"][OURS]
    return {
        "set": cell["set"], "labels": cell["labelled"], "seed": cell["seed"],
        "log loss": round(kept["log_loss"], 4),
        "log loss without unlabelled rows": round(found["log_loss"], 4),
    }  # fmt: skip


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cells", type=Path, required=True, help="folder of gains.py")
    parser.add_argument("--tables", type=Path, default=PREPARED)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(argv)
    torch.set_num_threads(1)
    cells = read_cells(options.cells)
    found = [measured(cell, options.tables) for cell in cells if clearly_worse(cell)]
    changes = [one["log loss without unlabelled rows"] - one["log loss"] for one in found]
    change = mean_interval(changes)
    summary = {
        "cells": len(cells), "clearly worse with unlabelled rows": len(found),
        "change of the log loss without them": round(change.mean, 4),
        "half of its 95 % interval": round(change.half_width, 4),
        "lower without them": sum(one < 0 for one in changes),
    }  # fmt: skip
    print(json.dumps(summary, indent=1))
    if options.out:
        both = {"machine": machine(threads=1), **summary, "runs": found}
        write_whole(options.out, json.dumps(both, indent=1) + "\n")


if __name__ == "__main__":
    main()

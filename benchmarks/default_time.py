"""Seconds and memory of the default, imports included, each in its own process.

``DeSSLClassifier().fit`` and ``dessl fit`` on tables of 30 columns and three classes: 1,000 rows
with 100 to 1,000 labels, and 100,000 rows with 500. Wall-clock seconds are only meaningful on idle
cores; use processor seconds on other machines. On Linux, --cores sets the number of cores to use.

    PYTHONPATH=src python benchmarks/default_time.py --cores 2 --out benchmarks/results
"""

import argparse
import csv
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from machine import machine

CASES = ((1_000, 100), (1_000, 500), (1_000, 1_000), (100_000, 500))
COLUMNS, CLASSES = 30, 3
ESTIMATOR = """
import numpy as np
from dessl import DeSSLClassifier
table = np.load({place!r})
DeSSLClassifier(random_state=0).fit(table["x"], table["y"])
"""


def write_table(folder: Path, rows: int, labels: int) -> tuple[Path, Path]:
    """The same table for Python and for the command line."""
    import numpy as np
    from sklearn.datasets import make_classification

    x, y = make_classification(
        rows, COLUMNS, n_informative=8, n_classes=CLASSES, flip_y=0.05, random_state=0
    )
    y[np.random.default_rng(0).permutation(rows)[labels:]] = -1
    arrays, text = folder / f"{rows}-{labels}.npz", folder / f"{rows}-{labels}.csv"
    np.savez(arrays, x=x.astype(np.float32), y=y)
    with text.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*(f"column_{number}" for number in range(COLUMNS)), "label"])
        for row, label in zip(x.tolist(), y.tolist(), strict=True):
            writer.writerow([*(f"{value:.5f}" for value in row), "" if label < 0 else f"c{label}"])
    return arrays, text


def timed(command: Sequence[str]) -> dict[str, float]:
    """Wall-clock and processor seconds of a command, and the largest memory of any so far."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    ran = subprocess.run(command, capture_output=True, text=True)
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if ran.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{ran.stderr[-2000:]}")
    processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        "wall_seconds": round(wall, 2),
        "processor_seconds": round(processor, 2),
        "most_gigabytes_so_far": round(after.ru_maxrss / 1e6, 2),
    }


def measured(folder: Path, rows: int, labels: int, repeats: int) -> dict[str, Any]:
    """Both ways to the default, several times each."""
    arrays, text = write_table(folder, rows, labels)
    python = [sys.executable, "-c", ESTIMATOR.format(place=str(arrays))]
    found: dict[str, Any] = {"rows": rows, "labels": labels, "DeSSLClassifier": [], "dessl fit": []}
    for turn in range(repeats):
        run = folder / f"run-{rows}-{labels}-{turn}"
        line = [sys.executable, "-m", "dessl", "fit", str(text), "--label", "label"]
        line += ["--device", "cpu", "--out", str(run)]
        found["DeSSLClassifier"].append(timed(python))
        found["dessl fit"].append(timed(line))
    return found


def main() -> None:
    """Measure all cases and write a file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cores", type=int, help="processor cores to use; Linux only")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--rows", type=int, nargs="+", help="cases of these numbers of rows alone")
    parser.add_argument("--out", type=Path, help="folder of default_time.json")
    options = parser.parse_args()
    if options.cores:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.cores])
    cases = []
    with tempfile.TemporaryDirectory() as folder:
        for rows, labels in CASES:
            if options.rows is None or rows in options.rows:
                cases.append(measured(Path(folder), rows, labels, options.repeats))
                print(json.dumps(cases[-1]), flush=True)
    if options.out:
        record = {"machine": machine(), "cores": options.cores, "cases": cases}
        options.out.mkdir(parents=True, exist_ok=True)
        (options.out / "default_time.json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()

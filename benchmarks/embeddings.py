"""Time and memory of ``dessl fit vectors.npy --labels labels.csv`` as the number of rows grows.

n × 768 float32, drawn around ten centres, 1,000 labels, all defaults, one thread. Each run is a
process of its own. Memory is its peak, imports and the pages of the mapped file included. With
--prepare, nothing is trained: the rows are read, held out and scaled, and the peak after each step
is given as copies of the file, imports not counted.

    PYTHONPATH=src python benchmarks/embeddings.py --rows 10000 100000
    PYTHONPATH=src python benchmarks/embeddings.py --prepare 200000
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from machine import machine

RESULTS = Path(__file__).parent / "results" / "embeddings.json"
COLUMNS, CLASSES, LABELS, BLOCK = 768, 10, 1_000, 10_000
COMMAND = "from dessl.cli.main import main; main()"
STEPS = """
import json, resource
import pyarrow.csv, sklearn.linear_model, scipy.sparse, torch
from dessl import SemiData
from dessl.recipes import recipe_for
from dessl.recipes.scaling import standardised_data
from dessl.recipes.trial import split
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
found = {"imports": peak()}
data = SemiData.from_file("vectors.npy", labels="labels.csv"); found["read"] = peak()
train, test, _ = split(data, share=0.2, seed=0); found["held out"] = peak()
recipe = recipe_for(train); found["scales"] = peak()
seen = standardised_data(train, recipe.scaling); found["scaled"] = peak()
print(json.dumps(found))
"""


def write_vectors(folder: Path, rows: int) -> None:
    """Vectors around the centres of their classes, and a file with some of their labels."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, CLASSES, rows)
    centres = 0.15 * rng.normal(size=(CLASSES, COLUMNS)).astype(np.float32)
    header = {"descr": "<f4", "fortran_order": False, "shape": (rows, COLUMNS)}
    with (folder / "vectors.npy").open("wb") as file:  # a process inherits the peak of its parent
        np.lib.format.write_array_header_1_0(file, header)
        for start in range(0, rows, BLOCK):
            some = y[start : start + BLOCK]
            noise = rng.standard_normal((len(some), COLUMNS), np.float32)
            file.write((centres[some] + noise).astype("<f4").tobytes())
    drawn = rng.permutation(rows)[:LABELS]
    lines = "".join(f"{row},class {y[row]}\n" for row in drawn)
    (folder / "labels.csv").write_text(f"row,kind\n{lines}")


def measured(rows: int) -> dict[str, float]:
    """Seconds, processor seconds, and the peak of memory, of one fit in a process of its own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_vectors(folder, rows)
        words = ["fit", "vectors.npy", "--labels", "labels.csv", "--out", "run", "--json"]
        began = time.perf_counter()
        run = subprocess.run(
            [sys.executable, "-c", COMMAND, *words],
            cwd=folder,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            check=True,
        )
        seconds = time.perf_counter() - began
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        json.loads(run.stdout)  # whole
        size = (folder / "vectors.npy").stat().st_size
    return {
        "rows": rows,
        "seconds": round(seconds, 1),
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 1),
        "file_gigabytes": round(size / 1e9, 3),
        "peak_gigabytes": round(used.ru_maxrss * 1024 / 1e9, 3),
    }


def prepared(rows: int) -> dict[str, float]:
    """The peak of memory after each step before training, in copies of the file."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_vectors(folder, rows)
        size = (folder / "vectors.npy").stat().st_size
        run = subprocess.run(
            [sys.executable, "-c", STEPS], cwd=folder, stdout=subprocess.PIPE, check=True
        )
    found = json.loads(run.stdout)
    imports = found.pop("imports")
    copies = {step: round((peak - imports) / size, 2) for step, peak in found.items()}
    return {"rows": rows, "imports_gigabytes": round(imports / 1e9, 2)} | copies


def main() -> None:
    """Measure each size once, and write it beside the other sizes that were measured before."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--prepare", type=int)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    before = json.loads(options.out.read_text()) if options.out.exists() else {}
    sizes = {size["rows"]: size for size in before.get("sizes", [])}
    if options.prepare is not None:
        before["prepare"] = prepared(options.prepare)
        print(before["prepare"])
        options.out.write_text(json.dumps(before, indent=1) + "\n")
        return
    for rows in sorted(options.rows):  # growing: the peak is that of all processes so far
        sizes[rows] = measured(rows)
        print(sizes[rows])
        content = before | {"machine": machine(), "sizes": [sizes[n] for n in sorted(sizes)]}
        options.out.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()

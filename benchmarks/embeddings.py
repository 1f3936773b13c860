"""Time and memory of ``dessl fit vectors.npy --labels labels.csv`` as the number of rows grows.

n × 768 float32, drawn around ten centres, 1,000 labels, all defaults, one thread. Each run is a
process of its own. Memory is its peak, imports and the pages of the mapped file included.

    PYTHONPATH=src python benchmarks/embeddings.py --rows 10000 100000
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


def write_vectors(folder: Path, rows: int) -> None:
    """Vectors around the centres of their classes, and a file with some of their labels."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, CLASSES, rows)
    centres = 0.15 * rng.normal(size=(CLASSES, COLUMNS)).astype(np.float32)
    shape = (rows, COLUMNS)
    x = np.lib.format.open_memmap(folder / "vectors.npy", "w+", np.float32, shape)
    for start in range(0, rows, BLOCK):
        some = y[start : start + BLOCK]
        x[start : start + BLOCK] = centres[some] + rng.standard_normal((len(some), COLUMNS))
    x.flush()
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


def main() -> None:
    """Measure each size once, and write what was found so far after each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    sizes = []
    for rows in options.rows:  # growing, since the peak is that of all processes so far
        sizes.append(measured(rows))
        print(sizes[-1])
        content = {"machine": machine(), "sizes": sizes}
        options.out.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""Time and memory of the pool of teachers as the number of unlabelled rows grows.

500 labels, 30 columns, 3 classes; one process for each size, one thread. The five networks are not
included. Memory is the peak of the process, imports included.

    PYTHONPATH=src python benchmarks/pool_scale.py --rows 1000 10000 100000
"""

import argparse
import json
import math
import resource
import subprocess
import sys
import time
from pathlib import Path

import torch

from dessl.data import SemiData
from dessl.teachers import pooled
from machine import machine

RESULTS = Path(__file__).parent / "results" / "pool_scale.json"
LABELS, COLUMNS, CLASSES = 500, 30, 3


def measured(rows: int) -> dict[str, float]:
    """Processor seconds and peak gigabytes of one pool, in this process."""
    torch.set_num_threads(1)
    g = torch.Generator().manual_seed(0)
    y = torch.randint(CLASSES, (rows,), generator=g)
    x = torch.randn(rows, COLUMNS, generator=g) + torch.randn(CLASSES, COLUMNS, generator=g)[y] / 2
    data = SemiData(x, torch.where(torch.arange(rows) < LABELS, y, -1))
    even = torch.full((LABELS, CLASSES), -math.log(CLASSES), dtype=torch.float64)
    began = time.process_time()
    pooled(data, torch.arange(LABELS) % 5, even, lambda x: even[:1].expand(len(x), -1))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return {
        "rows": rows, "seconds": round(time.process_time() - began, 1), "gigabytes": round(peak, 2)
    }  # fmt: skip


def main() -> None:
    """Measure each size in a process of its own, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", nargs="+", type=int, default=[1_000, 10_000, 100_000])
    parser.add_argument("--only", type=int, help="measure one size here, and print it as JSON")
    options = parser.parse_args()
    if options.only:
        print(json.dumps(measured(options.only)))
        return
    found = []
    for rows in options.rows:
        command = [sys.executable, __file__, "--only", str(rows)]
        found.append(json.loads(subprocess.check_output(command, text=True)))
        print("{rows:>10,} rows: {seconds} s, {gigabytes} GB".format(**found[-1]), flush=True)
    RESULTS.write_text(json.dumps({"machine": machine(), "sizes": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""How long ``dessl audit`` takes: a table of 100,000 rows and a folder of 10,000 images.

The table has 15 columns of numbers, 5 of categories and three classes; the images are JPEG files of
160 × 160 pixels, noisy shapes of four classes. A tenth of the rows is labelled. Each audit runs in
its own process, as the command that a user types, so that startup and reading the files count.
Reported are processor seconds, and the wall time, which means little on a busy machine (see the
load average).

    PYTHONPATH=src taskset -c 0,1 python benchmarks/audit_time.py --threads 2 --out FOLDER
"""

import argparse
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

import numpy as np

from machine import machine

ROWS, FILES, SIDE = 100_000, 10_000, 160


def write_table(file: Path, rows: int) -> None:
    """A table with the label of every tenth row."""
    generator = np.random.default_rng(0)
    y = generator.integers(0, 3, rows)
    x = generator.normal(size=(rows, 15))
    x[:, 0] += y
    x[:, 1] += y == 1
    places = np.array(["north", "south", "east", "west"])[generator.integers(0, 4, (rows, 5))]
    labels = np.where(generator.random(rows) < 0.1, np.array(["a", "b", "c"])[y], "")
    with file.open("w") as out:
        names = [f"number{k}" for k in range(15)] + [f"place{k}" for k in range(5)]
        out.write(",".join([*names, "outcome"]) + "\n")
        for numbers, words, label in zip(x, places, labels, strict=True):
            out.write(",".join([*(f"{v:.4f}" for v in numbers), *words, label]) + "\n")


def write_images(folder: Path, files: int) -> None:
    """One folder per class, and one for the images without a label."""
    from PIL import Image

    generator = np.random.default_rng(0)
    rows, columns = np.mgrid[:SIDE, :SIDE] / SIDE - 0.5
    shapes = (
        np.hypot(rows, columns) < 0.25,
        np.maximum(abs(rows), abs(columns)) < 0.25,
        abs(rows) < 0.1,
        abs(columns) < 0.1,
    )
    for number in range(files):
        label = int(generator.integers(4))
        place = folder / (f"class{label}" if generator.random() < 0.1 else "unlabelled")
        place.mkdir(parents=True, exist_ok=True)
        colour = generator.uniform(40, 215, 3)
        moved = np.roll(shapes[label], generator.integers(-20, 20, 2), (0, 1))
        pixels = colour * (0.4 + 0.6 * moved[..., None]) + generator.normal(0, 12, (SIDE, SIDE, 3))
        image = Image.fromarray(pixels.clip(0, 255).astype(np.uint8))
        image.save(place / f"{number:05d}.jpg", quality=85)


def timed(what: str, threads: int, *arguments: str) -> dict[str, Any]:
    """One audit in its own process, with a given number of threads."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "dessl", "audit", *arguments, "--json"]
    started = time.monotonic()
    settings = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    done = subprocess.run(command, capture_output=True, check=True, env=settings)
    wall = time.monotonic() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = json.loads(done.stdout)
    return {
        "what": what,
        "labelled": found["labelled"],
        "unlabelled": found["unlabelled"],
        "outcome": found["outcome"],
        "threads": threads,
        "cores": len(os.sched_getaffinity(0)),
        "wall_seconds": round(wall, 1),
        "processor_seconds": round(
            after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 1
        ),
        "largest_memory_mib": round(after.ru_maxrss / 1024),
        "load_average": round(os.getloadavg()[0], 1),
    }


def main(argv: Sequence[str] | None = None) -> None:
    """Make the data, audit it, and write ``audit_time.json``."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--files", type=int, default=FILES)
    parser.add_argument("--threads", type=int, default=1, help="of each audit")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as name:
        table, images = Path(name, "people.csv"), Path(name, "images")
        write_table(table, options.rows)
        write_images(images, options.files)
        n = options.threads
        results = [
            timed(f"a table of {options.rows:,} rows", n, str(table), "--label", "outcome"),
            timed(f"a folder of {options.files:,} images", n, str(images)),
        ]
    content = {"machine": machine(), "results": results}
    (options.out / "audit_time.json").write_text(json.dumps(content, indent=1) + "\n")
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()

"""Time and memory of ``dessl fit vectors.npy --labels labels.csv`` as the number of rows grows.

n × 768 float32 like those of a large network: ten overlapping classes of three clusters each, on 40
directions that share most of the variance, among noise; 500 labels, drawn at random; all defaults.
Each run is a separate process, on the GPU if there is one. Host memory is the process's peak,
including imports and the pages of the mapped file; copies are that minus the imports, as a multiple
of the file size. Stages are in wall-clock seconds.

    PYTHONPATH=src python benchmarks/embeddings.py --rows 10000 100000
    PYTHONPATH=src python benchmarks/embeddings.py --rows 1000000 --device cuda
"""

import argparse
import importlib
import importlib.util
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import numpy as np

from machine import machine

RESULTS = Path(__file__).parent / "results" / "embeddings.json"
COLUMNS, CLASSES, CLUSTERS, DIRECTIONS, LABELS, BLOCK = 768, 10, 3, 40, 500, 10_000
APART = 0.5  # of the clusters' own spread
STAGES = {  # what is timed, each where the others look it up
    "fingerprint": ("dessl.cli.fit_run", "run_identity"),
    "read": ("dessl.cli.fit_run", "training_data"),
    "hold out": ("dessl.cli.fit_run", "split"),
    "audit": ("dessl.cli.fit_run", "audit"),
    "to the device": ("dessl.cli.fit_run", "_on"),
    "scales": ("dessl.recipes.defaults", "scaling_of"),
    "networks": ("dessl.recipes.fit", "_complete_case"),
    "neighbours": ("dessl.teachers.graph", "graph_of"),
    "pool": ("dessl.recipes.fit", "with_teachers"),
    "predict": ("dessl.recipes.trial", "predicted_log_proba"),
    "write": ("dessl.cli.fit_run", "_write"),
    "trial": ("dessl.cli.fit_run", "run_trial"),
    "again on all labels": ("dessl.cli.fit_run", "_refitted"),
}


def write_vectors(folder: Path, rows: int) -> None:
    """Vectors around the clusters of their classes, and a file with some of their labels."""
    rng = np.random.default_rng(0)
    cluster = rng.integers(0, CLASSES * CLUSTERS, rows)
    spread = np.linspace(2.0, 0.5, DIRECTIONS).astype(np.float32)
    centres = rng.normal(size=(CLASSES * CLUSTERS, DIRECTIONS)).astype(np.float32)
    centres *= APART * spread
    basis = np.linalg.qr(rng.normal(size=(COLUMNS, DIRECTIONS)))[0].T.astype(np.float32)
    header = {"descr": "<f4", "fortran_order": False, "shape": (rows, COLUMNS)}
    with (folder / "vectors.npy").open("wb") as file:  # a process inherits the peak of its parent
        np.lib.format.write_array_header_1_0(file, header)
        for start in range(0, rows, BLOCK):
            some = cluster[start : start + BLOCK]
            own = rng.standard_normal((len(some), DIRECTIONS), np.float32) * spread
            noise = rng.standard_normal((len(some), COLUMNS), np.float32) / 10
            file.write(((centres[some] + own) @ basis + noise).astype("<f4").tobytes())
    drawn = rng.permutation(rows)[:LABELS]
    if labels_file() == "labels.npy":
        y = np.full(rows, -1)
        y[drawn] = cluster[drawn] % CLASSES
        np.save(folder / "labels.npy", y)
        return
    lines = "".join(f"{row},class {cluster[row] % CLASSES}\n" for row in drawn)
    (folder / "labels.csv").write_text(f"row,kind\n{lines}")


def labels_file() -> str:
    """The name of the labels: a table, or an array where no table can be read."""
    return "labels.csv" if importlib.util.find_spec("pyarrow") else "labels.npy"


def stages(device: str) -> None:
    """Fit in this process, and print seconds and memory as JSON."""
    import torch

    from dessl.cli.main import main

    used = ["scipy.sparse", "sklearn.linear_model", "sklearn.ensemble", "dessl.cli.fit_run"]
    for module in used + ["pyarrow.csv"] * (labels_file() == "labels.csv"):
        importlib.import_module(module)  # so that they do not count as rows
    spent: dict[str, float] = dict.fromkeys(STAGES, 0.0)
    peaks: dict[str, float] = {}

    def timed(stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def called(*given: Any, **named: Any) -> Any:
            began = time.perf_counter()
            try:
                return function(*given, **named)
            finally:
                if torch.cuda.is_available():
                    torch.cuda.synchronize()
                spent[stage] += time.perf_counter() - began
                peaks[stage] = round(peak() / 1e9, 3)

        return called

    for stage, (module, name) in STAGES.items():
        place = sys.modules[module]
        setattr(place, name, timed(stage, getattr(place, name)))
    imports = peak()
    words = ["fit", "vectors.npy", "--labels", labels_file(), "--out", "run", "--device", device]
    sys.argv = ["dessl", *words, "--json"]
    began = time.perf_counter()
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise
    gpu = torch.cuda.max_memory_allocated() / 1e9 if torch.cuda.is_available() else None
    found = {
        "seconds": round(time.perf_counter() - began, 1),
        "imports_gigabytes": round(imports / 1e9, 3),
        "peak_gigabytes": round(peak() / 1e9, 3),
        "gpu_gigabytes": gpu and round(gpu, 2),
        "stages": {stage: round(value, 2) for stage, value in spent.items()},
        "peak_gigabytes_after": peaks,
    }
    Path("found.json").write_text(json.dumps(found))


def peak() -> int:
    """The most bytes that this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measured(rows: int, device: str) -> dict[str, Any]:
    """Seconds, processor seconds, and the peak of memory, of one fit in a process of its own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_vectors(folder, rows)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        began = time.perf_counter()
        run = subprocess.run(
            [sys.executable, Path(__file__).resolve(), "--here", "--device", device],
            cwd=folder,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            check=True,
        )
        seconds = time.perf_counter() - began
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        facts = json.loads(run.stdout)  # whole
        found = json.loads((folder / "found.json").read_text())
        size = (folder / "vectors.npy").stat().st_size / 1e9
    cpu = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    own = found["peak_gigabytes"] - found["imports_gigabytes"]
    whole = {"seconds_with_imports": round(seconds, 1), "cpu_seconds": round(cpu, 1)}
    verdict = facts["verdict"]["sentence"]
    sizes = {"file_gigabytes": round(size, 3), "copies": round(own / size, 2)}
    return {"rows": rows, "device": device} | whole | sizes | found | {"verdict": verdict}


def main() -> None:
    """Measure each size once, and write it beside the other sizes that were measured before."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        stages(options.device)
        return
    before = json.loads(options.out.read_text()) if options.out.exists() else {}
    sizes = {(size["device"], size["rows"]): size for size in before.get("sizes", [])}
    for rows in sorted(options.rows):
        found = measured(rows, options.device) | {"machine": machine(device=options.device)}
        sizes[options.device, rows] = found
        print(json.dumps(found, indent=1), flush=True)
        content = {"sizes": [sizes[key] for key in sorted(sizes)]}
        options.out.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()

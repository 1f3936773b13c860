"""Time and memory of ``dessl fit`` and ``DeSSLClassifier.fit`` as the unlabelled rows grow.

200 labels, 4 columns, 3 classes, compared with scikit-learn's LabelSpreading (its default kernel,
which needs a matrix of all pairs of rows, and its graph of neighbours) and SelfTrainingClassifier
around a logistic regression. Each size of each method runs in its own process with one thread; time
is the wall-clock and processor time of the fit, from the file for ``dessl fit``, and memory is the
peak of the process, imports included. ``dessl fit`` uses its defaults: it trains with and without
the unlabelled rows, evaluates both, and retrains on all labels. ``dessl fit, .npy`` is the same
from an array of numbers, which is read into memory at all of these sizes; ``dessl fit, network``
trains a network on all rows (``--surrogate pseudo_label --lam 0.5 --networks 1``), read from disk
if the file is large.

A fit that takes longer than ``--minutes`` or needs more than ``--gigabytes`` counts as failed. For
scikit-learn's methods, larger sizes are then skipped; ours are all tried, the largest first. Every
size is saved when it is done, and skipped if it is already there.

    PYTHONPATH=src python benchmarks/scale.py --jobs 6
"""

import argparse
import itertools
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Any, TypeAlias

import numpy as np

from machine import machine

RESULTS = Path(__file__).parent / "results" / "scale.json"
LABELS, COLUMNS, CLASSES = 200, 4, 3
Seconds: TypeAlias = np.ndarray  # on the clock, and of the processor
Timed: TypeAlias = Callable[[int], Seconds]  # from the number of rows
FORMATS = ("csv", "npy")
LATE = "the time for all was over"


def now() -> Seconds:
    """Return the clock and the processor's."""
    return np.array([time.perf_counter(), time.process_time()])


def rows_of(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return n unlabelled rows after the labelled ones, and classes with -1 for missing."""
    rng = np.random.default_rng(0)
    y = rng.integers(CLASSES, size=n + LABELS)
    centres = 1.5 * rng.normal(size=(CLASSES, COLUMNS))
    x = rng.standard_normal((n + LABELS, COLUMNS), dtype=np.float32)
    for some in np.array_split(np.arange(len(x)), 1 + len(x) // 10**6):
        x[some] += centres[y[some]]
    return x, np.where(np.arange(len(y)) < LABELS, y, -1)


def write(folder: Path, rows: int, form: str) -> None:
    """Write DATA."""
    x, y = rows_of(rows)
    if form == "npy":
        np.save(folder / "rows.npy", x)
        np.save(folder / "labels.npy", y)
        return
    with (folder / "rows.csv").open("w", encoding="utf-8") as file:
        file.write(",".join([*(f"x{k}" for k in range(COLUMNS)), "label"]) + "\n")
        for start in range(0, len(x), 10**5):
            part = x[start : start + 10**5].round(4).astype("U9")
            names = np.where(
                y[start : start + 10**5] < 0, "", y[start : start + 10**5].astype("U2")
            )
            lines = np.concatenate([part, names[:, None]], axis=1)
            file.write("\n".join(map(",".join, lines.tolist())) + "\n")


def written(folder: Path, rows: int, form: str) -> list[str]:
    """Write DATA in another process, and return what follows ``dessl fit``."""
    command = [sys.executable, __file__, "--write", str(folder), "--rows", str(rows)]
    subprocess.run([*command, "--format", form], check=True)
    if form == "npy":
        return [str(folder / "rows.npy"), "--labels", str(folder / "labels.npy")]
    return [str(folder / "rows.csv"), "--label", "label"]


def command_line(form: str, *more: str) -> Timed:
    """Return what times ``dessl fit`` of DATA in a format, with more options."""

    def timed(rows: int) -> Seconds:
        from dessl.cli.main import main as dessl

        with tempfile.TemporaryDirectory() as folder:
            given = written(Path(folder), rows, form)
            out = ["--out", str(Path(folder) / "run"), *more]
            began = now()
            sys.argv = ["dessl", "fit", *given, *out]
            with Path(os.devnull).open("w") as nothing:
                shown, sys.stdout, noted, sys.stderr = sys.stdout, nothing, sys.stderr, nothing
                try:
                    dessl()
                except SystemExit as end:
                    if end.code:
                        raise RuntimeError(f"dessl fit ended with {end.code}") from end
                finally:
                    sys.stdout, sys.stderr = shown, noted
            return now() - began

    return timed


def estimator(make: Callable[[], Any]) -> Timed:
    """Return what times an estimator's fit."""

    def timed(rows: int) -> Seconds:
        x, y = rows_of(rows)
        made = make()
        began = now()
        made.fit(x, y)
        return now() - began

    return timed


def ours() -> Any:
    """Return the classifier with its defaults."""
    from dessl import DeSSLClassifier

    return DeSSLClassifier(random_state=0)


def spreading(**options: Any) -> Any:
    """Return scikit-learn's label spreading."""
    from sklearn.semi_supervised import LabelSpreading

    return LabelSpreading(**options)


def self_training() -> Any:
    """Return scikit-learn's self-training of a logistic regression."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.semi_supervised import SelfTrainingClassifier

    return SelfTrainingClassifier(LogisticRegression())


OURS: dict[str, Timed] = {
    "dessl fit": command_line("csv"),
    "dessl fit, .npy": command_line("npy"),
    "dessl fit, network": command_line(
        "csv", "--surrogate", "pseudo_label", "--lam", "0.5", "--networks", "1"
    ),
    "DeSSLClassifier": estimator(ours),
}
METHODS: dict[str, Timed] = {
    **OURS,
    "LabelSpreading": estimator(spreading),
    "LabelSpreading, neighbours": estimator(lambda: spreading(kernel="knn")),
    "SelfTrainingClassifier": estimator(self_training),
}


def measured(method: str, rows: int) -> dict[str, Any]:
    """Return time and memory of one method and size, in this process."""
    import torch

    torch.set_num_threads(1)
    seconds, processor = METHODS[method](rows).tolist()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {
        "seconds": round(seconds, 1),
        "processor": round(processor, 1),
        "gigabytes": round(peak, 2),
    }


def limited(method: str, rows: int, options: argparse.Namespace) -> dict[str, Any]:
    """Measure in a process of its own that is ended at the limits of time and memory."""
    command = [sys.executable, __file__, "--only", method, "--rows", str(rows)]
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    began = time.perf_counter()
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **threads},
    ) as process:
        why = ""
        while process.poll() is None and not why:
            time.sleep(0.05)
            if resident_gigabytes(process.pid) > options.gigabytes:
                why = f"more than {options.gigabytes:g} GB"
            elif time.perf_counter() - began > 60 * options.minutes:
                why = f"more than {options.minutes:g} minutes"
            elif time.perf_counter() > options.deadline:
                why = LATE
        if why:
            process.kill()
        out, err = process.communicate()
    if not why and process.returncode:
        why = (err.strip().splitlines() or ["ended"])[-1][:200]
    return {"gave up": why} if why else json.loads(out.strip().splitlines()[-1])


def resident_gigabytes(process: int) -> float:
    """Return the memory that a process has now; 0 where the system does not say."""
    try:
        text = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0.0
    found = [line.split()[1] for line in text.splitlines() if line.startswith("VmRSS")]
    return int(found[0]) / 2**20 if found else 0.0


def growth(sizes: dict[str, dict[str, Any]], what: str, floor: float) -> float | None:
    """Return the largest exponent between neighbouring sizes, of what exceeds a floor."""
    known = [(int(n), max(floor, one[what])) for n, one in sizes.items() if what in one]
    pairs = itertools.pairwise(sorted(known))
    found = [math.log(t / s) / math.log(m / n) for (n, s), (m, t) in pairs]
    return round(max(found), 2) if found else None


def series(
    method: str,
    sizes: Sequence[int],
    options: argparse.Namespace,
    found: dict[str, Any],
    lock: Lock,
) -> None:
    """Measure sizes of one method, one after the other, until it gives up, saving each."""
    for rows in sizes:
        with lock:
            before = dict(found["methods"].get(method, {}))
        if any("gave up" in one for size, one in before.items() if int(size) in sizes):
            return
        if str(rows) in before:
            continue
        one = limited(method, rows, options)
        if one.get("gave up") == LATE:
            return
        print(f"{method:<28} {rows:>10,} rows: {one}", flush=True)
        with lock:
            found["methods"].setdefault(method, {})[str(rows)] = one
            save(found, options.out)


def save(found: dict[str, Any], out: Path) -> None:
    """Write what is known, methods and sizes in order, with the growth of each method."""
    methods = {
        name: dict(sorted(found["methods"][name].items(), key=lambda one: int(one[0])))
        for name in METHODS
        if name in found["methods"]
    }
    found["methods"] = methods
    found["growth"] = {
        name: {
            "processor": growth(sizes, "processor", 1.0),
            "gigabytes": growth(sizes, "gigabytes", 0.1),
        }
        for name, sizes in methods.items()
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def tasks(methods: Sequence[str], rows: Sequence[int]) -> list[tuple[str, list[int]]]:
    """Return methods with the sizes to measure in a row: each size of ours by itself."""
    largest, *smaller = sorted(rows, reverse=True)
    own = [method for method in methods if method in OURS]
    peers = [(method, sorted(rows)) for method in methods if method not in OURS]
    first = [(method, [largest]) for method in own]
    return [*first, *peers, *((method, [size]) for size in smaller for method in own)]


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", nargs="+", type=int, default=[10**k for k in range(3, 8)])
    parser.add_argument("--methods", nargs="+", choices=list(METHODS), default=list(METHODS))
    parser.add_argument("--only", help="measure one method here, and print it as JSON")
    parser.add_argument("--write", type=Path, help="write DATA of one size into this folder")
    parser.add_argument("--format", choices=FORMATS, default="csv", help="of what --write writes")
    parser.add_argument("--minutes", type=float, default=5.0, help="limit of one fit")
    parser.add_argument("--gigabytes", type=float, default=8.0, help="limit of one fit")
    parser.add_argument("--jobs", type=int, default=1, help="fits measured at one time")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--until", type=float, default=math.inf, help="minutes for all")
    options = parser.parse_args(argv)
    options.deadline = time.perf_counter() + 60 * options.until
    if options.write:
        write(options.write, options.rows[0], options.format)
        return
    if options.only:
        print(json.dumps(measured(options.only, options.rows[0])))
        return
    found: dict[str, Any] = {"methods": {}}
    if options.out.exists():
        found = json.loads(options.out.read_text(encoding="utf-8"))
    found |= {
        "machine": machine(),
        "limits": {"minutes": options.minutes, "gigabytes": options.gigabytes},
        "jobs": options.jobs,
    }
    lock, todo = Lock(), tasks(options.methods, options.rows)
    with ThreadPoolExecutor(options.jobs) as pool:
        for done in [pool.submit(series, *one, options, found, lock) for one in todo]:
            done.result()


if __name__ == "__main__":
    main()

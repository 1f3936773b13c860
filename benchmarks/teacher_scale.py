"""Time, memory and result of learning from a teacher's answers as the rows grow.

300 gold labels, 25 columns, 3 classes, and a teacher that names a class for every row (*hard* of
outside_teacher.py: one class too often). ``DeSSLClassifier().fit(..., teachers=)`` uses its
defaults, from arrays; ``dessl fit --teacher`` from a CSV file, with its report and plots. Each size
of each runs in its own process with one thread; time is the wall-clock and processor time of the
fit, from the file for ``dessl fit``, and memory is the peak of the process, imports and data
included. The result of the estimator is the cross-entropy and accuracy of 20,000 fresh rows, beside
the default without answers, from the same gold labels and unlabelled rows.

A size that is in the results is not run again.

    PYTHONPATH=src python benchmarks/teacher_scale.py --rows 10000 100000 1000000
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch

from dessl import DeSSLClassifier
from machine import machine
from outside_teacher import answers_of
from scale import FORMATS, now

RESULTS = Path(__file__).parent / "results" / "teacher_scale.json"
GOLD, COLUMNS, CLASSES, TEST = 300, 25, 3, 20_000


def rows_of(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows (n + test rows, columns), their classes, and the classes that the teacher names."""
    from sklearn.datasets import make_classification

    x, y = make_classification(
        n + TEST, COLUMNS, n_informative=8, n_redundant=4, n_classes=CLASSES, class_sep=0.8,
        flip_y=0.05, random_state=7,
    )  # fmt: skip
    classes = torch.as_tensor(y)
    said = answers_of("hard", torch.as_tensor(x[:1]), classes, seed=0)
    return x.astype(np.float32), y, said.numpy()


def estimator(n: int) -> dict[str, Any]:
    """Fit arrays, and evaluate on fresh rows."""
    with written(n, "npy") as folder:
        x, y, said = (np.load(folder / f"{name}.npy") for name in ("x", "y", "said"))
    data = peak_gigabytes()
    gold = np.where(np.arange(n) < GOLD, y[:n], -1)
    taught = DeSSLClassifier(random_state=0)
    began = now()
    taught.fit(x[:n], gold, teachers=[said[:n]], at_prediction=True)
    found = spent(began)
    default = DeSSLClassifier(random_state=0)
    began = now()
    default.fit(x[:n], gold)
    without = spent(began)
    new, truth = x[n:], y[n:]
    predicted = {
        "default without answers": default.predict_proba(new),
        "student": taught.predict_proba(new),
        "with answers": taught.predict_proba(new, teachers=[said[n:]]),
    }
    scores = {
        name: {
            "cross_entropy": round(float(-np.log(p[np.arange(TEST), truth]).mean()), 4),
            "accuracy": round(float((p.argmax(1) == truth).mean()), 4),
        }
        for name, p in predicted.items()
    }
    own = {"teacher": {"accuracy": round(float((said[n:] == truth).mean()), 4)}}
    more = {"default_seconds": without["seconds"], "gigabytes_before": round(data, 2)}
    return {**found, **more, "scores": {**own, **scores}}


def command_line(n: int) -> dict[str, Any]:
    """Fit a file with ``dessl fit --teacher``."""
    with written(n, "csv") as place:
        words = ["fit", str(place / "rows.csv"), "--label", "gold", "--teacher", "said"]
        began = now()
        sys.argv = ["dessl", *words, "--teacher-at-prediction", "--out", str(place / "run")]
        from dessl.cli.main import main as dessl

        try:
            dessl()
        except SystemExit as end:
            if end.code:
                raise RuntimeError(f"dessl fit ended with {end.code}") from end
        return spent(began)


@contextmanager
def written(n: int, form: str) -> Iterator[Path]:
    """A folder with the data, made in another process, whose memory does not count."""
    with tempfile.TemporaryDirectory() as folder:
        words = ["--write", folder, "--format", form, "--rows", str(n)]
        subprocess.run([sys.executable, __file__, *words], check=True)
        yield Path(folder)


def write(folder: Path, n: int, form: str) -> None:
    """Write arrays, or a table with a column of gold labels and a column of answers."""
    import pandas as pd

    x, y, said = rows_of(n)
    if form == "npy":
        for name, array in (("x", x), ("y", y), ("said", said)):
            np.save(folder / f"{name}.npy", array)
        return
    frame = pd.DataFrame(x[:n].round(4), columns=[f"x{k}" for k in range(COLUMNS)])
    names = np.array(["low", "middle", "high"])
    frame["gold"] = np.where(np.arange(n) < GOLD, names[y[:n]], "")
    frame["said"] = names[said[:n]]
    frame.to_csv(folder / "rows.csv", index=False)


def peak_gigabytes() -> float:
    """The most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def spent(began: np.ndarray) -> dict[str, Any]:
    """Seconds on the clock and of the processor, and the peak of the process' memory."""
    clock, processor = now() - began
    return {
        "seconds": round(float(clock), 1),
        "processor": round(float(processor), 1),
        "gigabytes": round(peak_gigabytes(), 2),
    }


METHODS: dict[str, Callable[[int], dict[str, Any]]] = {
    "DeSSLClassifier": estimator,
    "dessl fit --teacher": command_line,
}


def main() -> None:
    """Run each size of each method that is not there yet in its own process."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--one", type=Path, help="measure one size of one method into this file")
    parser.add_argument("--write", type=Path, help="write the table of this size into this folder")
    parser.add_argument("--format", default="csv", choices=FORMATS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.write:
        write(options.write, options.rows[0], options.format)
        return
    if options.one:
        found = METHODS[options.methods[0]](options.rows[0])
        options.one.write_text(json.dumps(found))
        return
    results = json.loads(options.out.read_text()) if options.out.exists() else {"methods": {}}
    for rows in options.rows:
        for method in options.methods:
            series = results["methods"].setdefault(method, {})
            if str(rows) in series:
                continue
            with tempfile.TemporaryDirectory() as folder:
                place = Path(folder) / "found.json"
                words = ["--rows", str(rows), "--methods", method, "--one", str(place)]
                subprocess.run([sys.executable, __file__, *words], check=True)
                series[str(rows)] = found = json.loads(place.read_text())
            if "scores" in found:
                results.setdefault("scores", {})[str(rows)] = found.pop("scores")
            print(method, rows, series[str(rows)], flush=True)
            results["machine"] = machine(threads=1)
            options.out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()

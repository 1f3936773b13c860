"""Stored rows: peak memory as the store grows, and speed compared with rows in memory.

``memory`` draws rows from sparse files of several sizes, each in its own process, and records the
peak of the process; ``speed`` trains on the CPU alternately from memory and from disk; ``device``
does the same with the training of ``step.py`` on CUDA, from the device, from the host's memory and
from disk, with nothing in the system's cache at the start of a window. Reported are medians over
windows, with extremes.

    PYTHONPATH=src python benchmarks/streaming.py memory speed
    PYTHONPATH=src python benchmarks/streaming.py device --out streaming-h200.json
"""

import argparse
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dessl import SemiData
from dessl.data import StoredStream, open_rows
from dessl.models import MLP, LeNet
from dessl.surrogates import FixMatch, PseudoLabel
from dessl.training.plan import TrainPlan
from dessl.training.run import Run
from machine import machine

RESULTS = Path(__file__).parent / "results" / "streaming.json"
BATCH = 448
GIGABYTE = 10**9
# rows and their shape: images of 32 pixels from 1 to 20 GB, and 100 million rows of a table
SIZES = {
    "1 GB of images": (325_520, (3, 32, 32), "uint8"),
    "5 GB of images": (1_627_604, (3, 32, 32), "uint8"),
    "20 GB of images": (6_510_416, (3, 32, 32), "uint8"),
    "100 million rows of 16 columns": (100_000_000, (16,), "float32"),
}
SMOKE_SIZES = {"tiny": (5_000, (3, 32, 32), "uint8"), "small": (50_000, (3, 32, 32), "uint8")}


def sparse_npy(path: Path, rows: int, shape: tuple[int, ...], dtype: str) -> None:
    """Write an npy file of zeros that takes no room on disk: a header, and a hole."""
    with path.open("wb") as file:
        np.lib.format.write_array_header_2_0(
            file, {"descr": np.dtype(dtype).str, "fortran_order": False, "shape": (rows, *shape)}
        )
        start = file.tell()
        file.truncate(start + rows * math.prod(shape) * np.dtype(dtype).itemsize)


def peak_mb() -> float:
    """Return the most memory that this process has had, in megabytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def drawn(name: str, batches: int | None) -> dict[str, Any]:
    """Draw an epoch, or so many batches, of one store in this process."""
    rows, shape, dtype = (SIZES | SMOKE_SIZES)[name]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        sparse_npy(path, rows, shape, dtype)
        before = peak_mb()
        stream = StoredStream(open_rows(path), BATCH, seed=0)
        count = min(batches or rows // BATCH, rows // BATCH)
        began = time.perf_counter()
        for _ in range(count):
            stream.draw()
        seconds = time.perf_counter() - began
        stream.close()
    size = rows * math.prod(shape) * np.dtype(dtype).itemsize
    return {
        "store": name,
        "rows": rows,
        "gigabytes": round(size / GIGABYTE, 2),
        "drawn gigabytes": round(count * BATCH * size / rows / GIGABYTE, 2),
        "MB before": round(before),
        "MB at the peak": round(peak_mb()),
        "MB more": round(peak_mb() - before),
        "MB of a batch": round(BATCH * size / rows / 1e6, 2),
        "seconds": round(seconds, 1),
    }


def memory(folder: Path, *, smoke: bool) -> list[dict[str, Any]]:
    """Measure every size in a process of its own, its file in the folder."""
    found = []
    for name in SMOKE_SIZES if smoke else SIZES:
        command = [sys.executable, __file__, "--only", name]
        printed = subprocess.check_output(
            command, text=True, env={**os.environ, "TMPDIR": f"{folder}"}
        )
        found.append(json.loads(printed))
        print(
            "{store:<32} peak {MB at the peak} MB, {MB more} more than before".format(**found[-1])
        )
    return found


class Way:
    """One way to be fed, ready to be timed."""

    def __init__(self, run: Run, before: Callable[[], None] = lambda: None) -> None:
        self.run, self.before = run, before
        self.rates: list[float] = []
        self.steps(3)

    def steps(self, count: int) -> None:
        """Take steps as the loop does, and wait for the last."""
        for step in range(self.run.done, self.run.done + count):
            self.run.take(step)
        self.run.done += count
        if self.run.device.type == "cuda":
            torch.cuda.synchronize()

    def window(self, seconds: float) -> None:
        """Time about so many seconds of steps."""
        self.before()
        count = 5 if not self.rates else max(5, round(seconds * self.rates[-1]))
        began = time.perf_counter()
        self.steps(count)
        self.rates.append(count / (time.perf_counter() - began))


def timed(ways: dict[str, Way], windows: int, seconds: float) -> dict[str, Any]:
    """Time all ways in turns; the first is what the others are compared with."""
    for _ in range(windows + 1):  # the first window only finds out how long one takes
        for way in ways.values():
            way.window(seconds)
    first = next(iter(ways.values())).rates[1:]
    found: dict[str, Any] = {}
    for name, way in ways.items():
        rates = way.rates[1:]
        ratios = [rate / base for rate, base in zip(rates, first, strict=True)]
        found[name] = {
            "mode": way.run.accelerated.mode,
            "steps/s": round(statistics.median(rates), 2),
            "slowest": round(min(rates), 2),
            "fastest": round(max(rates), 2),
            "ratio": round(statistics.median(ratios), 4),
        }
        print(f"{name:<24} {found[name]['steps/s']:9.2f} steps/s, ratio {found[name]['ratio']:.3f}")
    return found


def table_run(data: SemiData) -> Run:
    """Return the recipe's network for a table, 64 + 192 rows."""
    plan = TrainPlan(steps=10**6, labelled_batch=64, unlabelled_batch=192, optimiser="adamw")
    torch.manual_seed(0)
    return Run(MLP(data.x.shape[1], 2, hidden=(512,)), PseudoLabel(), data, plan, None)


def image_run(data: SemiData) -> Run:
    """Return FixMatch on grey images, 32 + 224 rows."""
    plan = TrainPlan(steps=10**6, labelled_batch=32, unlabelled_batch=224, lam=0.5)
    torch.manual_seed(0)
    return Run(LeNet(n_classes=2), FixMatch(), data, plan, None)


def speed(folder: Path, *, smoke: bool) -> dict[str, Any]:
    """Train from memory and from disk in turns, on the CPU, with one thread."""
    torch.set_num_threads(1)
    rows = 5_000 if smoke else 1_000_000
    g = torch.Generator().manual_seed(0)
    made: dict[str, tuple[torch.Tensor, Callable[[SemiData], Run]]] = {
        "table of 30 columns": (torch.randn(rows, 30, generator=g), table_run),
        "images of 28 pixels": (
            torch.randint(256, (rows // 4, 1, 28, 28), dtype=torch.uint8, generator=g),
            image_run,
        ),
    }
    found = {}
    for number, (name, (x, run)) in enumerate(made.items()):
        path, labelled = folder / f"{number}.npy", 1_000
        np.save(path, x[labelled:].numpy())
        y = torch.arange(len(x)) % 2
        whole = SemiData(x, torch.where(torch.arange(len(x)) < labelled, y, -1))
        few = SemiData(x[:labelled].clone(), y[:labelled], stored=open_rows(path))
        print(name)
        ways = {"in memory": Way(run(whole)), "from disk": Way(run(few))}
        found[name] = timed(ways, 2 if smoke else 9, 0.0 if smoke else 1.0)
        for way in ways.values():
            way.run.result()
    return found


def device(folder: Path, *, smoke: bool) -> dict[str, Any]:
    """Train as ``step.py`` does from the device, from the host's memory and from disk."""
    from dessl.augment import Strong, Weak
    from dessl.models import wrn_28_2
    from step import MEAN, PLAN, STD, random_images

    where = torch.device("cpu" if smoke else "cuda")
    torch.backends.cudnn.benchmark = True
    resident = random_images(500 if smoke else 50_000, where)
    rows = 1_000 if smoke else 1_000_000
    x = torch.randint(256, (rows, 3, 32, 32), dtype=torch.uint8)
    path = folder / "rows.npy"
    np.save(path, x.numpy())
    few = SemiData(resident.x[resident.labelled_rows], resident.y[resident.labelled_rows])
    plan = replace(PLAN, compile="on", graph="on")
    if smoke:
        plan = replace(PLAN, precision="float32", labelled_batch=1, unlabelled_batch=2)
    views = {"mean": MEAN, "std": STD, "dtype": torch.float32 if smoke else torch.bfloat16}

    def run(data: SemiData) -> Run:
        torch.manual_seed(0)
        surrogate = FixMatch(weak=Weak(**views), strong=Strong(**views), targets="apart")
        return Run(wrn_28_2(), surrogate, data, plan, None)

    ways = {
        "device": Way(run(resident)),
        "host memory": Way(run(few.with_stored(open_rows(x)))),
        "disk": Way(run(few.with_stored(open_rows(path))), before=lambda: uncached(path)),
    }
    found = timed(ways, 1 if smoke else 7, 0.0 if smoke else 2.0)
    for way in ways.values():
        way.run.result()
    return found


def uncached(path: Path) -> None:
    """Drop a file from the system's cache, where the system can."""
    if hasattr(os, "posix_fadvise"):
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


PARTS: dict[str, Callable[..., Any]] = {"memory": memory, "speed": speed, "device": device}


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", help="memory, speed or device")
    parser.add_argument("--only", help="draw from one store here, and print it as JSON")
    parser.add_argument("--batches", type=int, help="draw so many, not an epoch")
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args(argv)
    if options.only:
        print(json.dumps(drawn(options.only, options.batches)))
        return
    out: Path = options.out
    found = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {}
    for part in options.parts:
        with tempfile.TemporaryDirectory() as folder:
            found[part] = PARTS[part](Path(folder), smoke=options.smoke)
        found["machine"] = machine()
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

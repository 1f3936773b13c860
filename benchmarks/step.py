"""Steps per second of DeFixMatch: WRN-28-2, 64 labelled + 448 unlabelled rows, on CUDA.

All parts of a step are included: drawing rows, weak and strong views, forward, backward, update,
averaged weights, statistics. Variants are measured alternately over several windows; reported are
medians with extremes. The floor is the larger of two times, each measured in the same run: the
step's operations at the rate of a large bf16 matrix product, and the bytes that convolutions and
normalisations must move (each operand once per kernel, batch statistics as one more pass) at the
rate of a large copy.

    PYTHONPATH=src python benchmarks/step.py --out benchmarks/results/step-h200.json
    PYTHONPATH=src python benchmarks/step.py --smoke      # tiny, on any machine
"""

import argparse
import json
import statistics
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from dessl import SemiData
from dessl.augment import Strong, Weak
from dessl.models import wrn_28_2
from dessl.surrogates import FixMatch
from dessl.training.plan import TrainPlan
from dessl.training.run import Run
from floor import device_rates, least_time, wait
from machine import machine

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
PLAN = TrainPlan(
    steps=2**20,
    labelled_batch=64,
    unlabelled_batch=448,
    schedule="fixmatch_cosine",
    weight_decay=5e-4,
    lam=0.5,
    ema=0.999,
    precision="bf16",
)
WAYS: dict[str, tuple[dict[str, Any], str]] = {
    "eager, float32, joint": ({"precision": "float32", "compile": "off", "graph": "off"}, "joint"),
    "eager, joint": ({"compile": "off", "graph": "off"}, "joint"),
    "compiled, joint": ({"compile": "on", "graph": "off"}, "joint"),
    "compiled graph, joint": ({"compile": "on", "graph": "on"}, "joint"),
    "compiled graph, joint, ssl": ({"compile": "on", "graph": "on", "risk": "ssl"}, "joint"),
    "compiled graph": ({"compile": "on", "graph": "on"}, "apart"),
    "compiled graph, ssl": ({"compile": "on", "graph": "on", "risk": "ssl"}, "apart"),
    "compiled graph, complete case": (
        {"compile": "on", "graph": "on", "risk": "complete_case"},
        "apart",
    ),
}
SMOKE = ("eager, float32, joint",)


def random_images(rows: int, device: torch.device) -> SemiData:
    """Return CIFAR-10's shapes, 4,000 labels of 50,000: what the images show does not matter."""
    x = torch.randint(256, (rows, 3, 32, 32), dtype=torch.uint8)
    y = torch.where(torch.arange(rows) < rows * 8 // 100, torch.arange(rows) % 10, -1)
    return SemiData(x, y).to(device)


class Way:
    """One way to take steps, ready to be timed."""

    def __init__(self, data: SemiData, plan: TrainPlan, targets: str) -> None:
        torch.manual_seed(0)
        dtype = torch.bfloat16 if plan.precision == "bf16" else torch.float32
        views = {"mean": MEAN, "std": STD, "dtype": dtype}
        surrogate = FixMatch(weak=Weak(**views), strong=Strong(**views), targets=targets)
        self.run = Run(wrn_28_2(), surrogate, data, plan, None)
        self.device = data.device
        self.rates: list[float] = []
        began = time.perf_counter()
        self.steps(3)
        self.warm_up = time.perf_counter() - began

    def steps(self, count: int) -> None:
        """Take steps, as the loop does, and wait for the last."""
        run = self.run
        for step in range(run.done, run.done + count):
            run.take(step)
        run.done += count
        wait(self.device)

    def window(self, seconds: float) -> None:
        """Time about so many seconds of steps."""
        count = 2 if not self.rates else max(2, round(seconds * self.rates[-1]))
        began = time.perf_counter()
        self.steps(count)
        self.rates.append(count / (time.perf_counter() - began))


def passes(way: Way) -> list[tuple[int, bool]]:
    """Return the rows of each pass through the model, and whether it is with gradient."""
    plan = way.run.plan
    rows = plan.labelled_batch + plan.drawn_unlabelled
    if way.run.step.surrogate.targets == "joint":
        return [(2 * rows, True)]
    return [(rows, False), (rows + plan.labelled_batch, True)]


def measured(ways: dict[str, Way], windows: int, seconds: float) -> None:
    """Time all ways in turns."""
    for _ in range(windows + 1):  # the first window only finds out how long one takes
        for way in ways.values():
            way.window(seconds)
    for way in ways.values():
        del way.rates[0]


def report(ways: dict[str, Way], device: torch.device) -> dict[str, Any]:
    """Print a table and return it."""
    flops, bandwidth = device_rates(device)
    rows: dict[str, Any] = {}
    print(f"peak {flops / 1e12:.1f} Tflop/s, copy {bandwidth / 1e12:.2f} TB/s")
    for name, way in ways.items():
        rate, least = (
            statistics.median(way.rates),
            least_time(passes(way), flops, bandwidth, device),
        )
        rows[name] = {
            "mode": way.run.accelerated.mode,
            "steps/s": rate,
            "slowest": min(way.rates),
            "fastest": max(way.rates),
            "warm-up s": way.warm_up,
            "floor": least,
            "share of floor": rate * least["seconds"],
        }
        print(
            f"{name:<32} {rate:8.2f} steps/s ({min(way.rates):.2f} to {max(way.rates):.2f}), "
            f"floor {1 / least['seconds']:.1f}, reached {rate * least['seconds']:.1%}"
        )
    ratios = {
        f"{name} / ssl": ratio(ways, name)
        for name in ("compiled graph", "compiled graph, joint")
        if name in ways
    }
    print("step time, debiased over ssl:", ratios)
    return {
        "machine": machine(),
        "peak Tflop/s": flops / 1e12,
        "copy TB/s": bandwidth / 1e12,
        "ways": rows,
        "step time, debiased over ssl": ratios,
    }


def ratio(ways: dict[str, Way], name: str) -> float:
    """Return the median over windows of the step time's ratio to the ssl run's."""
    pairs = zip(ways[name].rates, ways[f"{name}, ssl"].rates, strict=True)
    return statistics.median(ssl / debiased for debiased, ssl in pairs)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=list(WAYS), default=list(WAYS))
    parser.add_argument("--windows", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(argv)
    device = torch.device("cpu" if options.smoke else "cuda")
    torch.backends.cudnn.benchmark = True
    torch._dynamo.config.recompile_limit = 64  # many ways in one process
    data = random_images(500 if options.smoke else 50_000, device)
    plan = replace(PLAN, labelled_batch=1, unlabelled_batch=1) if options.smoke else PLAN
    make = partial(Way, data)
    ways: dict[str, Way] = {}
    for name in SMOKE if options.smoke else options.only:
        changes, targets = WAYS[name]
        ways[name] = make(replace(plan, **changes), targets)
        print(f"{name}: ready after {ways[name].warm_up:.1f} s", flush=True)
    measured(ways, 1 if options.smoke else options.windows, 0 if options.smoke else options.seconds)
    found = report(ways, device)
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

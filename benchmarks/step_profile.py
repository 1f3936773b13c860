"""Where the time of a DeFixMatch step goes, and whether other settings of the compiler change it.

The step of step.py (WRN-28-2, 64 labelled + 448 unlabelled rows, compiled graph), alone on a CUDA
device. For each setting: steps per second over windows of 0.7 s. Then, for the default: the time of
the kernels of ten steps, by kind.

    PYTHONPATH=src python benchmarks/step_profile.py --out benchmarks/results/step_profile-h200.json
    PYTHONPATH=src python benchmarks/step_profile.py --smoke     # one step, on any machine
"""

import argparse
import json
import statistics
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from machine import machine
from step import PLAN, Way, random_images

WINDOWS, SECONDS, PROFILED = 4, 0.7, 10
ALL_PLANS = "cuDNN tries all its plans"  # instead of ten
SETTINGS: dict[str, dict[str, Any]] = {
    "default": {},
    ALL_PLANS: {},
    "coordinate-descent tuning": {"coordinate_descent_tuning": True},
    "cooperative reductions": {"triton.cooperative_reductions": True},
}
KINDS = {  # the first whose words are in a kernel's name
    "gradients of weights": ("wgrad",),
    "gradients of inputs": ("dgrad",),
    "convolutions": ("fprop", "convolve"),
    "statistics and other sums": ("triton_red", "triton_per"),
    "element by element": ("triton_poi",),
    "optimiser and averages": ("multi_tensor", "foreach"),
    "matrix products": ("gemm", "nvjet"),
    "copies": ("memcpy", "memset"),
}


def kind_of(kernel: str) -> str:
    """The kind of a kernel by its name."""
    name = kernel.lower()
    return next((kind for kind, words in KINDS.items() if any(w in name for w in words)), "other")


def kernels_of(way: Way, steps: int) -> dict[str, Any]:
    """Microseconds and number of a step's kernels, in all and by kind."""
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as watched:
        way.steps(steps)
    times: dict[str, float] = defaultdict(float)
    counts: Counter[str] = Counter()
    for event in watched.events() or ():
        if event.device_type == torch.autograd.DeviceType.CUDA:
            times[kind_of(event.name)] += event.time_range.elapsed_us() / steps
            counts[kind_of(event.name)] += 1
    return {
        "microseconds": round(sum(times.values())),
        "kernels": round(sum(counts.values()) / steps),
        "by kind": {kind: round(time) for kind, time in sorted(times.items(), key=lambda i: -i[1])},
    }


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", nargs="+", choices=list(SETTINGS), default=list(SETTINGS))
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(argv)
    data = random_images(500 if options.smoke else 50_000, torch.device("cpu"))
    plan = replace(PLAN, compile="on", graph="on")
    windows, seconds, profiled = WINDOWS, SECONDS, PROFILED
    if options.smoke:
        plan = replace(
            PLAN, labelled_batch=1, unlabelled_batch=1, precision="float32", compile="off"
        )
        windows, seconds, profiled = 1, 0.0, 1
    else:
        data = data.to("cuda")
        torch.backends.cudnn.benchmark = True
    found: dict[str, Any] = {"machine": machine(), "steps/s": {}}
    for name in options.only[:1] if options.smoke else options.only:
        torch.backends.cudnn.benchmark_limit = 0 if name == ALL_PLANS else 10
        torch.compiler.reset()
        with torch._inductor.config.patch(SETTINGS[name]):
            way = Way(data, plan, "apart")
        for _ in range(windows + 1):
            way.window(seconds)
        rates = way.rates[1:]
        found["steps/s"][name] = {"median": statistics.median(rates), "windows": rates}
        print(f"{name:<28} {statistics.median(rates):8.1f} steps/s", flush=True)
        if name == "default":
            found["a step"] = kernels_of(way, profiled)
            print(json.dumps(found["a step"], indent=1), flush=True)
    if options.out:
        options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

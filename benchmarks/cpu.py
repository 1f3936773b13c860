"""The overhead of our loop over a bare PyTorch loop on a CPU, and whether its memory grows.

Both loops train the same model with the same risk on rows of the same streams. The bare one has
only the essentials: rows, forward, loss, backward, update; ours also keeps statistics of the risk's
parts, masks and gradient, detects divergence and follows schedules. They alternate; the overhead is
the median ratio of their times, in wall-clock and in processor time: on a busy machine only the
latter is stable. Memory is the resident set of a run on 50,000 images of 32 × 32 × 3, read every
hundred steps.

    OMP_NUM_THREADS=2 python benchmarks/cpu.py --out benchmarks/results/cpu.json
"""

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import nn

from dessl import Batches, SemiData
from dessl.augment import Weak
from dessl.models import MLP, LeNet, MedCNN
from dessl.surrogates import Entropy, PseudoLabel
from dessl.training import Event, TrainPlan, train
from machine import machine

LAM = 0.5
SIZES = {"labelled_batch": 72, "unlabelled_batch": 400}
MODELS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "lenet": (LeNet, (1, 28, 28)),
    "medcnn": (lambda: MedCNN(10, in_channels=1), (1, 28, 28)),
    "mlp": (lambda: MLP(64, 10), (64,)),
}


def random_rows(shape: tuple[int, ...], n: int = 10_000) -> SemiData:
    """Return floats with 1,000 labels."""
    y = torch.where(torch.arange(n) < 1000, torch.arange(n) % 10, -1)
    return SemiData(torch.randn(n, *shape), y)


class Times(NamedTuple):
    """Seconds of one step, by the clock and by the processor's time."""

    clock: float
    processor: float


def now() -> Times:
    """Return both times."""
    return Times(time.perf_counter(), time.process_time())


def step_times(begin: Times, end: Times, steps: int) -> Times:
    """Return the times of one step."""
    return Times(*((after - before) / steps for before, after in zip(begin, end, strict=True)))


def our_times(build: Callable[[], nn.Module], data: SemiData, steps: int) -> Times:
    """Return the times of our loop between two evaluations, the second one included."""
    plan = TrainPlan(
        steps=2 * steps, evaluate_every=steps, lam=LAM, learning_rate=0.003, nesterov=False, **SIZES
    )
    seen: list[Times] = []
    train(build, Entropy(), data, plan, callbacks=[lambda _: seen.append(now())], progress=False)
    return step_times(*seen, steps)


def bare_times(build: Callable[[], nn.Module], data: SemiData, steps: int) -> Times:
    """Return the times of a plain loop."""
    torch.manual_seed(0)
    model = build()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.003, momentum=0.9)
    n = SIZES["labelled_batch"]
    batches = Batches(data, n, SIZES["unlabelled_batch"], seed=0)
    seen: list[Times] = []
    for step in range(2 * steps):
        if step == steps:
            seen.append(now())
        rows = torch.cat(batches.draw())
        logits = model(data.x[rows])
        log_p = logits.log_softmax(-1)
        h = -(log_p.exp() * log_p).sum(-1)
        loss = F.cross_entropy(logits[:n], data.y[rows[:n]])
        risk = loss + LAM * (h[n:].mean() - h[:n].mean())
        optimiser.zero_grad()
        risk.backward()
        optimiser.step()
    return step_times(*seen, now(), steps)


def overhead(name: str, turns: int, seconds: float) -> dict[str, float]:
    """Return both loops' times and how much longer a step of ours takes."""
    build, shape = MODELS[name]
    data = random_rows(shape)
    steps = max(5, round(seconds / bare_times(build, data, 5).clock))
    ours, bare = [], []
    for turn in range(turns):
        for loop in (0, 1) if turn % 2 else (1, 0):
            if loop:
                ours.append(our_times(build, data, steps))
            else:
                bare.append(bare_times(build, data, steps))
    found: dict[str, float] = {}
    for kind in Times._fields:
        pairs = [(getattr(o, kind), getattr(b, kind)) for o, b in zip(ours, bare, strict=True)]
        ratios = [o / b - 1 for o, b in pairs]
        found |= {
            f"ours, ms ({kind})": 1000 * statistics.median(o for o, _ in pairs),
            f"bare, ms ({kind})": 1000 * statistics.median(b for _, b in pairs),
            f"overhead ({kind})": statistics.median(ratios),
            f"least ({kind})": min(ratios),
            f"most ({kind})": max(ratios),
        }
    return found


def resident_mb() -> float:
    """Return the process's resident memory, if the system provides it (Linux)."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def memory(steps: int, rows: int = 50_000) -> dict[str, Any]:
    """Return the resident memory along a run on images."""
    x = torch.randint(256, (rows, 3, 32, 32), dtype=torch.uint8)
    data = SemiData(
        x, torch.where(torch.arange(rows) < rows * 8 // 100, torch.arange(rows) % 10, -1)
    )
    before = resident_mb()
    seen: list[float] = []

    def look(event: Event) -> None:  # noqa: ARG001 (a callback)
        seen.append(resident_mb())

    def build() -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(3, 8, 5, stride=2),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(8 * 14 * 14, 10),
        )

    plan = TrainPlan(
        steps=steps,
        labelled_batch=16,
        unlabelled_batch=48,
        ema=0.99,
        evaluate_every=max(1, steps // 20),
    )
    train(build, PseudoLabel(0.5, view=Weak()), data, plan, callbacks=[look], progress=False)
    settled = seen[len(seen) // 4]
    return {
        "images, MB": x.numel() / 2**20,
        "before the run, MB": before,
        "peak, MB": max(seen),
        "growth after a quarter of the run, MB": seen[-1] - settled,
        "along the run, MB": [round(value, 1) for value in seen],
        "steps": steps,
    }


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=3.0, help="of a turn")
    parser.add_argument("--steps", type=int, default=2000, help="of the memory run")
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(argv)
    turns, seconds, steps = (
        (1, 0.0, 20) if options.smoke else (options.turns, options.seconds, options.steps)
    )
    found = {
        "machine": machine(),
        "memory": memory(steps, 2000 if options.smoke else 50_000),
        "overhead": {},
    }
    print(json.dumps(found["memory"], indent=1), flush=True)
    for name in MODELS:
        found["overhead"][name] = overhead(name, turns, seconds)
        numbers = ", ".join(f"{key} {value:.3f}" for key, value in found["overhead"][name].items())
        print(f"{name}: {numbers}", flush=True)
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

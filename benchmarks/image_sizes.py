"""Images per second of DeFixMatch at the sizes of large data sets, on one GPU, for docs/scale.md.

ResNet-50 at 224 px and WRN-37-2 at 64 px, 1,000 classes, bf16, pseudo-labels in a separate pass. As
in step.py, all parts of a step are included: drawing rows, weak and strong views, forward,
backward, update, averaged weights, statistics; only reading from disk is not, since the rows are on
the device. On several ranks steps are eager, so the eager rate is the relevant one. ``dessl.train``
computes the views of the whole batch on each rank: their time for 8 GPUs' rows is measured too.

    PYTHONPATH=src python benchmarks/image_sizes.py --out benchmarks/results/image-sizes-h200.json
    PYTHONPATH=src python benchmarks/image_sizes.py --smoke      # tiny, on any machine
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dessl import SemiData
from dessl.augment import Strong, Weak
from dessl.models import wrn_37_2
from dessl.surrogates import FixMatch
from dessl.training.plan import TrainPlan
from dessl.training.run import Run
from floor import wait
from machine import machine

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class Bottleneck(nn.Module):
    """1 × 1, 3 × 3 and 1 × 1 convolutions, added to the input or to a shortcut from it."""

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        after = 4 * width
        self.convolutions = nn.ModuleList(
            [
                nn.Conv2d(before, width, 1, bias=False),
                nn.Conv2d(width, width, 3, stride, padding=1, bias=False),
                nn.Conv2d(width, after, 1, bias=False),
            ]
        )
        self.norms = nn.ModuleList(nn.BatchNorm2d(n) for n in (width, width, after))
        self.short: nn.Module = nn.Identity()
        if before != after or stride != 1:
            convolution = nn.Conv2d(before, after, 1, stride, bias=False)
            self.short = nn.Sequential(convolution, nn.BatchNorm2d(after))

    def forward(self, x: Tensor) -> Tensor:
        """Maps of the same or of half the size."""
        maps = x
        for number, (convolution, norm) in enumerate(
            zip(self.convolutions, self.norms, strict=True)
        ):
            maps = norm(convolution(maps))
            if number < 2:
                maps = F.relu(maps)
        return F.relu(maps + self.short(x))


def resnet_50(n_classes: int = 1000) -> nn.Module:
    """Return ResNet-50 (He et al., 2016), with the stride in the 3 × 3 convolution."""
    layers: list[nn.Module] = [
        nn.Conv2d(3, 64, 7, 2, padding=3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, padding=1),
    ]
    before = 64
    for group, blocks in enumerate((3, 4, 6, 3)):
        for block in range(blocks):
            stride = 2 if group and block == 0 else 1
            layers.append(Bottleneck(before, 64 << group, stride))
            before = 4 * (64 << group)
    return nn.Sequential(
        *layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, n_classes)
    )


class Case(NamedTuple):
    """A network, its images and its batches."""

    network: Callable[[int], nn.Module]
    side: int
    labelled: int
    unlabelled: int


CASES = {
    "ResNet-50, 224 px": Case(resnet_50, 224, 64, 320),
    "WRN-37-2, 64 px": Case(wrn_37_2, 64, 128, 640),
}
WAYS = {
    "eager": {"compile": "off", "graph": "off"},
    "graph": {"compile": "off", "graph": "on"},
    "compiled graph": {"compile": "on", "graph": "on"},
}
GPUS = 8


def training(case: Case, way: str, rows: int, device: torch.device) -> Run:
    """Return a run before its first step."""
    torch.manual_seed(0)
    x = torch.randint(256, (rows, 3, case.side, case.side), dtype=torch.uint8)
    y = torch.where(torch.arange(rows) < rows // 10, torch.arange(rows) % 1000, -1)
    plan = TrainPlan(
        steps=2**20,
        labelled_batch=case.labelled,
        unlabelled_batch=case.unlabelled,
        weight_decay=3e-4,
        lam=0.5,
        ema=0.999,
        precision="bf16" if device.type == "cuda" else "float32",
        **WAYS[way],  # type: ignore[arg-type]
    )
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    views = {"mean": MEAN, "std": STD, "dtype": dtype}
    surrogate = FixMatch(weak=Weak(**views), strong=Strong(**views), targets="apart")
    data = SemiData(x, y).to(device)
    return Run(case.network(1000).to(device), surrogate, data, plan, None)


def measured(run: Run, case: Case, windows: int, seconds: float) -> dict[str, Any]:
    """Time several windows of steps."""
    device, rates, count = run.data.device, [], 2

    def steps(count: int) -> float:
        began = time.perf_counter()
        for step in range(run.done, run.done + count):
            run.take(step)
        run.done += count
        wait(device)
        return time.perf_counter() - began

    warm_up = steps(3)
    for _ in range(windows + 1):  # the first window only finds out how long one takes
        rates.append(count / steps(count))
        count = max(2, round(seconds * rates[-1]))
    del rates[0]
    rate = statistics.median(rates)
    drawn = case.labelled + case.unlabelled
    memory = torch.cuda.max_memory_allocated() / 2**30 if device.type == "cuda" else None
    return {
        "mode": run.accelerated.mode,
        "steps/s": rate,
        "slowest": min(rates),
        "fastest": max(rates),
        "windows": len(rates),
        "labelled rows of a step": case.labelled,
        "unlabelled rows of a step": case.unlabelled,
        "unlabelled images/s": rate * case.unlabelled,
        "images/s": rate * drawn,
        "bytes of an image": 3 * case.side**2,
        "parameters": sum(p.numel() for p in run.step.model.parameters()),
        "memory GiB": memory,
        "seconds of views of 8 GPUs' rows": views_seconds(run, GPUS * drawn),
        "warm-up s": warm_up,
    }


def views_seconds(run: Run, rows: int) -> float:
    """Return the time of both views of so many rows: the median of three."""
    surrogate, device = run.step.surrogate, run.data.device
    x = run.data.x[torch.arange(rows, device=device) % len(run.data.x)]
    times = []
    for _ in range(4):  # the first warms up
        began = time.perf_counter()
        for view in (surrogate.weak, surrogate.strong):
            view(x, surrogate.generator(device))
        wait(device)
        times.append(time.perf_counter() - began)
    return statistics.median(times[1:])


def main(argv: Sequence[str] | None = None) -> None:
    """Measure each case, print, and write as it goes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ways", nargs="+", choices=list(WAYS), default=["eager", "graph"])
    parser.add_argument("--windows", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(argv)
    device = torch.device("cpu" if options.smoke else "cuda")
    ways = ["eager"] if options.smoke else options.ways
    torch.backends.cudnn.benchmark = True
    found: dict[str, Any] = {"machine": machine(), "cases": {}}
    for way in ways:
        for name, case in CASES.items():
            if options.smoke:
                case = shrunk(case)
            if device.type == "cuda":
                torch.cuda.empty_cache()
                torch.cuda.reset_peak_memory_stats()
            run = training(case, way, 20 if options.smoke else 4000, device)
            windows, seconds = (1, 0.0) if options.smoke else (options.windows, options.seconds)
            its = measured(run, case, windows, seconds)
            found["cases"][name if way == "eager" else f"{name}, {way}"] = its
            print(f"{name}, {way}: {its['steps/s']:.2f} steps/s, {its['images/s']:.0f} images/s")
            del run
            if options.out:
                options.out.parent.mkdir(parents=True, exist_ok=True)
                options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def shrunk(case: Case) -> Case:
    """Return the case with images and batches that a CPU can try."""
    return case._replace(side=32, labelled=1, unlabelled=2)


if __name__ == "__main__":
    main()

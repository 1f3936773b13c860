"""Images per second of the strong view: ours, batched on the device, and the usual way.

The usual way is Pillow in DataLoader workers, one image at a time. Both draw from the same
distribution (flip, shift, three operations of random magnitude, Cutout, normalisation) on the same
images, on one machine, in one run, alternately. On a CPU ours has as many threads as the usual way
has worker processes: all on one batch, or each on its own batch, as workers do.

    python benchmarks/augment.py --out benchmarks/results/augment.json
"""

import argparse
import json
import os
import statistics
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import PIL
import torch
from torch import Tensor
from torch.utils.data import DataLoader

from dessl.augment import Strong, StrongDraw
from machine import cores, machine
from pillow_views import PillowViews

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)


def loaded_images(count: int) -> tuple[Tensor, str]:
    """Return uint8 images (count, 3, 32, 32), and what they are."""
    folder = Path(os.environ.get("DESSL_DATA", "")) / "cifar-10-batches-bin"
    if "DESSL_DATA" in os.environ and folder.is_dir():
        files = [folder / f"data_batch_{number}.bin" for number in range(1, 6)]
        rows = np.concatenate([np.fromfile(file, dtype=np.uint8) for file in files])
        pixels = rows.reshape(-1, 3073)[:count, 1:].reshape(-1, 3, 32, 32)
        return torch.from_numpy(pixels.copy()), "CIFAR-10"
    generator = torch.Generator().manual_seed(0)
    coarse = torch.rand(count, 3, 6, 6, generator=generator) * 255
    smooth = torch.nn.functional.interpolate(coarse, size=32, mode="bicubic")
    noise = 8 * torch.randn(smooth.shape, generator=generator)
    return (smooth + noise).clamp(0, 255).to(torch.uint8), "generated, CIFAR-like"


def usual_way(images: Tensor, batch: int, workers: int) -> Callable[[], float]:
    """Return a measurement of Pillow in workers: images per second over one epoch."""
    loader = DataLoader(
        PillowViews(images, MEAN, STD),
        batch,
        shuffle=True,
        num_workers=workers,
        persistent_workers=True,
    )

    def measure() -> float:
        start = time.perf_counter()
        count = sum(len(views) for views in loader)
        return count / (time.perf_counter() - start)

    measure()  # workers start here, once, and stay awake
    return measure


def our_way(
    images: Tensor, batch: int, view: Callable[[Tensor], Tensor], least_s: float, threads: int = 0
) -> Callable[[], float]:
    """Return a measurement of ours: images per second over whole epochs of a minimum duration."""
    batches = [part for part in images.split(batch) if len(part) == batch]
    done = torch.cuda.synchronize if images.is_cuda else lambda: None
    each: Callable[..., Any] = map
    if threads:
        each = ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)).map

    def epoch() -> None:
        for _ in each(view, batches):
            pass
        done()

    def measure() -> float:
        start, count = time.perf_counter(), 0
        while time.perf_counter() - start < least_s:
            epoch()
            count += batch * len(batches)
        return count / (time.perf_counter() - start)

    epoch()
    return measure


def captured(
    strong: Strong, apply: Callable[[Tensor, StrongDraw], Tensor], example: Tensor
) -> Callable[[Tensor], Tensor]:
    """Return draw and view as one CUDA graph; each replay makes a new draw."""
    images = example.clone()
    generator = torch.Generator(images.device).manual_seed(0)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            in_two_steps(strong, apply, generator, images)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    graph.register_generator_state(generator)
    with torch.cuda.graph(graph):
        view = in_two_steps(strong, apply, generator, images)

    def replay(part: Tensor) -> Tensor:
        images.copy_(part)
        graph.replay()
        return view

    return replay


def cpu_ways(
    images: Tensor, batch: int, least_s: float, threads: int
) -> dict[str, Callable[[], float]]:
    """Return a measurement of ours for each way to use the threads."""
    strong = Strong(n_ops=3, mean=MEAN, std=STD)
    generators = defaultdict(torch.Generator)

    def view(part: Tensor) -> Tensor:
        return strong(part, generators[threading.get_ident()])

    ways = {"ours, a batch a thread": our_way(images, batch, view, least_s, threads)}
    torch.set_num_threads(threads)
    return ways | {"ours, threads share": our_way(images, batch, view, least_s)}


def cuda_ways(images: Tensor, batch: int, least_s: float) -> dict[str, Callable[[], float]]:
    """Return a measurement of ours for each way to run on a GPU."""
    ways: dict[str, Callable[[Tensor], Tensor]] = {}
    for dtype in (torch.float32, torch.bfloat16):
        strong = Strong(n_ops=3, mean=MEAN, std=STD, dtype=dtype)
        generator = torch.Generator(images.device).manual_seed(0)
        apply = torch.compile(strong.apply, fullgraph=True)
        kind = str(dtype).removeprefix("torch.")
        ways[f"ours, eager, {kind}"] = partial(strong, generator=generator)
        ways[f"ours, compiled, {kind}"] = partial(in_two_steps, strong, apply, generator)
        ways[f"ours, graph, {kind}"] = captured(strong, apply, images[:batch])
    return {name: our_way(images, batch, view, least_s) for name, view in ways.items()}


def in_two_steps(
    strong: Strong,
    apply: Callable[[Tensor, StrongDraw], Tensor],
    generator: torch.Generator,
    images: Tensor,
) -> Tensor:
    """Return a view with a compiled ``apply``; the draw, with its generator, is not."""
    return apply(images, strong.draw(images, generator))


def summary(rates: list[float]) -> dict[str, Any]:
    """Return the median and spread of rates, in images per second."""
    return {
        "median": round(statistics.median(rates)),
        "least": round(min(rates)),
        "most": round(max(rates)),
        "runs": [round(rate) for rate in rates],
    }


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--batch", type=int, help="512 on a CPU, 4096 on a GPU")
    parser.add_argument("--images", type=int, default=20_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--workers", type=int, default=cores())
    parser.add_argument("--out", type=Path)
    parser.add_argument("--smoke", action="store_true", help="seconds, not minutes")
    arguments = parser.parse_args()
    if arguments.smoke:
        arguments.images, arguments.repeats = 2_000, 2
    batch = arguments.batch or (4096 if arguments.device.startswith("cuda") else 512)
    batch = min(batch, arguments.images)
    images, source = loaded_images(arguments.images)

    # The loader comes first: it forks its workers before this process opens a GPU.
    measures = {"Pillow in workers": usual_way(images, min(batch, 256), arguments.workers)}
    least_s = 0.2 if arguments.smoke else 1.0
    if arguments.device.startswith("cuda"):
        measures |= cuda_ways(images.to(arguments.device), batch, least_s)
    else:
        measures |= cpu_ways(images, batch, least_s, arguments.workers)
    rates: dict[str, list[float]] = {name: [] for name in measures}
    for _ in range(arguments.repeats):
        for name, measure in measures.items():
            rates[name].append(measure())

    results = {name: summary(values) for name, values in rates.items()}
    usual = results["Pillow in workers"]["median"]
    report = {
        "machine": machine(pillow=PIL.__version__),
        "setting": {
            "images": f"{len(images)} of 3×32×32, {source}",
            "device": arguments.device,
            "batch": batch,
            "workers and threads": arguments.workers,
            "repeats": arguments.repeats,
        },
        "images per second": results,
        "ratio": {name: round(one["median"] / usual, 2) for name, one in results.items()},
    }
    for part in ("machine", "setting"):
        print(f"{part}: " + ", ".join(f"{key} {value}" for key, value in report[part].items()))
    for name, one in results.items():
        spread = f"{one['least']:,} to {one['most']:,}"
        print(f"{name:24s} {one['median']:>12,}/s  ({spread})  ×{report['ratio'][name]}")
    if arguments.out:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()

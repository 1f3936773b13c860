"""Forward and backward passes per second of every network, and their share of the device's peak.

On CUDA: bf16 autocast, channels-last, the passes captured once in a CUDA graph and replayed, as in
training. The peak is a bf16 matrix product of side 8192 timed in the same run; operations are
counted by ``torch.utils.flop_counter`` (two for a multiplication and an addition).

    PYTHONPATH=src python benchmarks/models.py --compile --out benchmarks/models.json
    PYTHONPATH=src python benchmarks/models.py --smoke     # a few rows in float32, on any machine
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from dessl.models import MODELS
from machine import machine


class Case(NamedTuple):
    """One network: its options, the shape of one row, and how many rows a batch has on CUDA."""

    options: dict[str, Any]
    row: tuple[int, ...]
    batch: int


CASES = {
    "toy_mlp": Case({}, (1,), 65536),
    "mlp": Case({"n_features": 64, "n_classes": 10}, (64,), 65536),
    "lenet": Case({}, (1, 28, 28), 16384),
    "medcnn": Case({"n_classes": 10}, (3, 28, 28), 8192),
    "cnn13": Case({}, (3, 32, 32), 1024),
    "wrn_28_2": Case({}, (3, 32, 32), 1024),  # FixMatch's 64 + 448 rows, weak and strong
    "wrn_28_8": Case({}, (3, 32, 32), 512),
    "wrn_37_2": Case({}, (3, 96, 96), 512),
    "fast_cifar": Case({}, (3, 32, 32), 1024),
}


@dataclass(frozen=True)
class Setting:
    """How to measure: several windows of at least so many seconds each."""

    device: torch.device
    windows: int
    seconds: float
    smoke: bool

    @property
    def on_cuda(self) -> bool:
        """Whether the device has graphs and bf16 tensor cores."""
        return self.device.type == "cuda"


@dataclass(frozen=True)
class Result:
    """What one network did; rates are medians over the windows, with their extremes."""

    name: str
    compiled: bool
    batch: int
    parameters: int
    gflop_per_row: float
    rows_per_second: float
    slowest: float
    fastest: float
    tflops: float
    share_of_peak: float


def seconds_per_call(call: Callable[[], object], setting: Setting) -> list[float]:
    """Time of one call in each window, the device having finished before and after it."""

    def window(calls: int) -> float:
        wait(setting)
        start = time.perf_counter()
        for _ in range(calls):
            call()
        wait(setting)
        return (time.perf_counter() - start) / calls

    for _ in range(1 if setting.smoke else 3):
        call()
    calls = max(1, round(setting.seconds / window(1)))
    return [window(calls) for _ in range(setting.windows)]


def wait(setting: Setting) -> None:
    """Let the device finish."""
    if setting.on_cuda:
        torch.cuda.synchronize(setting.device)


def peak_flops(setting: Setting) -> float:
    """Operations a second of a large matrix product: what the device can do at best."""
    side = 8192 if setting.on_cuda else 256 if setting.smoke else 2048
    dtype = torch.bfloat16 if setting.on_cuda else torch.float32
    a, b = (torch.randn(side, side, device=setting.device, dtype=dtype) for _ in range(2))
    return 2 * side**3 / min(seconds_per_call(lambda: a @ b, setting))


def passes(model: nn.Module, x: Tensor, y: Tensor, setting: Setting) -> Callable[[], None]:
    """One forward and one backward pass, its gradients overwriting the last ones."""

    def forward_and_backward() -> None:
        # Weights are cast anew each time: a cached cast would not be part of a captured graph.
        bf16 = torch.autocast(
            setting.device.type, torch.bfloat16, enabled=setting.on_cuda, cache_enabled=False
        )
        model.zero_grad(set_to_none=True)
        with bf16:
            loss = F.cross_entropy(model(x), y)
        loss.backward()

    return forward_and_backward


def replay(call: Callable[[], None]) -> Callable[[], None]:
    """The call's device work as one CUDA graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def flop_per_row(model: nn.Module, x: Tensor, y: Tensor, setting: Setting) -> float:
    """Operations of a forward and a backward pass, for one row."""
    with FlopCounterMode(display=False) as counter:
        passes(model, x[:2], y[:2], setting)()
    return counter.get_total_flops() / 2


def measured(name: str, setting: Setting, peak: float, *, compiled: bool) -> Result:
    """One network's rates."""
    case = CASES[name]
    batch = 2 if setting.smoke else case.batch if setting.on_cuda else 64
    torch.manual_seed(0)
    model = MODELS[name](**case.options).to(setting.device)
    x = torch.randn(batch, *case.row, device=setting.device)
    if x.ndim == 4:
        model.to(memory_format=torch.channels_last)
        x = x.to(memory_format=torch.channels_last)
    y = torch.randint(2, (batch,), device=setting.device)
    flop = flop_per_row(model, x, y, setting)
    call = passes(torch.compile(model) if compiled else model, x, y, setting)
    times = seconds_per_call(replay(call) if setting.on_cuda else call, setting)
    rate = batch / statistics.median(times)
    return Result(
        name=name,
        compiled=compiled,
        batch=batch,
        parameters=sum(p.numel() for p in model.parameters()),
        gflop_per_row=flop / 1e9,
        rows_per_second=rate,
        slowest=batch / max(times),
        fastest=batch / min(times),
        tflops=rate * flop / 1e12,
        share_of_peak=rate * flop / peak,
    )


def measured_on(setting: Setting) -> dict[str, Any]:
    """What the numbers were measured on, and how."""
    return machine(
        cudnn=torch.backends.cudnn.version() if setting.on_cuda else None,
        precision="bf16 autocast" if setting.on_cuda else "float32",
        windows=setting.windows,
        seconds_per_window=setting.seconds,
        smoke=setting.smoke,
    )


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=sorted(CASES), default=list(CASES))
    parser.add_argument("--compile", action="store_true", help="measure with torch.compile too")
    parser.add_argument("--smoke", action="store_true", help="two rows, one short window, CPU")
    parser.add_argument("--windows", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5, help="least length of a window")
    parser.add_argument("--out", type=Path, help="where to write the results as JSON")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print a table, write JSON."""
    options = arguments(argv)
    on_cuda = torch.cuda.is_available() and not options.smoke
    device = torch.device("cuda" if on_cuda else "cpu")
    windows, seconds = (1, 0.0) if options.smoke else (options.windows, options.seconds)
    setting = Setting(device, windows, seconds, options.smoke)
    torch.backends.cudnn.benchmark = True
    facts = measured_on(setting)
    peak = peak_flops(setting)
    print(", ".join(f"{key} {value}" for key, value in facts.items()))
    print(f"peak, a matrix product in the same run: {peak / 1e12:.2f} Tflop/s\n")
    print("network       compiled   batch  parameters  Gflop/row       rows/s  Tflop/s   of peak")
    results = []
    for name in options.only:
        for compiled in (False, True) if options.compile else (False,):
            r = measured(name, setting, peak, compiled=compiled)
            results.append(r)
            print(
                f"{r.name:<13} {r.compiled!s:<8} {r.batch:>7} {r.parameters:>11,} "
                f"{r.gflop_per_row:>10.4f} {r.rows_per_second:>12,.0f} {r.tflops:>8.2f} "
                f"{r.share_of_peak:>8.1%}",
                flush=True,
            )
            torch.compiler.reset()
    if options.out:
        report = {
            "machine": facts,
            "peak_tflops": peak / 1e12,
            "results": list(map(asdict, results)),
        }
        options.out.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

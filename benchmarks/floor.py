"""A lower bound on the time of a WRN-28-2 step: operations at peak rate, bytes at bandwidth."""

import time
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from dessl.models import wrn_28_2


def wait(device: torch.device) -> None:
    """Let the device finish."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def best_time(call: Callable[[], object], device: torch.device) -> float:
    """Return the shortest of some timings of a call, each of ten in a row."""
    times = []
    for _ in range(5):
        wait(device)
        began = time.perf_counter()
        for _ in range(10):
            call()
        wait(device)
        times.append((time.perf_counter() - began) / 10)
    return min(times)


def device_rates(device: torch.device) -> tuple[float, float]:
    """Return operations per second of a large matrix product, and bytes per second of a copy."""
    side, count = (8192, 2**28) if device.type == "cuda" else (256, 2**20)
    a, b = (torch.randn(side, side, device=device, dtype=torch.bfloat16) for _ in range(2))
    source = torch.zeros(count, device=device)
    target = torch.empty_like(source)
    flops = 2 * side**3 / best_time(lambda: a @ b, device)
    return flops, 2 * 4 * count / best_time(lambda: target.copy_(source), device)


def moved_bytes(model: nn.Module, passes: Sequence[tuple[int, bool]], size: int = 2) -> int:
    """Return the bytes that passes of (rows, with gradient) must move through memory.

    A convolution reads its input and writes its output; backward it reads its input and twice the
    output's gradient, and writes the input's. A normalisation reads its input twice (statistics,
    then values) and writes once; backward it reads input and gradient twice and writes one.
    """
    forward = backward = 0

    def count(module: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        nonlocal forward, backward
        into, out = inputs[0][0].numel(), output[0].numel()
        if isinstance(module, nn.Conv2d):
            forward, backward = forward + into + out, backward + 2 * into + 2 * out
        else:
            forward, backward = forward + 3 * into, backward + 5 * into

    layers = [m for m in model.modules() if isinstance(m, nn.Conv2d | nn.BatchNorm2d)]
    hooks = [layer.register_forward_hook(count) for layer in layers]
    device = next(model.parameters()).device
    with torch.no_grad():
        model.eval()(torch.zeros(1, 3, 32, 32, device=device))
    for hook in hooks:
        hook.remove()
    return size * sum(n * (forward + (backward if grad else 0)) for n, grad in passes)


def least_time(
    passes: Sequence[tuple[int, bool]], flops: float, bandwidth: float, device: torch.device
) -> dict[str, float]:
    """Return a lower bound on the time of passes through WRN-28-2, and its parts.

    Args:
        passes: Rows of each, and whether it is with gradient.
        flops: Operations a second.
        bandwidth: Bytes a second.
        device: Where to count.
    """
    model = wrn_28_2().to(device)
    operations = 0
    for n, with_gradient in passes:
        with FlopCounterMode(display=False) as counter, torch.set_grad_enabled(with_gradient):
            logits = model(torch.zeros(2, 3, 32, 32, device=device))
            if with_gradient:
                logits.sum().backward()
        operations += counter.get_total_flops() * n // 2
    moved = moved_bytes(model, passes)
    seconds = max(operations / flops, moved / bandwidth)
    return {"Tflop": operations / 1e12, "GB": moved / 1e9, "seconds": seconds}

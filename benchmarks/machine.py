"""Describes the machine that a benchmark was run on, in one place for all benchmarks."""

import os
from pathlib import Path
from typing import Any

import torch

from dessl.results.machine import machine_facts


def machine(**more: Any) -> dict[str, Any]:
    """Return versions, processor, cores, threads and device, and a benchmark's own entries."""
    facts = {"cpu": cpu_model(), "cores": cores(), "cuda": torch.version.cuda}
    return machine_facts() | facts | more


def cores() -> int:
    """Return the number of cores that this process may use."""
    allowed = getattr(os, "sched_getaffinity", None)  # Linux only
    return len(allowed(0)) if allowed else os.cpu_count() or 1


def cpu_model() -> str | None:
    """Return the processor's model name, where the system has it in a file."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else None

"""What a benchmark was measured on: one place for all of them."""

import os
from pathlib import Path
from typing import Any

import torch

from dessl.results.machine import machine_facts


def machine(**more: Any) -> dict[str, Any]:
    """Return versions, processor, cores, threads and device, and what else a benchmark adds."""
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

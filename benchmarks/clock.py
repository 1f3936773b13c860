"""How long this process has been running, for what is timed from the command.

Import it before anything that takes long: where the system does not tell when the process began,
the time of this import has to do.
"""

import os
import time
from pathlib import Path

IMPORTED = time.perf_counter()
STAT = Path("/proc/self/stat")
START = 19  # of the fields after the name in parentheses: ticks from boot to the process's start


def since_command() -> float:
    """Seconds since this process began, imports included (on Linux; else since this import)."""
    imported = time.perf_counter() - IMPORTED
    if not STAT.exists():
        return imported
    began = int(STAT.read_text().rsplit(")", 1)[1].split()[START]) / os.sysconf("SC_CLK_TCK")
    return max(time.clock_gettime(time.CLOCK_BOOTTIME) - began, imported)

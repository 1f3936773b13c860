"""Interrupt commands while they start, from the first instruction of Python on, and count.

    python tests/torture/starts.py --signals 40 --seed 3      adds to results/torture.json

Each process is a fresh one: ``python -m dessl``, the script ``dessl``, or ``make demo``. Its
signal, SIGINT or SIGTERM, comes at a random time of its first second, half of them in the first
tenth. It must end with 130 or 143 and one line. Only while Python itself starts, before it has
reached a line of dessl, may it end otherwise: by the signal, which a shell tells as 130 or 143 too,
or with Python's own words; a few of a thousand interrupts Python prints and forgets.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from counts import RESULTS, ROOT, add_counts
from jobs import JOBS, prepare

CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
COMMANDS = {
    "--help": ("--help",),
    "fit": ("fit", "people.csv", "--label", "outcome", "--out", "out", "--steps", "6"),
    "predict": ("predict", "fit", "people.csv", "--out", "p.csv"),
    "demo": ("demo", "--out", "demo"),
}
MAKE = "make demo"
SCRIPT = "import sys\nfrom dessl.__main__ import main\nsys.exit(main())\n"
OURS = ("dessl/cli", "dessl/__main__.py", "in _leave")  # of a traceback past our first line
SECONDS = 20  # in which a process must have ended


def lines(folder: Path) -> dict[str, list[list[str]]]:
    """The ways to start each command, in a folder with its inputs."""
    prepare(JOBS["predict"], folder)
    tools = folder / "venv"
    (tools / "bin").mkdir(parents=True)
    script = tools / "bin" / "dessl"
    script.write_text(f"#!{sys.executable}\n{SCRIPT}")
    script.chmod(0o755)
    for mark in (".created", ".installed"):  # later than what make would install it for
        (tools / mark).touch()
    found = {
        name: [[sys.executable, "-m", "dessl", *words], [str(script), *words]]
        for name, words in COMMANDS.items()
    }
    made = ["make", "-C", str(ROOT), "demo", f"VENV={tools}", f"DEMO_OUT={folder / 'demo'}"]
    return {**found, MAKE: [made]}


def interrupted(
    line: list[str], folder: Path, number: signal.Signals, after: float
) -> tuple[int, str]:
    """Start a command and send a signal to it and what it started, as a terminal does."""
    process = subprocess.Popen(
        line,
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    time.sleep(after)
    os.killpg(process.pid, number)
    try:
        said = process.communicate(timeout=SECONDS)[1]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        said = process.communicate()[1]
    return process.returncode, said


def outcome(code: int, said: str, number: signal.Signals, *, make: bool) -> str:
    """How a process ended, as the columns of the page call it."""
    words = [line for line in said.strip().splitlines() if not line.startswith("make: ")]
    right = code in (CODES[number], *((2, -number) if make else ()))  # make has codes of its own
    if code == 0 and "KeyboardInterrupt" not in said:
        return "finished before"
    if right and len(words) == 1 and words[0].startswith("Interrupted."):
        return "one line"
    quiet = code == -number or (make and not words)
    if (quiet or "KeyboardInterrupt" in said) and not any(place in said for place in OURS):
        return "Python not ready"
    return "failed"


def main() -> None:
    """Read the arguments, interrupt, add to the counts, print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--signals", type=int, default=40, help="for each command")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--dry", action="store_true", help="do not add to the counts")
    parser.add_argument("--counts", type=Path, default=RESULTS, help="where counts are added")
    given = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background it is ignored
    chance = random.Random(given.seed)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "job"
        for name, ways in lines(folder).items():
            counts: Counter[str] = Counter()
            for _ in range(given.signals):
                number = chance.choice((signal.SIGINT, signal.SIGTERM))
                after = chance.uniform(0, chance.choice((0.1, 1.0)))
                code, said = interrupted(chance.choice(ways), folder, number, after)
                how = outcome(code, said, number, make=name == MAKE)
                counts.update(["signals", how])
                if how == "failed":
                    print(f"FAILED {name} {number.name} {after:.3f}: {code} {said[-600:]}")
            print(name, dict(counts), flush=True)
            if not given.dry:
                add_counts("starts", {name: counts}, given.counts)


if __name__ == "__main__":
    main()

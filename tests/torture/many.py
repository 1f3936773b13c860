"""Run a part of the bench in many processes at once, each with a seed and a folder of its own.

    python tests/torture/many.py fuzz --jobs 16 --seconds 240 --seed 100 --out there

leaves in the folder ``there``: ``fuzz.json`` with the counts of all, which counts.py adds to those
of the page; ``fuzz.log`` with what they said; and ``fuzz-corpus.tar`` with the inputs that failed.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

from counts import add_file

PARTS = {"fuzz": "fuzz.py", "kills": "kills.py", "harm": "harm.py"}
GRACE = 90  # seconds in which a process must have ended after its time
EVERY = 10  # seconds after which the counts are added up again


def started(
    part: str, number: int, given: argparse.Namespace, root: Path
) -> "subprocess.Popen[str]":
    """Start one process of a part."""
    own = root / str(number)
    own.mkdir()
    line = [sys.executable, str(Path(__file__).with_name(PARTS[part])), *given.more]
    line += ["--seconds", str(given.seconds), "--seed", str(given.seed + number)]
    line += ["--counts", str(own / "counts.json")]
    if part == "fuzz":
        line += ["--corpus", str(root / "corpus")]
    elif part == "kills":
        line += ["--kills", "1000000"]
    log = (own / "log").open("w")
    surroundings = {**os.environ, "TMPDIR": str(own), "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(line, stdout=log, stderr=log, env=surroundings, text=True)


def collected(part: str, given: argparse.Namespace, root: Path) -> None:
    """Write what all processes have counted, said and kept so far."""
    counts = root / "counts.json"
    counts.unlink(missing_ok=True)
    with (given.out / f"{part}.log").open("w") as log:
        for number in range(given.jobs):
            own = root / str(number)
            said = (own / "log").read_text(errors="replace")
            log.write(f"--- seed {given.seed + number}\n{said}")
            if (own / "counts.json").exists():
                add_file(own / "counts.json", counts)
    if counts.exists():
        shutil.copyfile(counts, given.out / f"{part}.json")
    if (root / "corpus").exists():
        with tarfile.open(given.out / f"{part}-corpus.tar", "w") as archive:
            archive.add(root / "corpus", "corpus")


def main() -> None:
    """Read the arguments, run, add up as it goes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--seconds", type=float, default=240)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    given, given.more = parser.parse_known_args()
    given.out.mkdir(parents=True, exist_ok=True)
    root = Path(tempfile.mkdtemp(prefix="many-"))
    processes = [started(given.part, number, given, root) for number in range(given.jobs)]
    end = time.monotonic() + given.seconds + GRACE
    while any(process.poll() is None for process in processes) and time.monotonic() < end:
        time.sleep(EVERY)
        collected(given.part, given, root)
    late = [process for process in processes if process.poll() is None]
    for process in late:
        process.kill()
        process.wait()
    collected(given.part, given, root)
    failed = sum(process.returncode != 0 for process in processes)
    shutil.rmtree(root, ignore_errors=True)
    print(f"{given.jobs} processes, {failed} ended badly: see {given.out}")


if __name__ == "__main__":
    main()

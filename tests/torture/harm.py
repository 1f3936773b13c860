"""Harm of other kinds than kills: full disks, damaged folders, company, and clocks that jump.

    python tests/torture/harm.py --seconds 120 --seed 3      adds to benchmarks/results/torture.json

disk      no file may grow beyond a limit (RLIMIT_FSIZE)
mount     the folder is a small file system that is full (where mounting is allowed)
damage    files that a stopped job left are damaged, swapped, removed, or replaced by links
company   two or three processes do one job in one folder at once
clock     clocks run backwards and jump by years, and files are of the future

A job must end well, or with exit code 2 and one line that says what to do, or, where its files were
damaged, start over; within three times the seconds of the unbroken job and 20 more, and twice its
memory. After the harm is gone, a job that can end must end bit-identical.
"""

import argparse
import contextlib
import json
import os
import random
import resource
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from counts import RESULTS, add_counts
from damage import damaged_bytes
from faults import Fault
from jobs import JOBS, available, prepare
from kills import Bench, BrokenError, Ended, check_whole, differences, run, signal, tree
from ranks import on_ranks

CENTURY = 3.2e9  # seconds
LONG = ("demo", "reproduce", "reproduce on two ranks", "evaluate")
NAMES = [name for name in JOBS if name not in LONG]
# Ranks wait for each other by a clock that never goes backwards, which Python promises.
RANKED = {name for name, job in JOBS.items() if getattr(job.run, "func", None) is on_ranks}


def check_said(ended: Ended, name: str) -> None:
    """Refuse an end that is neither good nor explained."""
    if ended.code == 0:
        return
    if JOBS[name].in_python:  # an exception is how it says so, if it names the problem
        known = ("OSError", "CheckpointError", "ValueError", "RuntimeError", "FileExistsError")
        last = ended.said.strip().splitlines()[-1:]
        if not last or not any(one in last[0] for one in known):
            raise BrokenError(f"ended with {ended.code}: {ended.said[-500:]}")
        return
    if ended.code != 2 or "Traceback" in ended.said or not ended.said.strip():
        raise BrokenError(f"ended with {ended.code}: {ended.said[-500:]}")


class Harm(Bench):
    """Harm of each kind to one job at a time."""

    def fresh(self, name: str) -> Path:
        """A folder with the inputs of a job."""
        folder = self.root / "harmed" / "job"
        shutil.rmtree(folder.parent, ignore_errors=True)
        prepare(JOBS[name], folder)
        return folder

    def run(self, name: str, folder: Path, fault: Fault | None = None, **more: Any) -> Ended:
        """Run a job within the limits of the unbroken one."""
        whole = self.reference(name)[0]
        return run(JOBS[name], folder, self.port, fault, like=whole, **more)

    def ends_alike(self, name: str, folder: Path) -> None:
        """Run a job without harm and compare it with the unbroken one."""
        ended = self.run(name, folder)
        if ended.code:
            raise BrokenError(f"failed after the harm was gone: {ended.said[-500:]}")
        if odd := differences(tree(folder), self.reference(name)[1]):
            raise BrokenError(f"it ended otherwise in {', '.join(odd[:5])}")

    def disk(self, name: str) -> None:
        """No file may grow beyond a limit; then it may."""
        folder = self.fresh(name)
        most = self.chance.choice((0, 100, 1000, 5000, 20_000))

        def limit() -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))

        ended = self.run(name, folder, first=limit)
        check_said(ended, name)
        check_whole(folder)
        self.ends_alike(name, folder)

    def mount(self, name: str) -> None:
        """The folder is a mount that is full; then it is larger."""
        folder = self.root / "mounted" / "job"
        folder.mkdir(parents=True, exist_ok=True)
        size = self.chance.choice((64, 128, 256, 512))
        with mounted(folder.parent, size):
            try:
                prepare(JOBS[name], folder)
            except OSError:
                return  # not even the inputs fit
            ended = self.run(name, folder)
            check_said(ended, name)
            check_whole(folder)
            if ended.code and " space" not in ended.said:
                raise BrokenError(f"it does not speak of space: {ended.said[-300:]}")
            remount = ["mount", "-o", "remount,size=64m", str(folder.parent)]
            subprocess.run(remount, check=True)
            self.ends_alike(name, folder)

    def damage(self, name: str) -> None:
        """A job is stopped, its files are damaged, and it is run again."""
        folder, whole = self.fresh(name), self.reference(name)[0]
        inputs = set(tree(folder))
        at = self.chance.randrange(max(1, whole.operations))
        self.run(name, folder, Fault(at, signal.SIGKILL, "after"))
        made = [name for name in tree(folder) if name not in inputs]
        if not made:
            return
        for _ in range(self.chance.choice((1, 1, 3))):
            self._damaged(folder / self.chance.choice(made), folder / self.chance.choice(made))
        ended = self.run(name, folder)
        check_said(ended, name)
        if ended.code == 0:
            self._check_results(name, folder)

    def _damaged(self, path: Path, other: Path) -> None:
        if not path.is_file():
            return
        kind = self.chance.randrange(6)
        if kind == 0:
            path.unlink()
        elif kind == 1 and other.is_file():
            content = path.read_bytes()
            path.write_bytes(other.read_bytes())
            other.write_bytes(content)
        elif kind == 2:
            path.unlink()
            path.symlink_to("/dev/null" if self.chance.random() < 0.5 else "nowhere")
        elif kind == 3:
            path.unlink()
            path.mkdir()
        else:
            path.write_bytes(damaged_bytes(self.chance, path.read_bytes()))

    def _check_results(self, name: str, folder: Path) -> None:
        """What a job that ended well left must be the results of the unbroken one."""
        odd = differences(tree(folder), self.reference(name)[1])
        results = [path for path in odd if "training/" not in path and not path.startswith("run/")]
        # Notes of damage that was met stand in the facts and on the page.
        noted = [path for path in results if Path(path).name not in ("facts.json", "report.html")]
        if noted:
            raise BrokenError(f"it ended well, but otherwise in {', '.join(noted[:5])}")

    def company(self, name: str) -> None:
        """Two or three processes do one job in one folder at once."""
        folder, _ = self.fresh(name), self.reference(name)
        count = self.chance.choice((2, 3))
        reads, writes = os.pipe()
        processes = []
        for number in range(count):
            process = os.fork()
            if process == 0:
                wait = self.chance.random() * 0.2 * number
                time.sleep(wait)
                try:
                    ended = self.run(name, folder)
                    found = [ended.code, ended.said[-500:]]
                except BrokenError as error:
                    found = [1, str(error)]
                os.write(writes, json.dumps(found).encode() + b"\n")
                os._exit(0)
            processes.append(process)
        os.close(writes)
        with os.fdopen(reads) as pipe:
            found = [json.loads(line) for line in pipe]
        for process in processes:
            os.waitpid(process, 0)
        if len(found) != count:
            raise BrokenError("a process of several was lost")
        for code, said in found:
            check_said(Ended(code, 0, said, 0.0), name)
        if all(code for code, _ in found):
            raise BrokenError(f"of {count} processes none ended well: {found}")
        check_whole(folder)
        self.ends_alike(name, folder)

    def clock(self, name: str) -> None:
        """Clocks jump while a job runs, and the files it left are of another time."""
        folder, whole = self.fresh(name), self.reference(name)[0]
        chance = random.Random(self.chance.random())

        def jump() -> None:
            for clock in ("time", "monotonic"):
                setattr(time, clock, lambda: chance.uniform(-CENTURY, CENTURY))

        at = self.chance.randrange(max(1, whole.operations))
        self.run(name, folder, Fault(at, signal.SIGKILL, "before"), first=jump)
        for path in folder.rglob("*"):
            with contextlib.suppress(OSError, OverflowError):
                os.utime(path, (self.chance.uniform(0, CENTURY),) * 2)
        ended = self.run(name, folder, first=jump)
        if ended.code:
            raise BrokenError(f"failed when clocks jump: {ended.said[-500:]}")
        if odd := differences(tree(folder), self.reference(name)[1]):
            raise BrokenError(f"it ended otherwise in {', '.join(odd[:5])}")


@contextlib.contextmanager
def mounted(folder: Path, kilobytes: int) -> Iterator[None]:
    """A small file system in memory at a folder."""
    options = f"size={kilobytes}k"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], check=True)
    try:
        (folder / "job").mkdir(exist_ok=True)
        (folder / "job").rmdir()
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def can_mount(folder: Path) -> bool:
    """Whether this user may mount, here."""
    try:
        with mounted(folder, 64):
            return True
    except (OSError, subprocess.CalledProcessError):
        return False


KINDS = ("disk", "mount", "damage", "company", "clock")


def harmed(seconds: float, seed: int, only: list[str]) -> dict[str, Counter[str]]:
    """Do harm for so long; return the counts of each kind."""
    bench = Harm(seed, list(NAMES))
    kinds = [kind for kind in only or KINDS if kind != "mount" or can_mount(bench.root)]
    counts: dict[str, Counter[str]] = {kind: Counter() for kind in kinds}
    end = time.monotonic() + seconds
    names = [name for name in NAMES if available(JOBS[name])]
    weights = [JOBS[name].share for name in names]
    while time.monotonic() < end:
        kind = bench.chance.choice(kinds)
        name = bench.chance.choices(names, weights)[0]
        if kind == "clock" and name in RANKED:
            continue
        counts[kind]["cases"] += 1
        try:
            getattr(bench, kind)(name)
        except BrokenError as error:
            counts[kind]["failed"] += 1
            print(f"FAILED {kind} {name}: {error}", flush=True)
    bench.close()
    return counts


def main() -> None:
    """Read the arguments, do harm, add to the counts, print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", default=[], choices=KINDS)
    parser.add_argument("--dry", action="store_true", help="do not add to the counts")
    parser.add_argument("--counts", type=Path, default=RESULTS, help="where counts are added")
    given = parser.parse_args()
    counts = harmed(given.seconds, given.seed, given.only)
    for kind, its in counts.items():
        print(kind, dict(its))
    if not given.dry:
        add_counts("harm", counts, given.counts)


if __name__ == "__main__":
    main()

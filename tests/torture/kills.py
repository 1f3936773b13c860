"""Kill every command that writes, at file operations and at random times, and resume.

    python tests/torture/kills.py --kills 100 --seed 3      adds to benchmarks/results/torture.json

Each process is a fork of this one, which has imported everything and computed nothing. A job is
stopped one to six times by SIGKILL, SIGINT or SIGTERM. After each stop every visible file must be
whole; SIGINT and SIGTERM must end the process with 130 and 143 and without a traceback. At the end
the folder must be the same, bit for bit, as that of a job that nothing stopped.
"""

import argparse
import contextlib
import fcntl
import io
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
import torch._dynamo
from counts import add_counts
from faults import Fault, Operations
from jobs import JOBS, Job, prepare, serve, settle
from safetensors.torch import load, load_file

from dessl.training.checkpoint import load_checkpoint

SECONDS = 20  # in which an interrupted process must have ended
LONGEST = 240  # in which a job must have ended on a busy machine
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGINT, signal.SIGTERM)


class BrokenError(Exception):
    """A promise was not kept."""


class Ended(NamedTuple):
    """How a process ended: its exit code, or minus the signal; operations done; what it said."""

    code: int
    operations: int
    said: str
    seconds: float


def run(
    job: Job,
    folder: Path,
    port: int,
    fault: Fault | None = None,
    stop: "Stop | None" = None,
    first: Callable[[], object] = lambda: None,
) -> Ended:
    """Run a job in a fork, with a fault at an operation or a signal from outside.

    ``first`` is called in the fork before the job.
    """
    reads, writes = os.pipe()
    said, log = os.pipe()  # not a file: disks are filled here
    fcntl.fcntl(log, fcntl.F_SETPIPE_SZ, 2**20)
    process = os.fork()
    if process == 0:
        os.close(reads)
        os.close(said)
        _child(job, folder, port, fault, log, writes, first)
    os.close(writes)
    os.close(log)
    with os.fdopen(reads) as pipe, os.fdopen(said, errors="replace") as words:
        pipe.readline()  # the job begins
        began = time.monotonic()
        if stop:
            time.sleep(stop.after)
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, stop.number)
        interrupted = stop is not None or fault is not None
        code = _waited(process, SECONDS * 3 if interrupted else LONGEST)
        operations = pipe.readline().strip()
        text = words.read()
    return Ended(code, int(operations or 0), text, time.monotonic() - began)


class Stop(NamedTuple):
    """A signal from outside, so many seconds after the job began."""

    after: float
    number: signal.Signals


def _child(
    job: Job,
    folder: Path,
    port: int,
    fault: Fault | None,
    log: int,
    pipe: int,
    first: Callable[[], object],
) -> None:
    code = 1
    try:
        os.chdir(folder)
        torch.set_num_threads(1)
        os.dup2(log, 1)
        os.dup2(log, 2)
        sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
        settle(port)
        operations = Operations(folder, fault)
        operations.arm()
        first()
        os.write(pipe, b"begins\n")
        try:
            job.run()
            code = 0
        except SystemExit as left:
            code = int(left.code or 0)
        os.write(pipe, f"{operations.count}\n".encode())
    except BaseException:  # noqa: BLE001 (the log must have it)
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _waited(process: int, seconds: float) -> int:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found, status = os.waitpid(process, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    raise BrokenError(f"a process did not end within {seconds:.0f} s")


def check_stopped(ended: Ended, number: signal.Signals, job: Job) -> None:
    """Refuse a process that did not end as its signal says, unless it was done before."""
    if ended.code == 0:
        return
    wanted = -number if number == signal.SIGKILL or not job.command else CODES[number]
    if not job.command and number != signal.SIGKILL:
        return
    if ended.code != wanted:
        raise BrokenError(
            f"exit code {ended.code} after {number.name}, not {wanted}: {ended.said[-600:]}"
        )
    if "Traceback" in ended.said:
        raise BrokenError(f"a traceback after {number.name}: {ended.said[-600:]}")


def check_whole(folder: Path) -> None:
    """Refuse a visible file that is not whole."""
    for path in sorted(folder.rglob("*")):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if hidden or not path.is_file() or path.suffix == ".part":
            continue
        try:
            _check_file(path)
        except Exception as error:
            raise BrokenError(f"{path.relative_to(folder)} is not whole: {error}") from error


def _check_file(path: Path) -> None:
    if path.name == "manifest.json":
        load_checkpoint(path.parent)
    elif path.suffix == ".json":
        json.loads(path.read_bytes())
    elif path.suffix == ".jsonl":  # lines are added to it: the last may be cut
        for line in path.read_text(encoding="utf-8").splitlines()[:-1]:
            json.loads(line)
    elif path.suffix == ".safetensors":
        load_file(path)
    elif path.suffix in (".html", ".svg"):
        if not path.read_text(encoding="utf-8").rstrip().endswith((">",)):
            raise ValueError("it does not end with a tag")
    elif path.suffix in (".csv", ".md", ".tex") and not path.read_text(encoding="utf-8").endswith(
        "\n"
    ):
        raise ValueError("its last line is cut")


def tree(folder: Path) -> dict[str, bytes]:
    """Every file of a folder but locks, which hold the number of a process."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "lock"
    }


def differences(found: dict[str, bytes], wanted: dict[str, bytes]) -> list[str]:
    """Files that only one of two folders has, or that differ; hidden ones of the first not.

    All that a user reads must be the same bits. Of the files by which a training is resumed, the
    state is compared by its values, since torch.save may write equal values in two ways, and the
    answers to held-out rows may be fewer: what a kill lost is computed again.
    """
    names = {name for name in found if not any(p.startswith(".") for p in Path(name).parts)}
    return sorted(
        name
        for name in names | wanted.keys()
        if not _alike(name, found.get(name), wanted.get(name))
    )


def _alike(name: str, found: bytes | None, wanted: bytes | None) -> bool:
    if found == wanted or found is None or wanted is None:
        return found == wanted
    if name.endswith("state.pt"):
        one, other = (torch.load(io.BytesIO(its), weights_only=True) for its in (found, wanted))
        return _equal(one, other)
    if name.endswith("manifest.json"):  # of the state, which is compared itself
        one, other = (json.loads(its)["sha256"] for its in (found, wanted))
        return {**one, "state.pt": ""} == {**other, "state.pt": ""}
    if name.endswith("held_out.safetensors"):
        one, other = load(found), load(wanted)
        return all(torch.equal(part, other[step]) for step, part in one.items())
    return False


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return isinstance(other, torch.Tensor) and torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_equal(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_equal, one, other))
    return bool(one == other)


def litter(found: dict[str, bytes]) -> list[str]:
    """Hidden files that killed processes left and no later one removed."""
    return [name for name in found if any(p.startswith(".") for p in Path(name).parts)]


class Bench:
    """The jobs, each run once unbroken, and the counts."""

    def __init__(self, seed: int, only: list[str]) -> None:
        self.chance = random.Random(seed)
        self.names = only or list(JOBS)
        self.root = Path(tempfile.mkdtemp(prefix="kills-"))
        self.publisher, self.port = serve()
        self.counts: dict[str, Counter[str]] = {name: Counter() for name in self.names}
        self.unbroken: dict[str, tuple[Ended, dict[str, bytes]]] = {}

    def reference(self, name: str) -> tuple[Ended, dict[str, bytes]]:
        """How a job ends that nothing stops; it is run once."""
        if name not in self.unbroken:
            folder = self.root / f"unbroken-{len(self.unbroken)}" / "job"
            prepare(JOBS[name], folder)
            ended = run(JOBS[name], folder, self.port)
            if ended.code:
                raise BrokenError(f"{name} failed unbroken: {ended.said[-600:]}")
            self.unbroken[name] = ended, tree(folder)
        return self.unbroken[name]

    def round(self, name: str) -> None:
        """Stop a job some times, let it end, and compare."""
        job, counts = JOBS[name], self.counts[name]
        whole, wanted = self.reference(name)
        folder = self.root / "broken" / "job"
        shutil.rmtree(folder.parent, ignore_errors=True)
        prepare(job, folder)
        story = []
        try:
            for _ in range(self.chance.randint(1, 6)):
                story.append(self._stopped(name, folder, whole))
                check_whole(folder)
            ended = run(job, folder, self.port)
            if ended.code:
                raise BrokenError(f"it failed when resumed: {ended.said[-600:]}")
            found = tree(folder)
            if odd := differences(found, wanted):
                raise BrokenError(f"it ended otherwise in {', '.join(odd[:5])}")
            counts["finished bit-identical"] += 1
            counts["litter left"] += len(litter(found))
            if left := litter(found):
                print(f"LITTER {name}: {left[:3]}", flush=True)
        except BrokenError as error:
            counts["failed"] += 1
            print(f"FAILED {name} {story}: {error}", flush=True)

    def _stopped(self, name: str, folder: Path, whole: Ended) -> str:
        number = self.chance.choice(SIGNALS)
        job, counts = JOBS[name], self.counts[name]
        if not job.command:
            number = signal.SIGKILL
        if whole.operations and self.chance.random() < 0.6:
            when = self.chance.choice(("before", "after", "torn"))
            fault = Fault(self.chance.randrange(whole.operations), number, when)
            ended = run(job, folder, self.port, fault, None)
            how, said = "at a file operation", str(fault)
        else:
            stop = Stop(self.chance.uniform(0, whole.seconds), number)
            ended = run(job, folder, self.port, None, stop)
            how, said = "at a random time", str(stop)
        check_stopped(ended, number, job)
        if ended.code:
            counts["kills"] += 1
            counts[number.name] += 1
            counts[how] += 1
        return said

    def close(self) -> None:
        """End the publisher and remove the folders."""
        os.kill(self.publisher, signal.SIGKILL)
        os.waitpid(self.publisher, 0)
        shutil.rmtree(self.root, ignore_errors=True)


def main() -> None:
    """Read the arguments, kill, add to the counts, print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=280)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", default=[], choices=JOBS)
    parser.add_argument("--dry", action="store_true", help="do not add to the counts")
    given = parser.parse_args()
    bench = Bench(given.seed, given.only)
    end = time.monotonic() + given.seconds
    while (
        sum(one["kills"] for one in bench.counts.values()) < given.kills and time.monotonic() < end
    ):
        weights = [JOBS[name].share for name in bench.names]
        bench.round(bench.chance.choices(bench.names, weights)[0])
    bench.close()
    for name, counts in bench.counts.items():
        print(name, dict(counts))
    if not given.dry:
        add_counts("kills", bench.counts)


if __name__ == "__main__":
    main()

"""Kill every command that writes, at file operations and at random times, and resume.

    python tests/torture/kills.py --kills 100 --seed 3      adds to benchmarks/results/torture.json

Each process is a fork of this one, which has imported everything and computed nothing. A job is
stopped one to six times by SIGKILL, SIGINT or SIGTERM. After each stop every visible file must be
whole; SIGINT and SIGTERM must end the process with 130 and 143 and without a traceback. At the end
the folder must be the same, bit for bit, as that of a job that nothing stopped. No process may go
on for more than 20 s after a signal, take more than three times as long and 20 s more than the
unbroken job, or more than twice its memory.
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
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")  # forks and a GPU do not go together

import torch
import torch._dynamo
from counts import RESULTS, add_counts
from faults import Fault, Operations
from jobs import JOBS, Job, available, prepare, serve, settle
from limits import BASE, resident
from safetensors.torch import load, load_file

from dessl.cli.stopping import stop_at_once
from dessl.training.checkpoint import load_checkpoint

SECONDS = 20  # in which a process must have ended after a signal
SLOWER = 3  # times as long as the unbroken job, on a busy machine
LONGEST = 240  # seconds of an unbroken job
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGINT, signal.SIGTERM)


class BrokenError(Exception):
    """A promise was not kept."""


class Ended(NamedTuple):
    """How a process ended.

    Attributes:
        code: Its exit code, or minus the signal.
        operations: File operations that it did.
        said: What it wrote to the terminal.
        seconds: How long it took.
        lag: Seconds between a signal from outside and its end.
        grown: Bytes of memory that it took beside those it began with, at most.
    """

    code: int
    operations: int
    said: str
    seconds: float
    lag: float = 0.0
    grown: int = 0


def run(
    job: Job,
    folder: Path,
    port: int,
    fault: Fault | None = None,
    stop: "Stop | None" = None,
    first: Callable[[], object] = lambda: None,
    like: Ended | None = None,
) -> Ended:
    """Run a job in a fork, with a fault at an operation or a signal from outside.

    ``first`` is called in the fork before the job. ``like`` is the unbroken job, which limits time
    and memory.
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
        before = int(pipe.readline() or 0)  # the job begins
        began = struck = time.monotonic()
        if stop:
            time.sleep(stop.after)
            struck = time.monotonic()
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, stop.number)
        most = LONGEST if like is None else SLOWER * like.seconds + SECONDS
        code, peak = _waited(process, SECONDS if stop else most)
        ended = time.monotonic()
        operations = pipe.readline().strip()
        text = words.read()
    grown = max(0, peak - before)
    if like is not None and grown > 2 * (BASE + like.grown):
        raise BrokenError(f"{grown:,} bytes, where the unbroken job took {like.grown:,}")
    lag = ended - struck if stop else 0.0
    return Ended(code, int(operations or 0), text, ended - began, lag, grown)


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
        if job.command:  # as the program does before its first import
            stop_at_once()
        os.write(pipe, f"{resident()}\n".encode())
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


def _waited(process: int, seconds: float) -> tuple[int, int]:
    """The exit code of a process and the most memory that it had."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found, status, used = os.wait4(process, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status), 1024 * used.ru_maxrss
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
    if "Traceback" in ended.said and not job.in_python:
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
    state is compared by its values, since torch.save may write equal values in two ways, and
    shards likewise; the answers to held-out rows may be fewer: what a kill lost is computed again.
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
    try:
        return _equal_values(name, found, wanted)
    except Exception:  # noqa: BLE001 (whatever a damaged file raises)
        return False


def _equal_values(name: str, found: bytes, wanted: bytes) -> bool:
    if name.endswith("state.pt"):
        one, other = (torch.load(io.BytesIO(its), weights_only=True) for its in (found, wanted))
        return _equal(one, other)
    if name.endswith("manifest.json"):  # of the state and of shards, which are compared themselves
        one, other = (json.loads(its)["sha256"] for its in (found, wanted))
        own = [file for file in one if file == "state.pt" or file.startswith("shard-")]
        return one.keys() == other.keys() and all(one[k] == other[k] for k in one if k not in own)
    if Path(name).name.startswith("shard-"):  # PyTorch orders the tensors in it in any way
        return _equal(load(found), load(wanted))
    if name.endswith("held_out.safetensors"):
        one, other = load(found), load(wanted)
        return all(torch.equal(part, other[step]) for step, part in one.items())
    return False


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return isinstance(other, torch.Tensor) and _same_bits(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_equal(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_equal, one, other))
    return bool(one == other) or (one != one and other != other)  # NaN


def _same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    same = one.shape == other.shape and one.dtype == other.dtype
    first, second = (part.contiguous().reshape(-1).view(torch.uint8) for part in (one, other))
    return same and torch.equal(first, second)  # NaN is NaN


def litter(found: dict[str, bytes]) -> list[str]:
    """Hidden files that killed processes left and no later one removed."""
    return [name for name in found if any(p.startswith(".") for p in Path(name).parts)]


class Bench:
    """The jobs, each run once unbroken, and the counts."""

    def __init__(self, seed: int, only: list[str]) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background it is ignored
        self.chance = random.Random(seed)
        self.names = [name for name in only or JOBS if available(JOBS[name])]
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
        try:
            whole, wanted = self.reference(name)
        except BrokenError as error:  # not here, at least; the other jobs go on
            counts["failed"] += 1
            self.names.remove(name)
            print(f"FAILED {name}: {error}", flush=True)
            return
        folder = self.root / "broken" / "job"
        shutil.rmtree(folder.parent, ignore_errors=True)
        prepare(job, folder)
        story = []
        try:
            for _ in range(self.chance.randint(1, 6)):
                story.append(self._stopped(name, folder, whole))
                check_whole(folder)
            ended = run(job, folder, self.port, like=whole)
            self._note(name, ended, whole)
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
            ended = run(job, folder, self.port, fault, None, like=whole)
            how, said = "at a file operation", str(fault)
        else:
            stop = Stop(self.chance.uniform(0, whole.seconds), number)
            ended = run(job, folder, self.port, None, stop, like=whole)
            how, said = "at a random time", str(stop)
        check_stopped(ended, number, job)
        self._note(name, ended, whole)
        if ended.code:
            counts["kills"] += 1
            counts[number.name] += 1
            counts[how] += 1
        return said

    def _note(self, name: str, ended: Ended, whole: Ended) -> None:
        """Keep the longest time after a signal, and the most memory beside the unbroken job's."""
        share = (BASE + ended.grown) / (BASE + whole.grown)
        for key, value in (
            ("most ms after a signal", round(1000 * ended.lag)),
            ("most % of memory", round(100 * share)),
        ):
            self.counts[name][key] = max(self.counts[name][key], value)

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
    parser.add_argument("--counts", type=Path, default=RESULTS, help="where counts are added")
    given = parser.parse_args()
    bench = Bench(given.seed, given.only)
    end, sums = time.monotonic() + given.seconds, dict.fromkeys(bench.names, 0)
    while bench.names and sum(sums.values()) < given.kills and time.monotonic() < end:
        weights = [JOBS[name].share for name in bench.names]
        name = bench.chance.choices(bench.names, weights)[0]
        bench.counts[name] = Counter()
        bench.round(name)
        sums[name] += bench.counts[name]["kills"]
        if not given.dry:  # saved as it goes
            add_counts("kills", {name: bench.counts[name]}, given.counts)
    bench.close()
    print(sums)


if __name__ == "__main__":
    main()

"""Ranks: several processes of one job, on one host or many, as ``torchrun`` starts them.

Work is divided in two ways. One model is trained by all ranks together
(:mod:`dessl.training.shared_model`); several small trainings are spread, each on one rank
(:func:`spread`). Cheap work is done by rank 0, and the others get the result (:func:`from_first`).
Values are sent through PyTorch's own object collectives, within one job.
"""

import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from contextvars import ContextVar
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple, TypeVar

import torch

# Imported while a group exists, as torch.compile does, it keeps that group for ever as the default
# of its arguments. A thread of the group then works on while Python ends, which aborted about one
# process in a hundred ("terminate called without an active exception").
import torch.distributed.nn.functional
from torch import distributed
from torch.distributed.rendezvous import rendezvous

from dessl.training.meeting import fresh_store

T = TypeVar("T")

# Longest wait for another rank: rank 0 may train teachers while the others wait. A process that
# dies closes its connections, which is noticed at once.
PATIENCE = timedelta(hours=12)
JOIN_TIMEOUT = timedelta(minutes=15)  # longest wait for all ranks to start
NEEDED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
SHARED_GPUS = "DESSL_SHARED_GPUS"  # set: ranks that train separate runs may share a GPU
_stores: list[Any] = []  # used by ranks without a group
_apart: ContextVar[bool] = ContextVar("this rank works by itself", default=False)


class LostRankError(RuntimeError):
    """Another process of a distributed run has died."""


class FailedRankError(RuntimeError):
    """The error of another rank, with its message."""


def rank() -> int:
    """Return the number of this process in its group; 0 without a group.

    >>> rank(), ranks()
    (0, 1)
    """
    return distributed.get_rank() if _is_group() else 0


def ranks() -> int:
    """Return the number of processes in the group."""
    return distributed.get_world_size() if _is_group() else 1


def processes() -> int:
    """Return the number of processes in the group, also while each works by itself."""
    return distributed.get_world_size() if _has_group() else 1


def _has_group() -> bool:
    return distributed.is_available() and distributed.is_initialized()


def _is_group() -> bool:
    return _has_group() and not _apart.get()


@contextmanager
def apart() -> Iterator[None]:
    """Let this rank work by itself in the block, as one process does: rank 0 of 1."""
    token = _apart.set(True)
    try:
        yield
    finally:
        _apart.reset(token)


def is_launched() -> bool:
    """Whether ``torchrun``, or another launcher, started this process as one of several.

    Raises:
        ValueError: WORLD_SIZE is set, but the variables to find the others are not.
    """
    text = os.environ.get("WORLD_SIZE", "1")
    if not text.isdecimal():
        raise ValueError(f"WORLD_SIZE must be a number of processes; got {text!r}. Use torchrun.")
    if int(text) < 2:
        return False
    missing = [name for name in NEEDED if not os.environ.get(name)]
    if missing:
        raise ValueError(
            f"WORLD_SIZE={text} asks for {text} processes, but {', '.join(missing)} is not set. "
            "Start them with torchrun, which sets all of it, or unset WORLD_SIZE."
        )
    for name, below in (("RANK", int(text)), ("LOCAL_RANK", int(text)), ("MASTER_PORT", 2**16)):
        value = os.environ.get(name, "0")
        if not value.isdecimal() or int(value) >= below:
            raise ValueError(
                f"{name} must be a whole number below {below}, with WORLD_SIZE={text}; got "
                f"{value!r}. Start the processes with torchrun, which sets it."
            )
    return True


@contextmanager
def process_group() -> Iterator[torch.device | None]:
    """Join the group that ``torchrun`` started this process in, for the block.

    Yields the device of this rank, its own GPU if there are any (or one that it shares, if
    DESSL_SHARED_GPUS is set); None if ``torchrun`` did not start this process, or a group already
    exists. If another rank is lost or fails, and the error is not
    caught, the script ends with one line instead of a traceback on each of the other ranks.
    """
    if _has_group() or not is_launched():
        yield None
        return
    device = _own_device()
    if device.type == "cuda":
        torch.cuda.set_device(device)
    whole = device.type == "cuda" and not os.environ.get(SHARED_GPUS)  # NCCL needs whole GPUs
    backend = "cpu:gloo,cuda:nccl" if whole else "gloo"
    store, own, size = _interruptible(lambda: next(rendezvous("env://", timeout=JOIN_TIMEOUT)))
    store = fresh_store(store, own, size, JOIN_TIMEOUT)
    distributed.init_process_group(
        backend, store=store, rank=own, world_size=size, timeout=PATIENCE
    )
    _stores.append(store)
    # A rank that ended now would cut off ranks that are still connecting.
    if store.add("joined", 1) == size:
        store.set("all joined", "")
    store.wait(["all joined"], JOIN_TIMEOUT)
    try:
        yield device
    except (LostRankError, FailedRankError):
        sys.excepthook = partial(_in_one_line, sys.excepthook)  # if nobody catches it
        raise
    finally:
        distributed.destroy_process_group()


def _in_one_line(usual: Callable[..., Any], kind: type, error: BaseException, *rest: Any) -> None:
    """Print errors caused by another rank once, and all others as usual."""
    if not issubclass(kind, LostRankError | FailedRankError):
        usual(kind, error, *rest)
    elif is_first_to_print(str(error)):
        print(f"dessl: {error}", file=sys.stderr)


def _interruptible(make: Callable[[], T]) -> T:
    """Run a function in another thread: PyTorch ignores Ctrl-C while it waits for other hosts.

    An interrupt leaves the thread behind, which ends with the process.
    """
    made: Future[T] = Future()

    def work() -> None:
        try:
            made.set_result(make())
        except Exception as error:  # noqa: BLE001 (raised again where it is waited for)
            made.set_exception(error)

    threading.Thread(target=work, name="dessl-meeting", daemon=True).start()
    return made.result()


def _own_device() -> torch.device:
    if not torch.cuda.is_available():
        return torch.device("cpu")
    local, n_gpus = int(os.environ.get("LOCAL_RANK", "0")), torch.cuda.device_count()
    if local >= n_gpus and os.environ.get(SHARED_GPUS):
        local %= n_gpus
    elif local >= n_gpus:
        raise ValueError(
            f"process {local + 1} on this host has no GPU of its own: there are {n_gpus}. Start at "
            f"most {n_gpus} with --nproc-per-node {n_gpus}, or hide the GPUs with "
            "CUDA_VISIBLE_DEVICES='' to train on the CPU."
        )
    return torch.device("cuda", local)


class _Outcome(NamedTuple):
    """A rank's value, or its error."""

    value: Any
    failure: str | None = None


def _outcome(make: Callable[[], object]) -> tuple[_Outcome, Exception | None]:
    try:
        with apart():
            return _Outcome(make()), None
    except Exception as error:  # noqa: BLE001 (the other ranks are told of any)
        notes = "".join(f" {note}" for note in getattr(error, "__notes__", ()))
        return _Outcome(None, (str(error) or type(error).__name__) + notes), error


def from_first(make: Callable[[], T]) -> T:
    """Compute a value on rank 0 and return it on every rank; an error there is raised everywhere.

    >>> from_first(lambda: 3)
    3
    """
    if ranks() == 1:
        return make()
    outcome, error = _outcome(make) if rank() == 0 else (None, None)
    sent: list[Any] = [outcome]
    with lost_ranks():
        distributed.broadcast_object_list(sent, src=0)
    if error is not None:
        raise error
    found: _Outcome = sent[0]
    if found.failure is not None:
        raise FailedRankError(found.failure)
    value: T = found.value
    return value


@contextmanager
def held_by_first(context: Callable[[], AbstractContextManager[object]]) -> Iterator[None]:
    """Enter a context on rank 0 alone; the others wait until it is entered."""
    with ExitStack() as stack:

        def enter() -> None:
            stack.enter_context(context())

        from_first(enter)
        yield


def from_each(value: T) -> list[T]:
    """Return every rank's value, in the order of ranks."""
    if ranks() == 1:
        return [value]
    found: list[Any] = [None] * ranks()
    with lost_ranks():
        distributed.all_gather_object(found, value)
    return found


def spread(jobs: Sequence[Callable[[], T]]) -> list[T]:
    """Do each job on one rank, by itself, and return all values on every rank.

    Rank r of N does the jobs r, r + N, ... A failure ends its rank's jobs; when the other ranks
    are done with theirs, the first failure, in the order of jobs, is raised on all of them.
    Warnings are given on every rank.

    Args:
        jobs: The same on every rank. Values are sent: tensors on the CPU, numbers, text, and
            dataclasses of them.

    >>> spread([lambda: 3, lambda: 4])
    [3, 4]
    """
    if ranks() == 1:
        return [job() for job in jobs]
    own: dict[int, _Outcome] = {}
    errors: dict[int, Exception] = {}
    with warnings.catch_warnings(record=True) as noted:
        warnings.simplefilter("always")
        for number in range(rank(), len(jobs), ranks()):
            own[number], error = _outcome(jobs[number])
            if error is not None:
                errors[number] = error
                break
    messages = [str(one.message) for one in noted if issubclass(one.category, UserWarning)]
    everything: dict[int, _Outcome] = {}
    for outcomes, lines in from_each((own, messages)):
        everything |= outcomes
        for line in lines:
            warnings.warn(line, UserWarning, stacklevel=2)
    failed = [number for number, outcome in sorted(everything.items()) if outcome.failure]
    if failed:
        raise errors.get(failed[0]) or FailedRankError(everything[failed[0]].failure)
    return [everything[number].value for number in range(len(jobs))]


def check_same_on_ranks(facts: Mapping[str, object], what: str) -> None:
    """Refuse ranks with different inputs.

    Args:
        facts: Numbers or texts by name, such as the sha256 of the data.
        what: Name of the inputs in the error message.

    Raises:
        ValueError: On every rank, if any rank differs from rank 0.
    """
    found = from_each(dict(facts))
    for number, other in enumerate(found):
        names = [name for name in found[0] if other.get(name) != found[0][name]]
        if names:
            differences = "; ".join(
                f"{name}: {found[0][name]!r:.80} on rank 0, {other.get(name)!r:.80} on rank "
                f"{number}"
                for name in names[:3]
            )
            raise ValueError(
                f"{what} must be the same on every rank ({differences}). Read the same files "
                "with the same seeds on all of them."
            )


def is_first_to_print(line: str) -> bool:
    """Whether no other rank has printed this line; call it once, on the ranks that would print it.

    It works after :func:`process_group` has ended, and needs no other rank alive, only the store
    of ``torchrun``.
    """
    first = True
    for store in _stores[-1:]:
        # If the store is gone with its host, printing twice is better than never.
        with suppress(RuntimeError):
            first = store.add(f"dessl said {line}", 1) == 1
    return first


def wait_for_first(seconds: float) -> None:
    """On ranks other than 0, wait until rank 0 arrives, or until a timeout."""
    for store in _stores[-1:]:
        with suppress(RuntimeError):
            if distributed.is_initialized() and distributed.get_rank() == 0:
                store.set("dessl rank 0", "here")
            else:
                store.wait(["dessl rank 0"], timedelta(seconds=seconds))


@contextmanager
def lost_ranks() -> Iterator[None]:
    """Report in one line that another process has died if communication fails."""
    try:
        yield
    except RuntimeError as error:
        words = str(error).lower()
        signs = (
            "connection closed",
            "connection reset",
            "timed out",
            "broken pipe",
            "peer",
            "nccl",
        )
        if ranks() == 1 or not any(sign in words for sign in signs):
            raise
        raise LostRankError(
            f"a rank of {ranks()} has died, and the others cannot continue. Start the same command "
            "again: it resumes from the last checkpoint, on any number of ranks."
        ) from error

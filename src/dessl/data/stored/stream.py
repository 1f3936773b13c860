"""StoredStream: an endless stream of stored rows, shuffled within windows, read in the background.

An epoch takes the blocks of the store in a random order and cuts that order into windows; the rows
of a window are read, shuffled and handed out in batches of one size, and a batch at the end of a
window continues with the next. So within an epoch no row occurs twice, and two rows can meet in a
batch if they lie in one block or their blocks in one window. A store smaller than a window is
shuffled whole.

The order follows from the seed and the number of the epoch, and where the stream stands from the
number of rows handed out. That is the whole state, however large the store is.
"""

import itertools
import queue
import threading
import weakref
from collections.abc import Generator, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dessl import _checks
from dessl.data.stored.rows import Numbers, StoredRows

WINDOW = 2**25  # bytes of rows that are shuffled together; two windows are in memory
BATCHES = 8  # least number of batches per window
AHEAD = 4  # batches read ahead
READERS = 4  # threads that read blocks


class Window(NamedTuple):
    """The blocks of one window: the first row of each, and where each begins in the window."""

    firsts: Numbers
    places: Numbers  # one more than there are blocks: the last is the number of rows

    def __len__(self) -> int:
        return int(self.places[-1])

    def parts(self, x: NDArray[Any]) -> list[NDArray[Any]]:
        """Return the part of x, (rows, ...), that each block fills."""
        return [x[low:high] for low, high in itertools.pairwise(self.places.tolist())]

    def numbers(self, drawn: NDArray[Any]) -> Numbers:
        """Return the numbers in the store of rows by their places in the window."""
        block = np.searchsorted(self.places, drawn, side="right") - 1
        found: Numbers = self.firsts[block] - self.places[block]
        found += drawn
        return found


class Epoch:
    """The order of one epoch.

    Args:
        ends: Where the blocks of the store end, (blocks,).
        rows: Approximate number of rows of a window.
        seed: Seed of the stream.
        number: Number of the epoch.

    >>> epoch = Epoch(np.array([2, 4, 6]), rows=4, seed=0, number=0)
    >>> [len(epoch.window(k)) for k in range(epoch.windows)]
    [4, 2]
    """

    def __init__(self, ends: Numbers, rows: int, seed: int, number: int) -> None:
        self._seed, self._number = seed, number
        blocks = np.random.default_rng([seed, number]).permutation(len(ends))
        sizes = np.diff(ends, prepend=0)[blocks]
        self._firsts = ends[blocks] - sizes
        self._places = np.concatenate([[0], np.cumsum(sizes)])
        _, starts = np.unique(self._places[:-1] // rows, return_index=True)
        self._bounds = np.append(starts, len(blocks))  # of windows, in blocks

    @property
    def windows(self) -> int:
        """Number of windows."""
        return len(self._bounds) - 1

    def window(self, k: int) -> Window:
        """Return a window."""
        low, high = self._bounds[k], self._bounds[k + 1]
        places = self._places[low : high + 1]
        return Window(self._firsts[low:high], places - places[0])

    def shuffled(self, k: int) -> NDArray[np.int32]:
        """Return the positions in a window in the order of the draws."""
        generator = np.random.default_rng([self._seed, self._number, k])
        order: NDArray[np.int32] = generator.permutation(
            np.arange(len(self.window(k)), dtype=np.int32)
        )
        return order

    def window_at(self, position: int) -> tuple[int, int]:
        """Return the window in which a position of the epoch lies, and the place there."""
        starts = self._places[self._bounds]
        k = int(np.searchsorted(starts, position, side="right")) - 1
        return k, position - int(starts[k])


class StoredStream:
    """Endless batches of stored rows, on the device where they are needed.

    ``state_dict`` and ``load_state_dict`` are those of a stateful data loader: the state is three
    numbers, and a stream that loads it continues bit for bit, even in the middle of an epoch.

    Args:
        stored: The rows.
        size: Number of rows per batch.
        seed: Seed of the order.
        device: Device of the batches; on CUDA through pinned buffers.
        first_id: The id of the first stored row.
        window: Bytes of rows that are shuffled together; a window has at least eight batches.

    >>> import tempfile
    >>> from dessl.data import open_rows
    >>> folder = tempfile.TemporaryDirectory()
    >>> np.save(f"{folder.name}/a.npy", np.arange(12, dtype=np.float32).reshape(6, 2))
    >>> stream = StoredStream(open_rows(folder.name), 3, seed=0)
    >>> x, ids = stream.draw()
    >>> x.shape, stream.state_dict()
    (torch.Size([3, 2]), {'seed': 0, 'epoch': 0, 'position': 3})
    >>> sorted([*ids.tolist(), *stream.draw()[1].tolist()])
    [0, 1, 2, 3, 4, 5]
    >>> stream.close()
    >>> folder.cleanup()
    """

    def __init__(
        self,
        stored: StoredRows,
        size: int,
        *,
        seed: int,
        device: "torch.device | str" = "cpu",
        first_id: int = 0,
        window: int = WINDOW,
    ) -> None:
        self.stored, self.size = stored, _checks.whole_number("size", size, low=1)
        self.seed, self.device = _checks.whole_number("seed", seed), torch.device(device)
        self.first_id = first_id
        bytes_ = _checks.whole_number("window", window, low=1)
        self.window_rows = max(bytes_ // max(1, stored.row_bytes), BATCHES * size)
        if not len(stored):
            raise ValueError(f"{stored.source} has no rows to draw from.")
        self.epoch = self.position = 0
        self._reader: _Reader | None = None

    def draw(self) -> tuple[Tensor, Tensor]:
        """Return the next rows, (size, ...), and their ids, (size,).

        Raises:
            DataError: A file could not be read.
        """
        if self._reader is None:
            self.stored.prepare()
            self._reader = _Reader(self)
        x, numbers = self._reader.next()
        self.position += self.size
        while self.position >= len(self.stored):
            self.position -= len(self.stored)
            self.epoch += 1
        return x, numbers

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        while True:
            yield self.draw()

    def state_dict(self) -> dict[str, int]:
        """Return the position of the stream; rows read ahead do not count."""
        return {"seed": self.seed, "epoch": self.epoch, "position": self.position}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from where the state was saved."""
        seed = _checks.whole_number("seed", state["seed"])
        epoch = _checks.whole_number("epoch", state["epoch"])
        position = _checks.whole_number("position", state["position"])
        if position >= len(self.stored):
            raise ValueError(
                f"the saved stream was at row {position:,} of an epoch; this store has "
                f"{len(self.stored):,} rows. Resume with the same files."
            )
        self.close()
        self.seed, self.epoch, self.position = seed, epoch, position

    def close(self) -> None:
        """End the threads; the next draw starts them again."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None


class _Reader:
    """The threads of a stream: one that makes batches, and some that read blocks for it."""

    def __init__(self, stream: StoredStream) -> None:
        self._device = stream.device
        self._ready: queue.Queue[Any] = queue.Queue(AHEAD)
        self._stop = threading.Event()
        shape = (stream.size, *stream.stored.shape)
        self._buffers = _Buffers(shape, stream.stored.dtype, pinned=stream.device.type == "cuda")
        start = _Start(stream.seed, stream.epoch, stream.position, stream.window_rows)
        batches = _batches(stream.stored, self._buffers, start, stream.first_id, self._stop)
        self._thread = threading.Thread(
            target=_fill, args=(batches, self._ready, self._stop), name="dessl-rows", daemon=True
        )
        weakref.finalize(self, self._stop.set)  # also when the stream is garbage-collected
        self._thread.start()

    def close(self) -> None:
        """End the threads, which releases their memory."""
        self._stop.set()
        self._thread.join(10)  # do not wait for a read that hangs

    def next(self) -> tuple[Tensor, Tensor]:
        """Return the next batch on the device."""
        found = self._ready.get()
        if isinstance(found, BaseException):
            self._ready.put(found)  # further calls get the same error
            raise found
        if self._device.type != "cuda":
            return found[0].to(self._device), found[1].to(self._device)
        x, ids = (part.to(self._device, non_blocking=True) for part in found)
        self._buffers.release(found)
        return x, ids


class _Start(NamedTuple):
    """Start of a reader, and the approximate number of rows of a window."""

    seed: int
    epoch: int
    position: int
    rows: int


class _Buffers:
    """Memory for rows and ids of batches: fresh each time, or for CUDA a few pinned ones in turn.

    Copies from memory that is not pinned would make PyTorch wait for the device.
    """

    def __init__(self, shape: tuple[int, ...], dtype: "np.dtype[Any]", *, pinned: bool) -> None:
        self._shape, self._dtype, self._pinned = shape, dtype, pinned
        self._free: queue.Queue[tuple[tuple[Tensor, Tensor], Any]] = queue.Queue()
        for _ in range(AHEAD + 2 if pinned else 0):
            x, ids = self._new()
            self._free.put(((x.pin_memory(), ids.pin_memory()), None))

    def _new(self) -> tuple[Tensor, Tensor]:
        x = torch.from_numpy(np.empty(self._shape, self._dtype))
        return x, torch.empty(len(x), dtype=torch.int64)

    def take(self, stop: threading.Event) -> tuple[Tensor, Tensor] | None:
        """Return a buffer whose last copy to the device is done; None if the stream is ending."""
        if not self._pinned:
            return self._new()
        while not stop.is_set():
            try:
                buffer, copied = self._free.get(timeout=0.1)
            except queue.Empty:
                continue
            if copied is not None:
                copied.synchronize()
            return buffer
        return None

    def release(self, buffer: tuple[Tensor, Tensor]) -> None:
        """Let the buffer be filled again once the copy that was just started is done."""
        copied = torch.cuda.Event()  # type: ignore[no-untyped-call]
        copied.record()
        self._free.put((buffer, copied))


def _fill(
    batches: Generator[tuple[Tensor, Tensor], None, None],
    ready: "queue.Queue[Any]",
    stop: threading.Event,
) -> None:
    """Put batches, or the error that ended them, into the queue."""
    try:
        for batch in batches:
            if not _put(ready, batch, stop):
                return
    except BaseException as error:  # noqa: BLE001 (raised again where rows are drawn)
        _put(ready, error, stop)
    finally:
        batches.close()


def _put(ready: "queue.Queue[Any]", item: Any, stop: threading.Event) -> bool:
    while not stop.is_set():
        try:
            ready.put(item, timeout=0.1)
        except queue.Full:
            continue
        return True
    return False


def _batches(
    stored: StoredRows, buffers: _Buffers, start: _Start, first_id: int, stop: threading.Event
) -> Generator[tuple[Tensor, Tensor], None, None]:
    """Yield batches, rows and ids, from a position on until the stream is to end."""
    with ThreadPoolExecutor(READERS, "dessl-blocks") as pool:
        windows = _windows(stored, pool, start)
        x, window, order = next(windows)
        done = 0
        while (buffer := buffers.take(stop)) is not None:
            (out, ids), filled = (part.numpy() for part in buffer), 0
            while filled < len(out):
                if done == len(order):
                    x, window, order = next(windows)
                    done = 0
                some = order[done : done + len(out) - filled]
                part = slice(filled, filled + len(some))
                np.take(x, some, axis=0, out=out[part], mode="clip")
                ids[part] = window.numbers(some) + first_id
                filled, done = filled + len(some), done + len(some)
            yield buffer


def _windows(
    stored: StoredRows, pool: ThreadPoolExecutor, start: _Start
) -> Iterator[tuple[NDArray[Any], Window, NDArray[np.int32]]]:
    """Yield windows without end, with their rows and order; one window is read ahead."""
    memory = [np.empty((0, *stored.shape), stored.dtype)] * 2
    ahead: tuple[NDArray[Any], Window, NDArray[np.int32]] | None = None
    for turn, (window, order) in enumerate(_plan(stored, start)):
        own = turn % 2
        if len(memory[own]) < len(window):
            memory[own] = np.empty((len(window), *stored.shape), stored.dtype)
        x = memory[own][: len(window)]
        reads = [
            pool.submit(stored.read, first, first + len(part), part)
            for first, part in zip(window.firsts.tolist(), window.parts(x), strict=True)
        ]
        if ahead is not None:
            yield ahead
        for read in reads:
            read.result()
        ahead = x, window, order


def _plan(stored: StoredRows, start: _Start) -> Iterator[tuple[Window, NDArray[np.int32]]]:
    """Yield the windows from a position on, with the order of what is left of each."""
    seed, epoch, position, rows = start
    while True:
        order = Epoch(stored.ends, rows, seed, epoch)
        first, skipped = order.window_at(position)
        for k in range(first, order.windows):
            yield order.window(k), order.shuffled(k)[skipped:]
            skipped = 0
        epoch, position = epoch + 1, 0

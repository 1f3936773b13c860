"""Two endless, independent streams of rows, one labelled and one unlabelled, drawn on the device.

A stream is a sequence of random permutations of its pool, one for each epoch, cut into batches of
one size: within an epoch no row occurs twice, and a batch at the end of an epoch takes what remains
of it and continues with the next. The host only counts and never waits for the device: the sizes
alone determine where an epoch ends.

For a CUDA graph, draw the row numbers outside of it and copy them into fixed tensors, a
device-to-device copy; :meth:`Batches.gather` may be captured, since all its shapes are fixed::

    rows = batches.draw()
    for buffer, drawn in zip(buffers, rows):
        buffer.copy_(drawn)
    graph.replay()  # captured: batch = batches.gather(buffers); ...
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from dessl import _checks
from dessl.data.semi import SemiData


class RowNumbers(NamedTuple):
    """Positions in the data's x of one batch's rows."""

    labelled: Tensor  # (labelled_size,)
    unlabelled: Tensor  # (unlabelled_size,)


class Batch(NamedTuple):
    """Labelled rows with their classes, and unlabelled rows."""

    x_labelled: Tensor  # (labelled_size, ...)
    y: Tensor  # (labelled_size,)
    ids_labelled: Tensor  # (labelled_size,)
    x_unlabelled: Tensor  # (unlabelled_size, ...)
    ids_unlabelled: Tensor  # (unlabelled_size,)


class Stream:
    """An endless sequence of permutations of ``pool`` (m,), ``size`` entries at a time."""

    def __init__(self, pool: Tensor, size: int, seed: int) -> None:
        self.pool, self.size = pool, size
        self.generator = torch.Generator(pool.device).manual_seed(seed)
        self.permutation = self._permutation()
        self.position = 0

    def _permutation(self) -> Tensor:
        m, device = len(self.pool), self.pool.device
        return torch.randperm(m, generator=self.generator, device=device)

    def draw(self) -> Tensor:
        """The next ``size`` entries of the pool, shape (size,)."""
        pieces = [self.permutation[self.position : self.position + self.size]]
        self.position += self.size
        while self.position > len(self.pool):  # the epoch ended inside this batch
            self.position -= len(self.pool)
            self.permutation = self._permutation()
            pieces.append(self.permutation[: self.position])
        return self.pool[torch.cat(pieces)]

    def state_dict(self) -> dict[str, Any]:
        """Tensors and whole numbers from which the stream resumes exactly."""
        return {
            "generator": self.generator.get_state(),
            "permutation": self.permutation.clone(),
            "position": self.position,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume from a saved state."""
        permutation = state["permutation"]
        if permutation.shape != self.pool.shape:
            raise ValueError(
                f"the saved stream drew from {len(permutation)} rows; this one draws from "
                f"{len(self.pool)}. Resume with the same data and the same label draw."
            )
        if not torch.equal(permutation.sort().values.cpu(), torch.arange(len(self.pool))):
            raise ValueError("the saved stream does not have each row exactly once. It is damaged.")
        generator = state["generator"]
        if generator.shape != self.generator.get_state().shape:
            raise ValueError(
                "the saved stream was drawn on another kind of device, whose random numbers "
                f"{self.pool.device.type} cannot continue. Resume on the same kind of device."
            )
        self.generator.set_state(generator.cpu())
        self.permutation = permutation.to(self.pool.device, copy=True)
        self.position = _checks.whole_number("position", state["position"], high=len(self.pool))


class Batches(Iterator[Batch]):
    """Endless batches from two independent streams.

    Args:
        data: The data; batches are drawn on its device.
        labelled_size: Labelled rows in a batch; a smaller pool is repeated within the batch.
        unlabelled_size: Unlabelled rows in a batch; 0 for the complete case.
        seed: Each stream has its own generator with a seed derived from this one.
        include_labelled: Whether the unlabelled stream draws from the labelled rows too, without
                their labels. The mean of H over such a batch is then the mean over all data, so the
                plain ``on="unlabelled"`` gives the all-data form of the debiased risk.

    Example:
        >>> data = SemiData(torch.rand(6, 2), [0, 1, -1, -1, -1, -1])
        >>> batches = Batches(data, 2, 3, seed=0)
        >>> batch = next(batches)
        >>> batch.x_unlabelled.shape, sorted(batch.y.tolist())
        (torch.Size([3, 2]), [0, 1])
        >>> both = torch.cat([batch.ids_unlabelled, next(batches).ids_unlabelled])
        >>> len(set(both[:4].tolist()))  # an epoch of the unlabelled stream
        4
    """

    def __init__(
        self,
        data: SemiData,
        labelled_size: int,
        unlabelled_size: int,
        *,
        seed: int,
        include_labelled: bool = False,
    ) -> None:
        self.data = data
        labelled_size = _checks.whole_number("labelled_size", labelled_size, low=1)
        unlabelled_size = _checks.whole_number("unlabelled_size", unlabelled_size)
        if data.n_labelled == 0:
            raise ValueError("data must have labelled rows to draw from; it has none.")
        if unlabelled_size and data.stored is not None:
            raise ValueError(
                "these batches are drawn from rows in memory, but data has its unlabelled rows in "
                f"{data.stored.source}. Train with dessl.train, or draw from a StoredStream."
            )
        pool = data.unlabelled_rows
        if include_labelled:
            pool = torch.cat([data.labelled_rows, pool])
        if unlabelled_size and len(pool) == 0:
            raise ValueError(
                f"unlabelled_size is {unlabelled_size}, but data has no unlabelled rows. Hide "
                "labels with data.with_labels; or, for the complete case, pass "
                "risk='complete_case' to TrainPlan, unlabelled_size=0 to Batches."
            )
        seeds = np.random.SeedSequence(_checks.whole_number("seed", seed)).generate_state(2)
        self.labelled = Stream(data.labelled_rows, labelled_size, int(seeds[0]))
        self.unlabelled = Stream(pool, unlabelled_size, int(seeds[1]))

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Batch:
        return self.gather(self.draw())

    def draw(self) -> RowNumbers:
        """The rows of the next batch; this advances the streams."""
        return RowNumbers(self.labelled.draw(), self.unlabelled.draw())

    def gather(self, rows: RowNumbers) -> Batch:
        """The batch of given rows; a pure function of fixed shapes, suitable for a CUDA graph."""
        x, y, ids = self.data.x, self.data.y, self.data.ids
        return Batch(
            x[rows.labelled],
            y[rows.labelled],
            ids[rows.labelled],
            x[rows.unlabelled],
            ids[rows.unlabelled],
        )

    def state_dict(self) -> dict[str, Any]:
        """Both streams' states, as tensors and whole numbers (``weights_only`` can load them)."""
        return {"labelled": self.labelled.state_dict(), "unlabelled": self.unlabelled.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume, bit for bit, from where the state was saved."""
        self.labelled.load_state_dict(state["labelled"])
        self.unlabelled.load_state_dict(state["unlabelled"])

"""Two streams of rows for Lightning, shared by its processes; imported by ``lightning``."""

from collections.abc import Callable, Iterator
from typing import Any

import lightning
import torch
from lightning.pytorch.utilities import CombinedLoader
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset

from dessl.data import Batches, SemiData
from dessl.data.batches import Stream
from dessl.data.parts import Part
from dessl.risk import COMPLETE_CASE


class SemiDataModule(lightning.LightningDataModule):
    """Two streams of a :class:`dessl.SemiData` as a ``CombinedLoader`` of two loaders.

    A training batch is ``{"labelled": (x, ids, y), "unlabelled": (x, ids)}``; with propensities it
    also has those of the labelled rows and the weights of the unlabelled ones. An epoch is one pass
    through the labelled rows. N processes share the rows of each batch, every N-th row to each:
    together they see the same batches as one process.

    Args:
        data: The data with its labels; its validation part, if any, is used for validation, and its
            test part for ``Trainer.test``.
        labelled_batch: Labelled rows in a batch, over all processes.
        unlabelled_batch: Unlabelled rows in a batch, over all processes.
        seed: Seed of both streams.
    """

    def __init__(
        self,
        data: SemiData,
        *,
        labelled_batch: int = 64,
        unlabelled_batch: int = 448,
        seed: int = 0,
    ) -> None:
        super().__init__()
        if not isinstance(data, SemiData):
            raise TypeError(
                f"data must be a SemiData; got {type(data).__name__}. From arrays: "
                "dessl.SemiData(x, y)."
            )
        if unlabelled_batch and not data.n_unlabelled:
            raise ValueError(
                f"unlabelled_batch is {unlabelled_batch}, but data has no unlabelled rows. Hide "
                "labels with data.with_labels; or, for the complete case, use "
                "SemiDataModule(..., unlabelled_batch=0) and DeSSLModule(..., "
                f"risk={COMPLETE_CASE!r})."
            )
        self.data = data
        self.batches = Batches(data, labelled_batch, unlabelled_batch, seed=seed)
        self.steps = max(1, data.n_labelled // labelled_batch)

    def train_dataloader(self) -> CombinedLoader:
        """Endless batches, divided into epochs."""
        streams = self.batches.labelled, self.batches.unlabelled
        for name, stream in zip(("labelled_batch", "unlabelled_batch"), streams, strict=True):
            self._check_shared(f"{name}={stream.size}", stream.size)
        loaders = {
            "labelled": DataLoader(_Epoch(self, streams[0], self._labelled), batch_size=None),
            "unlabelled": DataLoader(_Epoch(self, streams[1], self._unlabelled), batch_size=None),
        }
        return CombinedLoader(loaders, "min_size")

    def _labelled(self, rows: Tensor) -> tuple[Tensor, ...]:
        data = self.data
        chance = () if data.propensity is None else (data.propensity[rows],)
        return (data.x[rows], data.ids[rows], data.y[rows], *chance)

    def _unlabelled(self, rows: Tensor) -> tuple[Tensor, ...]:
        batch = self.data.x[rows], self.data.ids[rows]
        if self.data.propensity is None:
            return batch
        return (*batch, torch.full((len(rows),), self.represents, device=self.data.device))

    @property
    def represents(self) -> float:
        """Rows of the data per unlabelled row of a batch, relative to a labelled one."""
        data, n_l, n_u = self.data, self.batches.labelled.size, self.batches.unlabelled.size
        return data.n_unlabelled / max(1, n_u) * n_l / data.n_labelled

    def val_dataloader(self) -> "DataLoader[Any] | list[Any]":
        """The validation part, at most 512 rows per batch; empty if the data has none."""
        part = self.data.validation
        return [] if part is None else self._evaluated("validation", part)

    def test_dataloader(self) -> "DataLoader[Any]":
        """The test part, at most 512 rows per batch.

        Raises:
            ValueError: The data has no test part.
        """
        if self.data.test is None:
            raise ValueError(
                "Trainer.test needs test rows, but the data has none. Pass "
                "SemiData(..., test=(x, y)), or a loader of your own that yields (x, y)."
            )
        return self._evaluated("test", self.data.test)

    def _evaluated(self, name: str, part: Part) -> "DataLoader[Any]":
        self._check_shared(f"a {name} part of {len(part.y)} rows", len(part.y))
        return DataLoader(_Evaluated(self, part), batch_size=None)

    def _check_shared(self, what: str, rows: int) -> None:
        if 0 < rows < self.processes:
            raise ValueError(
                f"{what} is too small for {self.processes} processes, each of which needs a row. "
                f"Pass at least {self.processes}, or train on fewer devices."
            )

    @property
    def process(self) -> int:
        """The rank of this process."""
        return 0 if self.trainer is None else self.trainer.global_rank

    @property
    def processes(self) -> int:
        """How many processes share the rows."""
        return 1 if self.trainer is None else self.trainer.world_size

    def state_dict(self) -> dict[str, Any]:
        """The positions of both streams, for a checkpoint; the same in every process."""
        return self.batches.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Resume with the next rows of both streams; only a fit draws rows."""
        if self.trainer is None or self.trainer.state.fn == "fit":
            self.batches.load_state_dict(state_dict)


class _Epoch(IterableDataset[tuple[Tensor, ...]]):
    """This process's rows of each batch of one stream, until an epoch ends.

    Every process draws the row numbers of the whole batch and loads only its own rows. It is an
    iterable data set, so that Lightning does not add its own sampler.
    """

    def __init__(
        self,
        module: SemiDataModule,
        stream: Stream,
        look_up: Callable[[Tensor], tuple[Tensor, ...]],
    ) -> None:
        self.module, self.stream, self.look_up = module, stream, look_up

    def __len__(self) -> int:
        return self.module.steps

    def __iter__(self) -> Iterator[tuple[Tensor, ...]]:
        for _ in range(self.module.steps):
            rows = self.stream.draw()
            yield self.look_up(rows[self.module.process :: self.module.processes])


class _Evaluated(IterableDataset[tuple[Tensor, Tensor]]):
    """This process's rows of a labelled part, in the same number of batches on every process.

    Each row occurs once; Lightning's own sampler would repeat rows to equalise the processes.
    """

    def __init__(self, module: SemiDataModule, part: Part) -> None:
        self.module, self.part = module, part

    def __len__(self) -> int:
        return max(1, -(-len(self.part.y) // 512))

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        for rows in torch.arange(len(self.part.y)).tensor_split(len(self)):
            mine = rows[self.module.process :: self.module.processes]
            yield self.part.x[mine], self.part.y[mine]

"""Small trainings with checkpoints: one run, many runs as one, and one with divided weights.

Checkpoints of the last two are in ``tests/corpus``: they must stay what they are.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal
from unittest import mock

import torch
from torch import distributed, nn

from dessl import SemiData, TrainPlan, train
from dessl.data import draw_labels
from dessl.surrogates import Combine, FixMatch, MeanTeacher
from dessl.training import PopulationRun, train_population
from dessl.training.loop import Trainable
from dessl.training.run import Run
from dessl.training.stacked_runs import Population

Kind = Literal["run", "population", "divided"]
KINDS: dict[Kind, type[Trainable]] = {"run": Run, "population": Population, "divided": Run}


class StoppedError(Exception):
    """The training was stopped in the middle."""


def data() -> SemiData:
    """Rows of two classes."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(60) % 2
    x = torch.randn(60, 3, generator=generator) + 1.5 * y[:, None]
    return SemiData(x[:40], torch.where(torch.arange(40) < 16, y[:40], -1), validation=(x, y))


def network() -> nn.Module:
    """A network with buffers."""
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2))


def plain() -> nn.Module:
    """A network without."""
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


def divided() -> nn.Module:
    """The same, divided among the ranks, where there is a group."""
    model = plain()
    if distributed.is_initialized():
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        fully_shard(model, mesh=init_device_mesh("cpu", (distributed.get_world_size(),)))
    return model


def trained(kind: Kind, out: Path) -> None:
    """Train six steps, or what is left of them, in a folder."""
    common = {"steps": 6, "labelled_batch": 6, "unlabelled_batch": 12, "evaluate_every": 2}
    rows = data()
    if kind == "population":
        draw = draw_labels((rows.x[:, 0] > 0).long(), 16, generator=torch.Generator())
        whole = SemiData(rows.x, (rows.x[:, 0] > 0).long())
        runs = [PopulationRun(0, draw, lam, "debiased") for lam in (0.1, 0.5)]
        plan = TrainPlan(**common)  # type: ignore[arg-type]
        train_population(plain, "entropy", whole, runs, plan, out=out, progress=False)
    elif kind == "divided":
        plan = TrainPlan(**common, optimiser="adamw", lam=0.4)  # type: ignore[arg-type]
        train(divided, "entropy", rows, plan, out=out, progress=False)
    else:
        plan = TrainPlan(**common, lam=0.4, ema=0.9, select="cross_entropy")  # type: ignore[arg-type]
        surrogate = Combine([FixMatch(0.6), MeanTeacher()], weights=[1.0, 0.5])
        train(network, surrogate, rows, plan, out=out, progress=False)


def stopped(kind: Kind) -> dict[str, bytes]:
    """The files of a training that was stopped in the middle, with two checkpoints."""
    own = KINDS[kind]
    observe, seen = own.observe, 0

    def stopping(self: Trainable, began: float) -> object:
        nonlocal seen
        seen += 1
        if seen == 3:
            raise StoppedError
        return observe(self, began)

    with (
        tempfile.TemporaryDirectory() as name,
        _group(kind),
        mock.patch.multiple(own, observe=stopping, save_seconds=0.0),
    ):
        folder = Path(name) / "out"
        try:
            trained(kind, folder)
        except StoppedError:
            return {
                path.relative_to(folder).as_posix(): path.read_bytes()
                for path in sorted(folder.rglob("*"))
                if path.is_file() and path.name != "lock"
            }
    raise AssertionError("the training was not stopped")


@contextmanager
def _group(kind: Kind) -> Iterator[None]:
    """A group of one rank, for weights that are divided."""
    if kind != "divided":
        yield
        return
    with tempfile.TemporaryDirectory() as name:
        distributed.init_process_group(
            "gloo", init_method=f"file://{name}/store", rank=0, world_size=1
        )
        try:
            yield
        finally:
            distributed.destroy_process_group()

"""What tests of several ranks share: a small training, and ranks as processes of one machine."""

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, distributed, nn

from dessl.data import SemiData
from dessl.models import MLP
from dessl.training import TrainPlan
from dessl.training.ranks import rank, ranks


class Ran(NamedTuple):
    """How a process of the command line ended, and what it printed."""

    code: int
    out: str
    err: str


def data(*, weighed: bool = False) -> SemiData:
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(260, 4, generator=generator)
    y = (x[:, 0] > 0).long() + (x[:, 1] > 0.5).long()
    given = torch.where(torch.arange(200) < 60, y[:200], -1)
    propensity = torch.rand(200, generator=generator) / 2 + 0.25 if weighed else None
    return SemiData(x[:200], given, validation=(x[200:], y[200:]), propensity=propensity)


def network() -> nn.Module:
    return MLP(4, 3, hidden=(16,), dropout=0.0)


def plan(steps: int, **more: Any) -> TrainPlan:
    """Batches of 13 and 31 rows, which neither two nor three ranks share evenly."""
    usual = {"labelled_batch": 13, "unlabelled_batch": 31, "learning_rate": 0.1, "lam": 0.5}
    return TrainPlan(steps=steps, **{**usual, **more})


def weights(model: nn.Module) -> Tensor:
    return torch.cat([value.detach().flatten() for value in model.parameters()])


DEATH: dict[str, int | None] = {}  # not captured: the term is the same one when a run is resumed


def dying(dies_at: int | None) -> Callable[[nn.Module, Tensor], Tensor]:
    """A term at whose call of that number, counted in training, the last rank kills itself."""
    DEATH["at"], calls = dies_at, 0

    def term(model: nn.Module, x: Tensor) -> Tensor:
        nonlocal calls
        calls += torch.is_grad_enabled()
        if calls == DEATH["at"] and rank() == ranks() - 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return model(x).square().mean(1)

    return term


def run_ranks(n: int, work: Callable[..., object], folder: Path, *given: object) -> list[int]:
    """Run work(folder, ...) on n ranks; return their exit codes."""
    store = folder / f"store-{n}"
    store.unlink(missing_ok=True)
    return forked(n, _rank, n, store, work, folder, *given)


def forked(n: int, work: Callable[..., object], *given: object) -> list[int]:
    """Run work(number, ...) in n processes; return their exit codes."""
    context = multiprocessing.get_context("forkserver")  # autograd's threads survive no plain fork
    context.set_forkserver_preload(["pytest", "torch._dynamo", "dessl.training"])
    asked = (dict(os.environ), work)  # the server has the environment of the first test to use it
    processes = [
        context.Process(target=_in_environment, args=(*asked, number, *given))
        for number in range(n)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)
        if process.exitcode is None:
            process.kill()
            process.join()
    return [process.exitcode or 0 for process in processes]


def _in_environment(variables: dict[str, str], work: Callable[..., object], *given: object) -> None:
    os.environ.update(variables)
    work(*given)


def _rank(number: int, n: int, store: Path, work: Callable[..., object], *given: Any) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{store}", rank=number, world_size=n)
    work(*given)
    distributed.destroy_process_group()


def run_launched(n: int, arguments: Sequence[object], folder: Path) -> list[Ran]:
    """Run ``dessl`` on n processes with the environment that torchrun gives them.

    Each runs in its own folder ``rank-0``, ... of ``folder`` where there is one.
    """
    store = distributed.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    words = [str(argument) for argument in arguments]
    codes = forked(n, _command, n, store.port, folder, words)
    said = [
        [(folder / f"{name}-{number}").read_text() for name in ("out", "err")]
        for number in range(n)
    ]
    return [Ran(code, *texts) for code, texts in zip(codes, said, strict=True)]


def _command(number: int, n: int, port: int, folder: Path, words: list[str]) -> None:
    from dessl.cli.main import main

    torch.set_num_threads(1)
    os.environ |= {"RANK": str(number), "LOCAL_RANK": str(number), "WORLD_SIZE": str(n)}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "COLUMNS": "200"}
    os.environ["TORCHELASTIC_USE_AGENT_STORE"] = "True"
    if (own := folder / f"rank-{number}").is_dir():
        os.chdir(own)
    with (folder / f"out-{number}").open("w") as out, (folder / f"err-{number}").open("w") as err:
        sys.stdout, sys.stderr = out, err  # as pytest has put its own in their place
        main(words)

import multiprocessing
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import distributed

from dessl.cli.main import main


class Ran(NamedTuple):
    """What a command left behind on the terminal."""

    code: int
    out: str
    err: str


@pytest.fixture(scope="session")
def no_public_sets(
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[], AbstractContextManager[None]]:
    """While it is entered, public sets are nowhere on disk, whatever this machine has."""

    @contextmanager
    def entered() -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("DESSL_DATA", str(tmp_path_factory.mktemp("no_data")))
            patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("no_cache")))
            yield

    return entered


@pytest.fixture
def no_waiting() -> Callable[[], AbstractContextManager[None]]:
    """While it is entered, an operation that waits for the CUDA device is an error."""

    @contextmanager
    def entered() -> Iterator[None]:
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Synchronization debug mode is a prototype")
                torch.cuda.set_sync_debug_mode("error")
            yield
        finally:
            torch.cuda.set_sync_debug_mode("default")

    return entered


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ran]:
    """Run ``dessl`` in this process; the width is fixed so that lines are whole."""
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments: object) -> Ran:
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            main([str(argument) for argument in arguments])
        said = capsys.readouterr()
        return Ran(int(left.value.code or 0), said.out, said.err)

    return run


@pytest.fixture
def run_ranks() -> Callable[..., list[int]]:
    """Run work(folder) on n forked ranks that communicate by gloo; return their exit codes."""
    if not distributed.is_gloo_available():
        pytest.skip("this PyTorch has no gloo")
    if torch.cuda.is_available():
        pytest.skip("autograd's threads, one for each GPU, survive no plain fork")

    def run(n: int, work: Callable[[Path], object], folder: Path) -> list[int]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside threads
            context = multiprocessing.get_context("fork")
            given = (n, folder / f"store-{n}", work, folder)
            processes = [context.Process(target=_rank, args=(i, *given)) for i in range(n)]
            for process in processes:
                process.start()
        for process in processes:
            process.join(120)
            if process.exitcode is None:
                process.kill()
                process.join()
        return [process.exitcode or 0 for process in processes]

    return run


def _rank(number: int, n: int, store: Path, work: Callable[[Path], object], *given: Any) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{store}", rank=number, world_size=n)
    work(*given)
    distributed.destroy_process_group()

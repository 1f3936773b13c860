import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import NamedTuple

import pytest
import torch

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

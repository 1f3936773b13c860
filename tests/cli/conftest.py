from collections.abc import Callable
from typing import NamedTuple

import pytest

from dessl.cli import main


class Ran(NamedTuple):
    """What a command left behind on the terminal."""

    code: int
    out: str
    err: str


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

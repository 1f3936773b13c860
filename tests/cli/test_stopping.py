import gc
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dessl.cli import stopping
from dessl.cli.main import main
from dessl.cli.stopping import farewell, saying, stoppable


def swallowed(number: signal.Signals, times: int) -> None:
    """Do what a library does that catches the interrupt, and goes on."""
    for turn in range(times):
        try:
            if turn == 0:
                os.kill(os.getpid(), number)
            time.sleep(600)
        except KeyboardInterrupt:
            continue
    time.sleep(600)


def made_another(number: signal.Signals) -> None:
    """Do what a half-imported library does."""
    try:
        os.kill(os.getpid(), number)
        time.sleep(600)
    except KeyboardInterrupt:
        raise AttributeError("half imported") from None


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_that_a_library_swallows_comes_again(
    monkeypatch: pytest.MonkeyPatch, number: signal.Signals, code: int
) -> None:
    monkeypatch.setattr(stopping, "AGAIN", 0.01)
    with pytest.raises(SystemExit) as left, stoppable():
        swallowed(number, 3)
    assert left.value.code == code


def test_a_signal_that_became_another_error_still_ends_the_process() -> None:
    with pytest.raises(SystemExit) as left, stoppable():
        made_another(signal.SIGINT)
    assert left.value.code == 130


def test_other_errors_and_handlers_stay_as_they_are() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with pytest.raises(ValueError, match="mine"), stoppable():
        raise ValueError("mine")
    assert before == [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def started(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", "from dessl.cli.main import main; main()", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for(process: subprocess.Popen[str], library: str) -> None:
    """Wait until a process has begun to load a library."""
    maps = Path(f"/proc/{process.pid}/maps")
    while process.poll() is None and library not in maps.read_text():
        time.sleep(0.01)


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="asks Linux what is loaded")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_while_torch_is_imported_is_one_line(number: signal.Signals, code: int) -> None:
    process = started("datasets", "list")
    wait_for(process, "libtorch_cpu")
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (code, "", "Interrupted.\n")


FIRST_IMPORT = """
import os, runpy, sys

class Signals:
    def find_spec(self, name, path=None, target=None):
        if name == "dessl.cli":
            os.kill(os.getpid(), {number:d})

sys.meta_path.insert(0, Signals())
runpy.run_module("dessl", run_name="__main__")
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_at_the_first_import_of_a_command_is_one_line(
    number: signal.Signals, code: int
) -> None:
    line = [sys.executable, "-c", FIRST_IMPORT.format(number=number), "--help"]
    ended = subprocess.run(line, capture_output=True, text=True, check=False, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (code, "", "Interrupted.\n")


def test_an_interrupt_that_is_ignored_stays_so() -> None:
    line = ["import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"]
    line += [FIRST_IMPORT.format(number=signal.SIGINT)]
    ended = subprocess.run(
        [sys.executable, "-c", "\n".join(line), "--version"],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (ended.returncode, ended.stderr) == (0, "")


class StruckAtTheEnd:
    """The block of a command, with a signal between its last instruction and its end."""

    def __init__(self) -> None:
        self.inner = stoppable()

    def __enter__(self) -> None:
        self.inner.__enter__()

    def __exit__(self, *error: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(600)


def test_a_signal_as_the_command_ends_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(stopping, "stoppable", StruckAtTheEnd)
    with pytest.raises(SystemExit) as left:
        main(["--version"])
    assert left.value.code == 143
    assert capsys.readouterr().err == "Interrupted.\n"
    del left
    gc.collect()
    assert signal.getsignal(signal.SIGTERM) == before


def test_what_is_said_is_of_the_innermost_block() -> None:
    with pytest.raises(KeyboardInterrupt), saying("outer"), saying("inner"):
        raise KeyboardInterrupt
    assert [farewell(), farewell()] == ["inner", "Interrupted."]


@pytest.mark.slow  # two of them run anyway
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_at_any_moment_is_one_line(tmp_path: Path, number: signal.Signals) -> None:
    rows = [f"{k % 7},{k % 5},{'ab'[k % 2] if k < 60 else ''}" for k in range(200)]
    (tmp_path / "a.csv").write_text("\n".join(["n,m,y", *rows]))
    ended = False
    for turn in range(200):
        options = ("--label", "y", "--steps", "60", "--out", str(tmp_path / f"run{turn}"))
        process = started("fit", str(tmp_path / "a.csv"), *options)
        time.sleep(0.2 + 0.1 * turn)
        process.send_signal(number)
        _, err = process.communicate(timeout=120)
        complete = (tmp_path / f"run{turn}" / "report.html").exists()
        if ended := process.returncode == 0 or (process.returncode == -number and complete):
            assert "Traceback" not in err  # the second: as Python itself ended, after the last line
            break
        assert process.returncode == 128 + number, err
        last = err.splitlines()[-1]
        assert last.startswith("Interrupted.")
        assert "Traceback" not in err
    assert ended


class Dying:
    """An object that is interrupted while it is thrown away, where Python ignores exceptions."""

    def __del__(self) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)


def ignored() -> None:
    """Be interrupted where Python ignores exceptions, and go on."""
    Dying()
    time.sleep(600)


def test_a_signal_where_python_ignores_exceptions_comes_again_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(stopping, "AGAIN", 0.05)
    seen: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", seen.append)
    with pytest.raises(SystemExit) as left, stoppable():
        ignored()
    assert left.value.code == 130
    assert (seen, capsys.readouterr().err) == ([], "")
    assert sys.unraisablehook == seen.append

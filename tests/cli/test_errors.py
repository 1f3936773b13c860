import os
import signal
import time

import pytest

from dessl.cli import errors
from dessl.cli.errors import stoppable


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
    monkeypatch.setattr(errors, "AGAIN", 0.01)
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

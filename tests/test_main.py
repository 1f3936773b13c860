"""``python -m dessl``: a real process."""

import signal
import subprocess
import sys

import dessl

GARBAGE = """
import gc, sys
import dessl.__main__
before = gc.get_threshold()
sys.argv = ["dessl", "--version"]
for arguments in (["--version"], None):
    try:
        dessl.__main__.main(arguments)
    except SystemExit:
        print(gc.get_threshold() == before)
"""
INTERRUPTED = """
import os, signal
import dessl.__main__
os.kill(os.getpid(), signal.{name})
"""


def test_version() -> None:
    module = [sys.executable, "-m", "dessl", "--version"]
    assert subprocess.check_output(module, text=True) == f"dessl {dessl.__version__}\n"


def test_only_a_program_of_its_own_collects_garbage_less_often() -> None:
    printed = subprocess.check_output([sys.executable, "-c", GARBAGE], text=True)
    version = f"dessl {dessl.__version__}"
    assert printed.splitlines() == [version, "True", version, "False"]


def test_an_interrupt_before_main_is_one_line() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        code = INTERRUPTED.format(name=number.name)
        ended = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
        )
        assert (ended.returncode, ended.stderr) == (128 + number, "Interrupted.\n")

"""Every test gets the same environment, seeds and examples, whatever the machine and the order."""

import gc
import os
import random
import signal
from importlib.util import find_spec

# Before torch is imported (sums depend on the number of threads), and for the processes that tests
# start.
os.environ.update(
    OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", LC_ALL="C.UTF-8", TZ="UTC", COLUMNS="80", LINES="24"
)
# What changes how terminals and continuous integration are written to.
for name in (
    "CI", "CLICOLOR", "CLICOLOR_FORCE", "FORCE_COLOR", "GITHUB_ACTIONS", "LANGUAGE", "NO_COLOR",
    "PY_COLORS", "PYTHONIOENCODING", "PYTHONUTF8", "TERM", "TTY_COMPATIBLE", "TTY_INTERACTIVE",
):  # fmt: skip
    os.environ.pop(name, None)
os.umask(0o022)
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # under nohup: processes that tests start
    signal.signal(signal.SIGINT, signal.default_int_handler)  # would ignore Ctrl-C too

import pytest  # noqa: E402
from hypothesis import HealthCheck, settings  # noqa: E402

collect_ignore = [] if find_spec("lightning") else ["src/dessl/integrations/lightning.py"]

# No deadline and no check for slow examples: both would depend on how busy the machine is.
settings.register_profile(
    "repeatable",
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "explore",
    settings.get_profile("repeatable"),
    derandomize=False,
    max_examples=2000,
    print_blob=True,
)
settings.load_profile("repeatable")  # replaced by pytest --hypothesis-profile explore


def _seed() -> None:
    import numpy as np
    import torch

    random.seed(0)
    np.random.seed(0)  # noqa: NPY002  # the global generator is what scikit-learn's checks draw from
    torch.manual_seed(0)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Seed the global generators, so that no test depends on the tests before it."""
    _seed()


def pytest_collectstart() -> None:
    """Seed them for what a test file draws while it is imported, too."""
    _seed()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give every property test the marker that `make explore` selects."""
    for item in items:
        if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker("explore")


def pytest_collection_finish() -> None:
    """From now on, search for garbage less often, and not among modules and collected tests."""
    gc.freeze()
    gc.set_threshold(10_000, 20, 20)

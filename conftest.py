"""Property tests give the same examples on every machine; optional extras may be missing."""

from importlib.util import find_spec

import pytest
from hypothesis import HealthCheck, settings

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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give every property test the marker that `make explore` selects."""
    for item in items:
        if getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            item.add_marker("explore")

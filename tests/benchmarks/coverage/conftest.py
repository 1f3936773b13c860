import importlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def part() -> Iterator[Callable[[str], ModuleType]]:
    """Loads a module of benchmarks/coverage, as `python -m benchmarks.coverage` does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT)
        yield lambda name: importlib.import_module(f"benchmarks.coverage.{name}")

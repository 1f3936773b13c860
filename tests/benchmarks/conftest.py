import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def script() -> Iterator[Callable[[str], ModuleType]]:
    """Loads a script of benchmarks/ as a module; it finds its neighbours, as when it is run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(FOLDER)

        def loaded(name: str) -> ModuleType:
            spec = importlib.util.spec_from_file_location(
                f"benchmark_{name}", FOLDER / f"{name}.py"
            )
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            patch.setitem(sys.modules, f"benchmark_{name}", module)  # where dataclasses look
            spec.loader.exec_module(module)
            return module

        yield loaded

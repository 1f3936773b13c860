"""The counts of the house, on a house small enough to count by hand."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

FILES = {
    "house/__init__.py": "from house.top import roof\n",
    "house/cellar.py": "def stairs():\n    [lamp() for _ in range(2)]\n\n\ndef lamp():\n    pass\n",
    "house/top.py": "from house.cellar import stairs\n\n\ndef roof():\n    return stairs()\n",
    "house/side.py": "from .cellar import lamp\nfrom . import top\n",
}


@pytest.fixture
def house(script) -> ModuleType:
    return script("house")


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in [name for name in sys.modules if name.split(".")[0] == "house"]:
        del sys.modules[name]


def test_files_lines_and_users(house: ModuleType, source: Path) -> None:
    assert house.tree(source) == {
        "files": 4,
        "files without __init__": 3,
        "lines": 14,
        "median lines": 3.5,
        "files with one user": 1,  # top is imported by side; cellar by both
    }


def test_what_a_run_goes_through(house: ModuleType, source: Path) -> None:
    def run() -> None:
        from house.top import roof

        roof()

    assert house.functions_called(run, source) == {
        "files": 2,
        "functions": 3,
        "by package": {"cellar": 2, "top": 1},
    }


def test_the_functions_are_listed_by_file(
    house: ModuleType, source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from house.top import roof

    house.functions_called(roof, source, listed=True)
    cellar, top = source / "house" / "cellar.py", source / "house" / "top.py"
    listed = capsys.readouterr().out.splitlines()
    assert listed == [f"{cellar}:1 stairs", f"{cellar}:5 lamp", f"{top}:4 roof"]

"""The direction of imports: a room imports only from the rooms above it, never from a sibling."""

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "dessl"
PAPER = SOURCE.parent / "dessl_paper"

# Top to bottom; rooms in one tuple are siblings.
STOREYS = [
    ("_version", "_checks", "_entries", "_files", "_html", "_json"),
    ("risk", "functional", "schedules"),
    ("theory",),
    ("data", "augment", "models"),
    ("surrogates",),
    ("objective",),
    ("evaluation",),
    ("training",),
    ("teachers",),
    ("safety",),
    ("recipes",),
    ("saved",),
    ("export",),
    ("results",),
    ("estimator",),
    ("integrations", "sklearn"),
    ("report",),
    ("cli",),
    ("__init__", "__main__"),
]
# The same for the modules of dessl_paper; ``kinds`` is one of them.
PAPER_STOREYS = [
    ("specification", "toy_training"),
    ("sources", "results", "demo_parts"),
    ("training", "targets", "demo_page"),
    ("comparison", "wording", "figures"),
    ("findings", "made_with"),
    ("kinds",),
    ("catalogue", "jobs", "run", "writing"),
    ("command", "demo"),
    ("demo_command",),
    ("__init__",),
]
ENTRANCES = {"__init__", "__main__"}  # they hand out names from everywhere


def module_name(path: Path, source: Path) -> str:
    parts = path.relative_to(source).with_suffix("").parts
    return ".".join((source.name, *(part for part in parts if part != "__init__")))


def imported_modules(path: Path, source: Path) -> Iterator[str]:
    """Every module of the package that an import statement anywhere in the file names."""
    root = source.name
    package = module_name(path, source).split(".")
    if path.name != "__init__.py":
        package = package[:-1]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            stem = ".".join([*base, *([node.module] if node.module else [])])
            # `from dessl.data import formats` may name a module: both readings are looked at.
            names = [stem, *(f"{stem}.{alias.name}" for alias in node.names)]
        else:
            continue
        yield from (name for name in names if name == root or name.startswith(f"{root}."))


def room_of(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def violations(source: Path, storeys: list[tuple[str, ...]] = STOREYS) -> list[str]:
    storey = {room: number for number, rooms in enumerate(storeys) for room in rooms}
    found = []
    for path in sorted(source.rglob("*.py")):
        room = path.relative_to(source).with_suffix("").parts[0]
        if room not in storey:
            found.append(f"{path.name}: room {room!r} has no place in STOREYS")
            continue
        if room in ENTRANCES:
            continue
        for target in imported_modules(path, source):
            other = room_of(target)
            if target == source.name:
                # `from dessl import x` reads as x of the root package, unless x is a room.
                continue
            if other == room:
                continue
            if other not in storey:
                found.append(f"{path.name}: imports {target} through the root package")
            elif storey[other] >= storey[room]:
                found.append(f"{path.name}: {room} may not import {target}")
    return found


def modules_and_imports(source: Path) -> dict[str, set[str]]:
    modules = {module_name(path, source): path for path in source.rglob("*.py")}
    return {
        name: {target for target in imported_modules(path, source) if target in modules} - {name}
        for name, path in modules.items()
        if path.name != "__init__.py"
    }


def cycle(graph: dict[str, set[str]]) -> list[str]:
    """Return one import cycle between modules, or nothing."""
    done: set[str] = set()

    def visit(name: str, trail: list[str]) -> list[str]:
        if name in trail:
            return [*trail[trail.index(name) :], name]
        if name in done:
            return []
        for target in sorted(graph.get(name, ())):
            if found := visit(target, [*trail, name]):
                return found
        done.add(name)
        return []

    for name in sorted(graph):
        if found := visit(name, []):
            return found
    return []


def paper_imports(source: Path) -> list[str]:
    """Every place in dessl that imports the paper's wing."""
    return [
        f"{path.relative_to(source)} imports {module}"
        for path in sorted(source.rglob("*.py"))
        for module in re.findall(
            r"^ *(?:from|import) (dessl_paper\S*)", path.read_text(encoding="utf-8"), re.MULTILINE
        )
    ]


def test_imports_go_one_way() -> None:
    assert violations(SOURCE) == []


def test_the_product_knows_only_the_commands_of_the_paper() -> None:
    assert sorted(set(paper_imports(SOURCE))) == [
        "cli/report.py imports dessl_paper.command",
        "cli/report.py imports dessl_paper.demo",
        "cli/report.py imports dessl_paper.writing",
    ]


def test_imports_of_the_paper_go_one_way() -> None:
    assert violations(PAPER, PAPER_STOREYS) == []
    assert cycle(modules_and_imports(PAPER)) == []


def test_kinds_share_helpers_and_do_not_import_each_other() -> None:
    """A kind can be taken out: only the dict in ``kinds/__init__.py`` knows it."""
    kinds = {f"dessl_paper.kinds.{name}" for name in ("sweep", "methods", "probe", "toy")}
    graph = modules_and_imports(PAPER)
    importers = {name for name, targets in graph.items() if targets & kinds}
    assert importers == set()  # __init__ files are not in the graph


def test_modules_of_one_room_do_not_import_in_circles() -> None:
    assert cycle(modules_and_imports(SOURCE)) == []


@pytest.mark.parametrize(
    ("file", "line", "complaint"),
    [
        ("risk.py", "from dessl.theory import risk_variance", "risk may not import dessl.theory"),
        ("risk.py", "from .functional import entropy", "risk may not import dessl.functional"),
        ("data/semi.py", "import dessl.augment", "data may not import dessl.augment"),
        ("data/semi.py", "from ..models import lenet", "data may not import dessl.models"),
        ("objective.py", "from dessl import entropy", "imports dessl.entropy through the root"),
        ("theory/a.py", "def f():\n    import dessl.cli", "theory may not import dessl.cli"),
        ("training/a.py", "import dessl.integrations.lightning", "may not import dessl.integr"),
        ("cellar.py", "", "room 'cellar' has no place"),
    ],
)
def test_a_wrong_import_is_found(tmp_path: Path, file: str, line: str, complaint: str) -> None:
    source = tmp_path / "dessl"
    (source / file).parent.mkdir(parents=True, exist_ok=True)
    (source / file).write_text(line + "\n")
    found = violations(source)
    assert found
    assert complaint in found[0]


def test_a_right_import_passes(tmp_path: Path) -> None:
    source = tmp_path / "dessl"
    source.mkdir()
    (source / "theory.py").write_text("from dessl.risk import Risk\nfrom dessl import _checks\n")
    assert violations(source) == []


def test_a_circle_is_found(tmp_path: Path) -> None:
    room = tmp_path / "dessl" / "data"
    room.mkdir(parents=True)
    (room / "a.py").write_text("from dessl.data.b import x\n")
    (room / "b.py").write_text("from dessl.data import a\n")
    circle = cycle(modules_and_imports(tmp_path / "dessl"))
    assert set(circle) == {"dessl.data.a", "dessl.data.b"}


def test_what_every_user_installs_is_used() -> None:
    project = tomllib.loads((SOURCE.parents[1] / "pyproject.toml").read_text(encoding="utf-8"))
    names = [re.split("[<>=]", line)[0] for line in project["project"]["dependencies"]]
    modules = {"scikit-learn": "sklearn", "Pillow": "PIL"}
    code = "\n".join(path.read_text(encoding="utf-8") for path in SOURCE.parent.rglob("*.py"))
    imported = set(re.findall(r"^ *(?:import|from) (\w+)", code, re.MULTILINE))
    assert {modules.get(name, name) for name in names} - imported == set()


def test_importing_dessl_stays_light() -> None:
    heavy = ("scipy", "sklearn", "matplotlib", "pandas", "pyarrow", "torchmetrics", "PIL")
    code = f"import sys, dessl; print([m for m in {heavy!r} if m in sys.modules])"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"


def test_an_audit_does_not_import_scipy_stats() -> None:
    """It takes 0.3 s to import, of the ten seconds that ``dessl fit`` may take."""
    code = (
        "import sys, torch; from dessl import SemiData; from dessl.safety import audit; "
        "x = torch.arange(180.0).cos().view(90, 2); rows = torch.arange(90); "
        "y = torch.where(rows < 30, rows % 2, -1); "
        "tests = audit(SemiData(x, y), cheap=True).tests; "
        "print(len(tests), 'scipy.stats' in sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "4 False"

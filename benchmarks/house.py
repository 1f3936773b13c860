"""The size of the code base: files, lines, files with one user, and what a run calls.

    PYTHONPATH=src python benchmarks/house.py            # the source tree
    PYTHONPATH=src python benchmarks/house.py --runs     # and four runs under a profiler: a minute
    PYTHONPATH=src python benchmarks/house.py --list     # and the functions that they call

Counts every package under src/. A file has one user if exactly one other file imports it; an
``__init__`` counts neither as a file nor as a user. A run's functions are those of src/ that it
calls, without lambdas and comprehensions, when everything is imported already. Two of the runs are
what users call; two leave out the pool and the second training, which did not exist when the
figures of house-before.json were counted, so that the same work is compared. (They still have the
audit, the check of the baseline and the intervals, which are newer too and cannot be turned off.)
"""

import argparse
import ast
import contextlib
import io
import json
import runpy
import statistics
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

SOURCE = Path(__file__).parents[1] / "src"


def module_name(path: Path, source: Path) -> str:
    """The dotted name of a file."""
    parts = path.relative_to(source).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def imports(path: Path, source: Path) -> Iterator[str]:
    """Every module or name that a file imports, dotted, wherever the import stands."""
    package = module_name(path.parent / "__init__.py", source).split(".")
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            stem = ".".join([*base, *([node.module] if node.module else [])])
            yield stem
            yield from (f"{stem}.{alias.name}" for alias in node.names)


def tree(source: Path) -> dict[str, Any]:
    """Files, lines, median lines and files with one user."""
    files = sorted(source.rglob("*.py"))
    lines = [len(file.read_text(encoding="utf-8").splitlines()) for file in files]
    modules = {module_name(file, source): file for file in files if file.name != "__init__.py"}
    users: dict[str, set[str]] = defaultdict(set)
    for name, file in modules.items():
        for target in imports(file, source):
            if target in modules and target != name:
                users[target].add(name)
    return {
        "files": len(files),
        "files without __init__": len(modules),
        "lines": sum(lines),
        "median lines": statistics.median(lines),
        "files with one user": sum(len(users[name]) == 1 for name in modules),
    }


def functions_called(
    run: Callable[[], object], source: Path, *, listed: bool = False
) -> dict[str, Any]:
    """How many files and functions of the source tree a run calls; and functions by package.

    Args:
        run: What to follow.
        source: The source tree.
        listed: Whether to print the functions, each with its file and line.
    """
    seen: set[CodeType] = set()

    def notice(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            seen.add(frame.f_code)

    run()  # so that what is imported and cached on the way is no part of it
    sys.setprofile(notice)
    try:
        run()
    finally:
        sys.setprofile(None)
    ours = {code for code in seen if Path(code.co_filename).is_relative_to(source)}
    functions = [code for code in ours if not code.co_name.startswith("<")]
    if listed:
        print(*sorted(f"{c.co_filename}:{c.co_firstlineno} {c.co_qualname}" for c in functions),
              sep="\n")  # fmt: skip
    places = (Path(code.co_filename).relative_to(source).parts[1] for code in functions)
    return {
        "files": len({code.co_filename for code in ours}),
        "functions": len(functions),
        "by package": dict(sorted(Counter(place.removesuffix(".py") for place in places).items())),
    }


def people(file: Path) -> Path:
    """Write a table of 240 people, 96 of them with a label."""
    import numpy as np

    rng = np.random.default_rng(0)
    rows = ["age,town,outcome"]
    for k in range(240):
        age = rng.normal(50, 10)
        outcome = ("ill" if age > 50 else "well") if k % 5 < 2 else ""
        rows.append(f"{age:.1f},{rng.choice(['Oslo', 'Bergen'])},{outcome}")
    file.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return file


def command_line(folder: Path, *options: str) -> None:
    """``dessl fit people.csv``, with few steps: the way is the same."""
    table, run = people(folder / "people.csv"), tempfile.mkdtemp(dir=folder)
    sys.argv = ["dessl", "fit", str(table), "--label", "outcome", "--steps", "20", "--out", run]
    sys.argv += options
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            runpy.run_module("dessl", run_name="__main__")
    except SystemExit as end:
        if end.code:
            raise


def estimator(**options: Any) -> None:
    """``DeSSLClassifier().fit`` on rows of two classes, half without a label; a fixed seed."""
    import numpy as np

    from dessl import DeSSLClassifier

    rng = np.random.default_rng(0)
    y = rng.integers(2, size=200)
    x = rng.normal(size=(200, 4)) + 2 * y[:, None]
    y[100:] = -1
    DeSSLClassifier(random_state=0, **options).fit(x, y)


def main(argv: Sequence[str] | None = None) -> None:
    """Count, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", action="store_true", help="follow four runs through the source")
    parser.add_argument("--list", action="store_true", help="the same, and list what they call")
    parser.add_argument("--source", type=Path, default=SOURCE, help="another checkout's src")
    parser.add_argument("--out", type=Path, help="a JSON file for the figures")
    options = parser.parse_args(argv)
    source = options.source.resolve()
    found = tree(source)
    if options.runs or options.list:
        import dessl

        if not Path(dessl.__file__).is_relative_to(source):
            parser.error(f"dessl is imported from {dessl.__file__}. Set PYTHONPATH={source}")
        with tempfile.TemporaryDirectory() as folder:
            runs: dict[str, Callable[[], object]] = {
                "dessl fit people.csv": lambda: command_line(Path(folder)),
                "dessl fit people.csv --no-pool --no-refit": lambda: command_line(
                    Path(folder), "--no-pool", "--no-refit"
                ),
                "DeSSLClassifier().fit": estimator,
                "DeSSLClassifier(teachers=None).fit": lambda: estimator(teachers=None),
            }
            for name, run in runs.items():
                found[name] = functions_called(run, source, listed=options.list)
    print("\n".join(f"{name}: {value}" for name, value in found.items()))
    if options.out:
        options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

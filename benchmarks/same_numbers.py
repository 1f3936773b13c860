"""Checks that committed tables, figures and records still have the same numbers.

Regenerates every table, summary and figure of results/ from its committed records, with the code of
this checkout, and compares their numbers with those of another checkout (or with the committed
ones). Words may differ; numbers may not. Records and benchmark results are compared directly.

    PYTHONPATH=src python benchmarks/same_numbers.py                    # beside the committed files
    PYTHONPATH=src python benchmarks/same_numbers.py --before OLD       # beside another checkout's

Exit status 1 if a number differs. Tables are compared cell by cell, JSON entry by entry, other text
as one sequence of numbers, figures by the coordinates of what is drawn in each pair of axes.
"""

import argparse
import json
import math
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
MADE = ("table.md", "table.tex", "summary.json", "figure*.svg")  # by `dessl report`
KEPT = ("results/*/*.json", "results/*/runs/**/*.json", "results/*/table.md")
KEPT += ("benchmarks/results/*.json", "benchmarks/results/*.md")
NUMBER = re.compile(r"(?<![\w.])[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?(?!\w)", re.IGNORECASE)
COORDINATE = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
WORDS = ("text_", "legend_", "matplotlib.axis_")  # their places follow the length of the words
MARKER = 20  # points from its centre, at most
Numbers = dict[str, tuple[float, ...]]


def numbers(file: Path) -> Numbers:
    """Every number of a file, by the place where it stands."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".json":
        return dict(of_json(json.loads(text), ""))
    if file.suffix == ".svg":
        return dict(of_svg(ET.fromstring(text)))
    return dict(of_text(text, "|" if file.suffix == ".md" else "&"))


def of_json(tree: Any, place: str) -> Iterator[tuple[str, tuple[float, ...]]]:
    """The numbers of a JSON tree; its texts may hold some, too."""
    if isinstance(tree, dict | list):
        entries = tree.items() if isinstance(tree, dict) else enumerate(tree)
        for key, value in entries:
            yield from of_json(value, f"{place}/{key}")
    elif isinstance(tree, str):
        if found := in_words(tree):
            yield place, found
    elif tree is not None:
        yield place, (float(tree),)


def of_text(text: str, bar: str) -> Iterator[tuple[str, tuple[float, ...]]]:
    """The numbers of each table cell, and those of all other text as one sequence."""
    other: list[float] = []
    row = 0
    for line in text.splitlines():
        cells = line.split(bar)
        if len(cells) < 3:
            other += in_words(line)
            continue
        row += 1
        for column, cell in enumerate(cells):
            if found := in_words(cell):
                yield f"table row {row}, column {column}", found
    yield "text", tuple(other)


def in_words(text: str) -> tuple[float, ...]:
    """The numbers in a text, in order."""
    plain = text.replace("−", "-").replace("$-$", "-")
    return tuple(float(found.replace(",", "").rstrip(".")) for found in NUMBER.findall(plain))


def of_svg(figure: ET.Element) -> Iterator[tuple[str, tuple[float, ...]]]:
    """What is drawn in each pair of axes, as shares of their width and height."""
    for axes in figure.iter():
        if axes.get("id", "").startswith("axes_"):
            shapes = list(drawn(axes, {}))
            box = shapes[0]
            left, right = min(box[::2]), max(box[::2])
            low, high = min(box[1::2]), max(box[1::2])
            for k, shape in enumerate(shapes[1:]):
                across = ((x - left) / (right - left) for x in shape[::2])
                up = ((y - low) / (high - low) for y in shape[1::2])
                shares = [share for pair in zip(across, up, strict=True) for share in pair]
                yield f"{axes.get('id')}, shape {k}", tuple(round(share, 3) for share in shares)


def drawn(element: ET.Element, defined: dict[str, list[float]]) -> Iterator[list[float]]:
    """The coordinates of paths and markers below an element, without those of words."""
    for child in element:
        tag = child.tag.split("}")[-1]
        if child.get("id", "").startswith(WORDS):
            continue
        if tag == "defs":
            defined |= {path.get("id", ""): coordinates(path) for path in child}
            continue
        if tag == "path":
            yield coordinates(child)
        elif tag == "use":
            yield used(child, defined)
        yield from drawn(child, defined)


def coordinates(path: ET.Element) -> list[float]:
    """The numbers of a path: x and y in turn."""
    return [float(found) for found in COORDINATE.findall(path.get("d", ""))]


def used(use: ET.Element, defined: dict[str, list[float]]) -> list[float]:
    """A shape at the place where it is used; a marker, whose size is fixed, is its centre."""
    x, y = float(use.get("x", "0")), float(use.get("y", "0"))
    name = next(value for key, value in use.attrib.items() if key.endswith("href"))
    shape = defined.get(name.removeprefix("#"), [])
    if max(map(abs, shape), default=0) < MARKER:
        return [x, y]
    return [value + (y if k % 2 else x) for k, value in enumerate(shape)]


def differences(before: Numbers, after: Numbers) -> list[str]:
    """One line for each place whose numbers are not the same."""
    return [
        f"{place}: {shown(before.get(place))} before, {shown(after.get(place))} now"
        for place in {**before, **after}
        if not same(before.get(place, ()), after.get(place, ()))
    ]


def same(before: Sequence[float], after: Sequence[float]) -> bool:
    """Whether two sequences of numbers are equal; NaN equals NaN."""
    return len(before) == len(after) and all(
        one == other or (math.isnan(one) and math.isnan(other))
        for one, other in zip(before, after, strict=True)
    )


def shown(found: Sequence[float] | None) -> str:
    """Numbers as text; only the first few."""
    if found is None:
        return "nothing"
    return " ".join(f"{value!r}" for value in found[:8]) + (" …" if len(found) > 8 else "")


def remade(out: Path) -> None:
    """Copy the committed records to a folder, and make their tables and figures there."""
    for folder in sorted((ROOT / "results").iterdir()):
        if (folder / "runs").is_dir() and (folder / "table.md").is_file():  # else unfinished
            shutil.copytree(folder / "runs", out / folder.name / "runs")
            shutil.copy(folder / "experiment.json", out / folder.name)
            command = [sys.executable, "-m", "dessl", "report", str(out / folder.name)]
            if subprocess.run(command, check=False, stdout=subprocess.DEVNULL).returncode:
                print(f"{folder.name}: its report cannot be made, see above")


def compared(before: Path, made: Path) -> Iterator[tuple[str, list[str]]]:
    """Each file of the older checkout, and how its numbers differ now."""
    for file in sorted({file for pattern in KEPT for file in before.glob(pattern)}):
        name = file.relative_to(before)
        if not (made / name.parent.name / name.name).exists():  # else it is made, see below
            yield str(name), against(file, ROOT / name)
    for file in sorted(file for name in MADE for file in before.glob(f"results/*/{name}")):
        if (made / file.parent.name).is_dir():
            yield str(file.relative_to(before)), against(file, made / file.parent.name / file.name)


def against(before: Path, after: Path) -> list[str]:
    """How a file's numbers differ from another's, which may be missing."""
    if not after.exists():
        return ["there is no such file now"]
    return differences(numbers(before), numbers(after))


def main(argv: Sequence[str] | None = None) -> int:
    """Make, compare, print; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", type=Path, default=ROOT, help="the other checkout's folder")
    options = parser.parse_args(argv)
    files = changed = 0
    with tempfile.TemporaryDirectory() as folder:
        remade(Path(folder))
        for name, lines in compared(options.before, Path(folder)):
            files, changed = files + 1, changed + bool(lines)
            for line in lines[:10]:
                print(f"{name}: {line}")
            if len(lines) > 10:
                print(f"{name}: {len(lines) - 10} more differences")
    print(f"{files} files compared, {changed} with other numbers.")
    return 1 if changed or not files else 0


if __name__ == "__main__":
    sys.exit(main())

"""What committed results hold: records, each a few numbers with the words that name them.

A record is a cell of a Markdown table, another line of Markdown, or an entry of an object in JSON
or TOML, long lists (curves) left out. Runs that differ in their seed, listed in one file or in one
file each, give records of the mean and half the 95 % t-interval over seeds instead.
"""

import itertools
import json
import math
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

SUFFIXES = (".json", ".md", ".toml")
ROWS = itertools.count()
NO_RESULTS = ("history", "machine", "made_with", "settings")  # of a run
CAPTION = 120  # characters at most
LONG = 20  # more numbers than that in a list are a curve
NUMBER = re.compile(
    r"(?<![\w.^/])(?<!\w-)([+-]?)(\d{1,3}(?:,\d{3})+|\d+)(\.\d+)?(e[+-]?\d+)?(?![\w^]|[.,/]\d|-[a-z])"
)
STOP_WORDS = {*re.findall(r"\w+", """
    a all an and are as at but by each for from has have in is it its less minus no not of on one
    or other our ours same than that the them then they this to was were where which
    with""")}  # fmt: skip
ALIASES = {  # of the paper's numbers
    "acc": ["accuracy"],
    "cc": ["complete", "case"],
    "ce": ["cross", "entropy"],
    "entmin": ["entropy"],
    "pl": ["pseudo", "label"],
}


@dataclass(frozen=True)
class Record:
    """Numbers of one cell of a table, or of one entry of an object."""

    row: str  # the table's row or the object, whose other records belong to this one
    words: frozenset[str]
    numbers: tuple[float, ...]
    prose: bool = False  # a line of Markdown that is no row of a table


def plain(text: str) -> str:
    """The text with one kind of minus, and powers of ten as programs write them."""
    text = text.replace("−", "-")
    digits = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")
    return re.sub(
        r"\s?[×·]\s?10([⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)", lambda found: f"e{found[1].translate(digits)}", text
    )


def words(text: str) -> frozenset[str]:
    """The words of names in any spelling.

    >>> sorted(words("DeFixMatch of CIFAR-10"))
    ['cifar', 'cifar10', 'de', 'defix', 'defixmatch', 'fix', 'fixmatch', 'match']
    >>> words("de_pl") == words("de_pseudo_label")
    True
    """
    found: set[str] = set()
    for name in re.findall(r"[^\W\d_]+(?:-?\d+)?", text):
        parts = re.findall(r"[A-Z]*[^A-Z\d-]+|[A-Z]+", name)  # FixMatch is fixmatch, Fix and Match
        found.update("".join(parts[i:j]) for i in range(len(parts)) for j in range(i + 1, 9))
        found.add(name.replace("-", ""))
    lower = {word.lower() for word in found if len(word) > 1} - STOP_WORDS
    return frozenset(other for word in lower for other in ALIASES.get(word, [word]))


def as_caption(text: str, before: str) -> str:
    """What stands above a table: one line, past blank ones, or nothing that could name it."""
    if not text.strip():
        return before
    return text if "\n" not in text.strip() and len(text) <= CAPTION else ""


def numbers(text: str) -> tuple[float, ...]:
    """The numbers in a text.

    >>> numbers("1,024 rows of CIFAR-10, −0.5 ± 0.1, version 1.2.3, 6.5 × 10⁻⁵")
    (1024.0, -0.5, 0.1, 6.5e-05)
    """
    return tuple(value(found) for found in NUMBER.finditer(plain(text)))


def value(found: re.Match[str]) -> float:
    return float(found[0].replace(",", ""))


@cache
def records(path: Path) -> tuple[Record, ...]:
    """All records of a file, or of a folder: of its runs, one a file, and of its other files."""
    files = [path] if path.is_file() else sorted(path.rglob("*"))
    trees = {file: _tree(file) for file in files if file.suffix in (".json", ".toml")}
    runs = [tree for tree in trees.values() if isinstance(tree, dict) and "seed" in tree]
    found = [*_of_tree(runs, words(path.name))]
    for file in files:
        if file.suffix == ".md":
            found += _of_lines(file.read_text(encoding="utf-8"))
        elif file in trees and trees[file] not in runs:
            found += _of_tree(trees[file], words(file.parent.name))
    return tuple(record for record in found if record.numbers)


def _tree(path: Path) -> Any:
    text = path.read_text(encoding="utf-8")
    return tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)


def _of_lines(text: str) -> Iterator[Record]:
    """A record for each cell of a table, and for each other line."""
    heading, caption, header = "", "", []
    for line in text.splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip()[1:-1])]
        if line.startswith("#"):
            heading, caption = line, ""
        if not line.startswith("|"):
            header, caption = [], as_caption(line, caption)
            yield Record(line, words(f"{heading} {line}"), numbers(line), prose=True)
        elif not header:
            header = cells
        else:
            named = words(f"{heading} {caption} {line}").union(map(token, numbers(line)))
            for title, cell in zip(header, cells, strict=False):
                yield Record(f"{heading} {caption} {line}", named | words(title), numbers(cell))


def _of_tree(node: Any, above: frozenset[str]) -> Iterator[Record]:
    """A record for each entry of an object, with what names the object."""
    if isinstance(node, list):
        runs = [item for item in node if isinstance(item, dict) and "seed" in item]
        if len({run["seed"] for run in runs}) > 1:
            yield from _over_seeds(runs, above)
            node = [item for item in node if item not in runs]
        for item in node:
            yield from _of_tree(item, above)
    if isinstance(node, dict) and not _is_curve(node):
        scalars = [item for item in node.values() if isinstance(item, str | int | float)]
        above = above.union(*map(_names, scalars))
        row = str(next(ROWS))
        for key, item in node.items():
            named = above | words(key)
            if not isinstance(item, dict):
                yield Record(row, named, tuple(number for _, number in _leaves(item)))
            yield from _of_tree(item, named)


def _leaves(node: Any, name: str = "") -> list[tuple[str, float]]:
    """The numbers below a node with their names, without curves."""
    if isinstance(node, str):  # a sentence among the facts
        return [(name, number) for number in numbers(node)]
    if isinstance(node, int | float) and not isinstance(node, bool):
        return [(name, float(node))] if math.isfinite(node) else []
    if node is None or isinstance(node, bool) or _is_curve(node):
        return []
    items = node.items() if isinstance(node, dict) else (("", item) for item in node)
    return [leaf for key, item in items for leaf in _leaves(item, f"{name} {key}".strip())]


def _is_curve(node: dict[str, Any] | list[Any]) -> bool:
    return len(node) > LONG and (isinstance(node, list) or all(key.isdigit() for key in node))


def _over_seeds(runs: list[dict[str, Any]], above: frozenset[str]) -> Iterator[Record]:
    """Means and half-widths over runs that differ in their seed, and in what was measured."""
    settings = _settings(runs)
    groups: dict[tuple[str, ...], list[dict[str, float]]] = defaultdict(list)
    for run in runs:
        key = tuple(token(run[name]) for name in settings if name in run)
        groups[key].append(dict(_leaves({k: v for k, v in run.items() if k not in NO_RESULTS})))
    for key, group in groups.items():
        for name in group[0]:
            sample = [leaves[name] for leaves in group if name in leaves]
            if len(sample) > 1:
                named = above.union(key, *map(words, key), words(name))
                yield Record(str((key, name)), named, mean_and_half(sample))


def _settings(runs: list[dict[str, Any]]) -> list[str]:
    """The fields that take the same values for every seed."""
    values: dict[str, dict[Any, set[str]]] = defaultdict(lambda: defaultdict(set))
    for run in runs:
        for name, item in run.items():
            if name != "seed" and isinstance(item, str | int | float):
                values[name][run["seed"]].add(token(item))
    seeds = {run["seed"] for run in runs}
    return [
        name
        for name, of in values.items()
        if set(of) == seeds and all(seen == next(iter(of.values())) for seen in of.values())
    ]


def _names(item: str | float) -> frozenset[str]:
    return words(item) if isinstance(item, str) else frozenset([token(item)])


def token(item: str | float) -> str:
    return item if isinstance(item, str) else f"{float(item):g}"


def mean_and_half(sample: Any) -> tuple[float, float]:
    """The mean and half the 95 % t-interval."""
    half = stats.t.ppf(0.975, len(sample) - 1) * stats.sem(sample)
    return float(np.mean(sample)), float(half)

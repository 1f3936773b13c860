"""Facts, records and experiments that are mostly valid."""

import json
import random
import re
from functools import cache
from importlib import resources
from typing import Any

from cases import Case
from damage import damaged_bytes, damaged_tree
from grammar_saved import CORPUS

from dessl_paper.catalogue import experiment_names, file_entries

TITLES = ("a run", "<script>alert(1)</script>", "é中\u202e", "x" * 500, "", "$x_1^2$", "a\nb")


@cache
def facts() -> dict[str, Any]:
    """The facts of the corpus."""
    found: dict[str, Any] = json.loads((CORPUS / "fit" / "facts.json").read_bytes())
    return found


def facts_case(chance: random.Random) -> Case:
    """The facts of a run, damaged in two fifths of the cases."""
    entries: Any = {
        **facts(),
        "title": chance.choice(TITLES),
        "seconds": chance.random() * 10 ** chance.randrange(9),
        "warnings": [chance.choice(TITLES) for _ in range(chance.randrange(3))],
    }
    damaged = chance.random() < 0.4
    if damaged:
        for _ in range(chance.choice((1, 1, 2))):
            entries = damaged_tree(chance, entries) if isinstance(entries, dict | list) else entries
    content = json.dumps(entries, ensure_ascii=chance.random() < 0.5).encode(errors="replace")
    if damaged and chance.random() < 0.25:
        content = damaged_bytes(chance, content)
    return Case("facts", {"facts.json": content}, {}, 40 * len(content), damaged)


@cache
def records() -> tuple[dict[str, Any], dict[str, Any]]:
    """The experiment of the corpus, and its records by path."""
    folder = CORPUS / "reproduction"
    runs = {
        f"runs/{path.name}": json.loads(path.read_bytes())
        for path in sorted((folder / "runs").iterdir())
    }
    return json.loads((folder / "experiment.json").read_bytes()), runs


def records_case(chance: random.Random) -> Case:
    """A folder of results with some of its records, damaged in two fifths of the cases."""
    experiment, runs = records()
    names = chance.sample(sorted(runs), chance.randrange(1, 3))
    trees: dict[str, Any] = {"experiment.json": experiment, **{name: runs[name] for name in names}}
    damaged = chance.random() < 0.4
    if damaged:
        name = chance.choice(sorted(trees))
        trees[name] = damaged_tree(chance, trees[name])
    files = {name: json.dumps(tree).encode(errors="replace") for name, tree in trees.items()}
    if damaged and chance.random() < 0.25:
        name = chance.choice(sorted(files))
        files[name] = damaged_bytes(chance, files[name])
    return Case("records", files, {}, 40 * sum(map(len, files.values())), damaged)


@cache
def experiments() -> dict[str, dict[str, Any]]:
    """The entries of every experiment."""
    return {name: file_entries(name) for name in experiment_names()}


@cache
def texts() -> dict[str, bytes]:
    """The files of experiments that stand alone."""
    folder = resources.files("dessl_paper") / "experiments"
    files = {name: (folder / f"{name}.toml").read_bytes() for name in experiment_names()}
    return {name: text for name, text in files.items() if b"\nlike " not in text}


def experiment_case(chance: random.Random) -> Case:
    """The TOML of an experiment, damaged in two fifths of the cases."""
    damaged = chance.random() < 0.4
    profile = chance.choice(("smoke", "fast", "paper"))
    if chance.random() < 0.15:
        name = chance.choice(sorted(texts()))
        content = damaged_bytes(chance, texts()[name]) if damaged else texts()[name]
    else:
        name = chance.choice(sorted(experiments()))
        entries: Any = {
            **experiments()[name],
            "title": chance.choice(TITLES),
            "seeds": chance.randrange(1, 9),
        }
        content = toml(damaged_tree(chance, entries) if damaged else entries).encode()
    options = {"name": name, "profile": profile}
    return Case("experiment", {f"{name}.toml": content}, options, 100 * len(content), damaged)


def toml(entries: Any) -> str:
    """Entries as TOML, tables within them inline; what TOML has no word for becomes text."""
    if not isinstance(entries, dict):
        return f"x = {_value(entries)}\n"
    return "".join(f"{_key(key)} = {_value(value)}\n" for key, value in entries.items())


def _key(key: str) -> str:
    return key if re.fullmatch("[A-Za-z0-9_-]+", key) else json.dumps(key)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        inside = ", ".join(f"{_key(key)} = {_value(entry)}" for key, entry in value.items())
        return "{" + inside + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    if isinstance(value, int | float):
        return repr(value)
    return json.dumps(str(value))

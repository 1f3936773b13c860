"""The paper's numbers: printed in its tables, or read off its figures."""

import tomllib
from functools import cache
from importlib import resources
from typing import Any


@cache
def paper_targets() -> dict[str, Any]:
    """Everything in ``targets.toml``.

    >>> paper_targets()["toy"]["pseudo_label"]
    0.12
    """
    file = resources.files("dessl_paper") / "experiments" / "targets.toml"
    return tomllib.loads(file.read_text(encoding="utf-8"))


def targets_at(path: str) -> dict[str, Any]:
    """The table at a dotted path; an empty path has an empty table.

    >>> targets_at("tables.fixmatch.cifar10")["fixmatch"]["accuracy"]
    [93.87, 0.13]
    """
    found: Any = paper_targets()
    if not path:
        return {}
    for part in path.split("."):
        if not isinstance(found, dict) or part not in found:
            raise KeyError(f"targets.toml has no table {path!r}.")
        found = found[part]
    table: dict[str, Any] = found
    return table

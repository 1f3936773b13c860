"""Training knows surrogates by their contract: no method by name, no private attribute."""

import ast
from pathlib import Path

import pytest

import dessl.surrogates
import dessl.training
from dessl.surrogates import SURROGATES

TRAINING = Path(dessl.training.__file__).parent
SURROGATE_FILES = sorted(Path(dessl.surrogates.__file__).parent.glob("*.py"))


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def private_names_of_surrogates() -> set[str]:
    """Every ``self._name`` and ``def _name`` of the room."""
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in SURROGATE_FILES]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    names = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    names |= {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
    return {name for name in names if is_private(name)}


def touched(source: str) -> set[str]:
    """Private surrogate names that a source reads of another than ``self``, and methods named."""
    found = set()
    private = private_names_of_surrogates()
    methods = {kind.__name__ for kind in SURROGATES.values()}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr in private:
            of_self = isinstance(node.value, ast.Name) and node.value.id in ("self", "torch")
            found |= set() if of_self else {node.attr}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dessl.surr"):
            found |= {alias.name for alias in node.names} & methods
    return found


@pytest.mark.parametrize("path", sorted(TRAINING.glob("*.py")), ids=lambda path: path.name)
def test_training_touches_the_contract_alone(path: Path) -> None:
    assert touched(path.read_text(encoding="utf-8")) == set()


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("surrogate._generator = None", "_generator"),
        ("part.surrogate._seed", "_seed"),
        ("from dessl.surrogates import FixMatch, Surrogate", "FixMatch"),
        ("from dessl.surrogates.combine import Combine", "Combine"),
    ],
)
def test_a_touch_is_found(source: str, name: str) -> None:
    assert touched(source) == {name}

"""Every regular expression of the code reads a long text in linear time, whatever the text."""

import ast
import importlib
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
LONG = 12_000  # characters, of which a quadratic pattern takes half a second
MOST = 0.2  # seconds
PIECES = (
    "1", "a", "1.", "-1", ".", '"', '""', ',"', '"a', "\\", "[", "[a", "[]", "_", "_a", "FSDP",
    "0x", "0xf", "-", "--a", "~", "'", "\n", '"\n', "*", "**a", "<", "](", "1,", "1'", "é", "&",
    '"";', '\t"', "shard-1-", "1e", "+", " ", "0:", "T0", "$", "=",
)  # fmt: skip
WITHIN = {"sub", "search", "split", "findall", "finditer"}  # which look at every place of a text
CALLS = {f"re.{one}" for one in ("compile", "match", "fullmatch", *WITHIN)}


def patterns() -> Iterator[tuple[str, tuple[str, bool]]]:
    """Where each pattern is, the pattern, and whether it is looked for within a text."""
    for path in sorted(SOURCE.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        if "import re\n" not in source:
            continue
        name = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        module = importlib.import_module(name)
        for node in ast.walk(ast.parse(source)):
            if not isinstance(node, ast.Call) or ast.unparse(node.func) not in CALLS:
                continue
            given = node.args[0]
            if isinstance(given, ast.Name) and given.id not in vars(module):
                continue  # a pattern that users pass for their own names
            found = eval(ast.unparse(given), vars(module))  # our own code
            uses = {ast.unparse(node.func).removeprefix("re.")}
            for constant, value in vars(module).items():
                if isinstance(value, re.Pattern) and value.pattern == found:
                    uses |= set(re.findall(rf"\b{constant}\.(\w+)\(", source))
            yield f"{name}:{node.lineno}", (found, bool(uses & WITHIN))


FOUND = dict(patterns())


def test_the_patterns_are_found() -> None:
    assert len(FOUND) > 15
    assert sum(within for _, within in FOUND.values()) > 4


@pytest.mark.parametrize("place", FOUND)
def test_a_pattern_is_linear(place: str) -> None:
    pattern, within = re.compile(FOUND[place][0]), FOUND[place][1]
    for piece in PIECES:
        for end in ("", "x", '"'):
            text = piece * (LONG // len(piece)) + end
            began = time.process_time()
            pattern.match(text)
            pattern.fullmatch(text)
            if within:
                pattern.sub("", text)
            assert time.process_time() - began < MOST, (piece, end)

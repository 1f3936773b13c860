"""Data frames that are mostly valid: columns of many types, as JSON that the reader makes them of.

Reading a frame runs no code of the file: a column is a type and a list of values.
"""

import json
import random
from collections.abc import Callable
from typing import Any

from cases import Case
from damage import ODD, damaged_tree
from grammar_tables import SENTENCES, WORDS

USUAL = ("float64", "Int64", "boolean", "str", "category", "datetime", "float32", "object")
RARE = ("bool", "object", "arrow", "zoned", "timedelta", "period", "complex", "bytes", "list")
NAMES = ("age", "site", "é", "2020", "a b", "x" * 60)


def frame_case(chance: random.Random) -> Case:
    """A data frame of pandas, or of Arrow, with labels; damaged in a third of the cases."""
    n = chance.choice((6, 12, 40))
    columns: Any = []
    for name in chance.sample(NAMES, chance.randrange(1, 5)):
        kind = chance.choice(USUAL if chance.random() < 0.93 else RARE)
        columns.append({"name": name, "kind": kind, "values": _values(chance, kind, n)})
    damaged = chance.random() < 0.33
    if damaged and chance.random() < 0.5:
        values = chance.choice(columns)["values"]
        values[chance.randrange(n)] = chance.choice(ODD)
    elif damaged:
        columns = damaged_tree(chance, columns)
    content = json.dumps(columns).encode(errors="replace")
    labels = [0, 1, *(chance.randrange(-1, 2) for _ in range(n))][:n]
    options = {"labels": labels, "arrow": chance.random() < 0.2, "later": chance.random() < 0.3}
    return Case("frame", {"frame.json": content}, options, 100 * len(content), damaged)


def _values(chance: random.Random, kind: str, n: int) -> list[Any]:
    makers: dict[str, Callable[[], Any]] = {
        "float64": lambda: chance.gauss(0, 10),
        "float32": lambda: chance.choice((chance.gauss(0, 1), 1e30, 0.0)),
        "Int64": lambda: chance.choice((chance.randrange(-99, 99), 2**53 + 1)),
        "boolean": lambda: chance.random() < 0.5,
        "bool": lambda: chance.random() < 0.5,
        "category": lambda: chance.choice(WORDS[:4]),
        "datetime": lambda: f"20{chance.randrange(10, 30)}-0{chance.randrange(1, 10)}-11",
        "zoned": lambda: f"20{chance.randrange(10, 30)}-03-11T0{chance.randrange(10)}:00:00",
        "timedelta": lambda: chance.randrange(10**6),
        "period": lambda: f"20{chance.randrange(10, 30)}-05",
        "complex": lambda: chance.gauss(0, 1),
        "list": lambda: [1, 2],
        "arrow": lambda: chance.choice(WORDS),
    }
    make = makers.get(kind, lambda: chance.choice(WORDS))
    if kind == "object" and chance.random() < 0.3:  # of several types
        make = lambda: chance.choice((1, "a", 2.5, True, None, "b"))  # noqa: E731
    if kind == "str" and chance.random() < 0.3:
        make = lambda: chance.choice(SENTENCES)  # noqa: E731
    empty = chance.choice((0.0, 0.0, 0.2)) if kind not in ("bool", "list") else 0.0
    return [None if chance.random() < empty else make() for _ in range(n)]

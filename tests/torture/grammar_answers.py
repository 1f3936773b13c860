"""Tables with the answers of teachers, as classes or as probabilities, mostly valid."""

import random
from typing import Any

from cases import Case
from damage import damaged_bytes
from grammar_tables import ODD_CELLS, written

CLASSES = (("no", "yes"), ("a", "b", "c"), ("0", "1"), ("São", "x y"), ("1.0", "2.0", "3.5"))
ODD_ANSWERS = (*ODD_CELLS, "1.5", "-0.2", "2", "1e300", "perhaps", "50%", "0,5")


def answers_case(chance: random.Random) -> Case:
    """A table with one or two teachers, with damage in a third of the cases."""
    classes = chance.choice(CLASSES)
    n = chance.choice((6, 12, 30))
    labels = [*classes, *classes, *(chance.choice((*classes, "", "")) for _ in range(n))][:n]
    columns: dict[str, list[str]] = {
        "x": [f"{chance.gauss(0, 1):.3f}" for _ in range(n)],
        "gold": labels,
    }
    names = ["llm", "p"][: chance.choice((1, 1, 2))]
    for name in names:
        columns |= _teacher(chance, name, classes, n)
    damaged = chance.random() < 0.35
    rows = [list(row) for row in zip(*columns.values(), strict=True)]
    head = list(columns)
    if damaged and chance.random() < 0.6:
        for _ in range(chance.choice((1, 1, 3))):
            row = chance.choice(rows)
            row[chance.randrange(1, len(row))] = chance.choice(ODD_ANSWERS)
    elif damaged and chance.random() < 0.5:
        head[chance.randrange(len(head))] = chance.choice(("llm(", "llm(é)", "p_", "gold", "llm_"))
    content = written(chance, [head, *rows], ",")
    if damaged and chance.random() < 0.2:
        content = damaged_bytes(chance, content)
    asked = [*names, "other"] if chance.random() < 0.03 else names
    options: dict[str, Any] = {"label": "gold", "teachers": asked, "later": chance.random() < 0.2}
    return Case("answers", {"data.csv": content}, options, 40 * len(content), damaged)


def _teacher(
    chance: random.Random, name: str, classes: tuple[str, ...], n: int
) -> dict[str, list[str]]:
    """A column of classes, or one of probabilities for each class."""
    silent = chance.choice((0.0, 0.0, 0.2))
    if chance.random() < 0.4:
        return {
            name: ["" if chance.random() < silent else chance.choice(classes) for _ in range(n)]
        }
    form = chance.choice(("{}({})", "{}_{}"))
    found: dict[str, list[str]] = {form.format(name, one): [] for one in classes}
    for _ in range(n):
        weights = [chance.random() + 0.01 for _ in classes]
        quiet = chance.random() < silent
        for column, weight in zip(found.values(), weights, strict=True):
            column.append("" if quiet else f"{weight / sum(weights):.9f}")
    return found

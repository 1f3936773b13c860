"""Embeddings that are mostly valid: npy files side by side, and their labels in a file."""

import csv
import io
import random
from typing import Any

import numpy as np
from cases import Case
from damage import damaged_bytes, damaged_files
from grammar_arrays import TEXTS, npy, with_odd_header

KINDS = (np.float32, np.float32, np.float16, np.float64, np.int8, np.int32, np.uint16, ">f4")
ODD_LABELS = ("", "NA", "-1", "?", "nan", "x" * 300, "=1", '"', "é", "1.5", " ")


def npy_case(chance: random.Random) -> Case:
    """One to three npy files and their labels, with damage in a third of the cases."""
    n = chance.randrange(4, 40)
    names = [f"{k}.npy" for k in range(chance.choice((1, 1, 2, 3)))]
    files = {name: npy(chance, _vectors(chance, n)) for name in names}
    options: dict[str, Any] = {"names": names, "later": chance.random() < 0.3}
    codes = [0, 1, *(chance.randrange(-1, 3) for _ in range(n))][:n]
    if chance.random() < 0.25:
        options["labels"] = "labels.npy"
        files["labels.npy"] = npy(chance, _label_array(chance, codes))
    else:
        options["labels"] = chance.choice(("labels.csv", "labels.csv", "labels.tsv"))
        content, column = _label_table(chance, codes, options["labels"])
        files[options["labels"]] = content
        options["label"] = column
    damaged = chance.random() < 0.35
    if damaged:
        kind = chance.random()
        if kind < 0.4:
            name = chance.choice(names)
            files[name] = with_odd_header(chance, files[name])
        elif kind < 0.7:
            files = damaged_files(chance, files)
        else:
            files[options["labels"]] = damaged_bytes(chance, files[options["labels"]])
    return Case("npy", files, options, 40 * sum(map(len, files.values())), damaged)


def large_npy_case(chance: random.Random) -> Case:
    """An array that stays on disk and its labels, with damage in a third of the cases."""
    made = npy_case(chance)
    options = {key: value for key, value in made.options.items() if key != "later"}
    return Case("large npy", made.files, options, made.decoded, made.damaged)


def _vectors(chance: random.Random, n: int) -> Any:
    made = np.random.default_rng(chance.randrange(2**32)).normal(size=(n, chance.randrange(1, 9)))
    odd = chance.random()
    if odd < 0.03:
        made[chance.randrange(n), 0] = chance.choice((np.nan, np.inf, 1e39))
    with np.errstate(invalid="ignore", over="ignore"):
        array = (10 * made).astype(chance.choice(KINDS))
    return array[:-1] if odd > 0.98 else array


def _label_array(chance: random.Random, codes: list[int]) -> Any:
    kind = chance.choice(("numbers", "texts", "floats", "column"))
    y = np.array(codes)
    if kind == "texts":
        return np.array(["" if code < 0 else TEXTS[code] for code in codes])
    if kind == "floats":
        return np.where(y < 0, np.nan, y.astype(float))
    return y[:, None] if kind == "column" else y


def _label_table(chance: random.Random, codes: list[int], name: str) -> tuple[bytes, str | None]:
    """The labels in a table: one for each row in order, or where the column ``row`` says."""
    words = chance.choice((("no", "yes", "maybe"), ("0", "1", "2"), ("cat", "dog", "São")))
    labels = ["" if code < 0 else words[code] for code in codes]
    if chance.random() < 0.05:
        labels[chance.randrange(len(labels))] = chance.choice(ODD_LABELS)
    rows = [[label] for label in labels]
    head = [chance.choice(("label", "animal", "é"))]
    column = None
    if chance.random() < 0.4:
        head = ["row", *head]
        rows = [[str(k), *row] for k, row in enumerate(rows) if row[0]]
        chance.shuffle(rows)
    if chance.random() < 0.3:
        column = head[-1]
        head = [*head, "note"]
        rows = [[*row, chance.choice(("", "a", "b c"))] for row in rows]
    buffer = io.StringIO()
    delimiter = "\t" if name.endswith("tsv") else ","
    csv.writer(buffer, delimiter=delimiter, lineterminator="\n").writerows([head, *rows])
    return buffer.getvalue().encode(), column

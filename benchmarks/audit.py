"""Size and power of the tests in dessl.safety, without a shift and with six kinds of shift.

Two worlds, each with about 100 labelled and 500 unlabelled rows:

table    three classes, five columns of which two tell the classes apart and one is skewed
digits   600 of scikit-learn's 8 × 8 digits, ten classes

none          labels missing completely at random
class         a class is labelled up to four times as often as another
feature       the chance of a label depends on a column (on the brightness)
covariate     unlabelled rows come from a shifted source
duplicates    half of the labelled rows are near copies of the other half
hard          hard rows, near the border of two classes, are rarely labelled
easy          easy rows, far from any border, are rarely labelled

A test rejects at p ≤ 0.05. Without a shift it should do so in 5 % of the data sets.

    PYTHONPATH=src python benchmarks/audit.py --out benchmarks/results

Results are written after each 25 data sets, and those that are there are not made again.
"""

import argparse
import json
import math
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dessl.data import SemiData
from dessl.safety.answers import fold_answers
from dessl.safety.class_test import class_test
from dessl.safety.columns import columns_of
from dessl.safety.two_samples import classifier_test, column_tests, output_tests
from machine import machine

ROWS, LABELS, BLOCK, LEVEL = 600, 100, 25, 0.05
KINDS = ("none", "class", "feature", "covariate", "duplicates", "hard", "easy")
TESTS = ("classifier", "columns", "outputs", "class by likelihood")


class Rows(NamedTuple):
    """All rows, their classes, a column that labelling may depend on, and each row's margin."""

    x: NDArray[np.float64]
    y: NDArray[np.int64]
    column: NDArray[np.float64]
    margin: NDArray[np.float64]


def table_rows(generator: np.random.Generator) -> Rows:
    """Three classes in five columns; the margin is that of the true probabilities."""
    y = generator.integers(0, 3, ROWS)
    centres = np.array([[0.0, 0.0], [1.5, 1.5], [3.0, 0.0]])
    x = generator.normal(size=(ROWS, 5))
    x[:, :2] += centres[y]
    x[:, 4] = np.exp(x[:, 4])
    scores = -((x[:, None, :2] - centres) ** 2).sum(2) / 2
    p = np.exp(scores - np.logaddexp.reduce(scores, axis=1)[:, None])
    return Rows(x, y, x[:, 2], p.max(1))


def digits_rows(generator: np.random.Generator) -> Rows:
    """600 digits; the margin is that of logistic regression on all 1,797, labels and all."""
    from sklearn.datasets import load_digits
    from sklearn.linear_model import LogisticRegression

    x, y = load_digits(return_X_y=True)
    if not hasattr(digits_rows, "p"):
        model = LogisticRegression(C=0.001, max_iter=1000).fit(x, y)
        digits_rows.p = model.predict_proba(x).max(1)
    rows = generator.permutation(len(y))[:ROWS]
    x, y, p = x[rows], y[rows].astype(np.int64), digits_rows.p[rows]
    bright = x.mean(1)
    return Rows(x, y, (bright - bright.mean()) / bright.std(), p)


WORLDS = {"table": table_rows, "digits": digits_rows}


def chances(kind: str, rows: Rows) -> NDArray[np.float64]:
    """The probability that each row is labelled, up to a factor."""
    if kind == "class":
        return 4.0 ** (rows.y / rows.y.max())
    if kind == "feature":
        return 1 / (1 + np.exp(-1.5 * rows.column))
    ranks = rows.margin.argsort().argsort() / len(rows.y)
    if kind == "hard":
        return 0.15 + ranks**2
    if kind == "easy":
        return 0.15 + (1 - ranks) ** 2
    return np.ones(len(rows.y))


def shifted(world: str, kind: str, seed: int) -> tuple[SemiData, NDArray[np.bool_]]:
    """One data set, labelled rows first."""
    # No zeros: [seed, 0, 0] would be the same stream that the tests use with this seed.
    generator = np.random.default_rng([seed, 1 + KINDS.index(kind), 1 + list(WORLDS).index(world)])
    rows = WORLDS[world](generator)
    chance = chances(kind, rows)
    chosen = generator.choice(ROWS, LABELS, replace=False, p=chance / chance.sum())
    order = np.concatenate([chosen, np.setdiff1d(np.arange(ROWS), chosen)])
    x, y = rows.x[order].copy(), rows.y[order].copy()
    spread = x.std(0)
    if kind == "covariate":
        x[LABELS:] += 0.25 * spread * (np.arange(x.shape[1]) != 4)
    if kind == "duplicates":
        half = LABELS // 2
        x[half:LABELS] = x[:half] + 0.02 * spread * generator.normal(size=(half, x.shape[1]))
        y[half:LABELS] = y[:half]
    y[LABELS:] = -1
    features: Tensor = torch.from_numpy(x).float()
    if world == "digits":
        features = (features * 16).clamp(0, 255).to(torch.uint8).view(-1, 1, 8, 8)
    names = [str(k) for k in range(int(rows.y.max()) + 1)]
    return SemiData(features, y, class_names=names), np.arange(ROWS) < LABELS


def p_values(data: SemiData, labelled: NDArray[np.bool_], seed: int) -> list[float | None]:
    """One p-value for each of TESTS; None if a test was not possible."""
    columns = columns_of(data, torch.arange(len(data)))
    y = data.y[:LABELS]
    answers = fold_answers(columns.values, y, labelled, data.n_classes, seed=seed)
    shifts = column_tests(columns.values.numpy(), labelled, columns.names, seed=seed)
    outputs = output_tests(answers.log_p, labelled, answers.folds, data.class_names, seed=seed)
    by_class = class_test(answers.log_p, y, labelled)
    return [
        classifier_test(columns.values, labelled, seed=seed).p_value,
        min(shift.p_value for shift in shifts),
        min(shift.p_value for shift in outputs),
        by_class.p_value if by_class else None,
    ]


def interval(hits: int, n: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share."""
    z, share = 1.96, hits / n
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return middle - half, middle + half


def table(found: dict[str, dict[str, list[list[float | None]]]]) -> str:
    """How often each test rejects, % of the data sets, with Wilson's interval."""
    lines = [f"| world | shift | data sets | {' | '.join(TESTS)} |", "|---" * 7 + "|"]
    for world, kinds in found.items():
        for kind in KINDS:
            made = kinds.get(kind, [])
            if not made:
                continue
            cells = []
            for number in range(len(TESTS)):
                p = [row[number] for row in made if row[number] is not None]
                hits = sum(value <= LEVEL for value in p)
                low, high = (100 * end for end in interval(hits, len(p)))
                cells.append(f"{100 * hits / len(p):.1f} ({low:.1f} to {high:.1f})")
            lines.append(f"| {world} | {kind} | {len(made)} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def summary(found: dict[str, dict[str, list[list[float | None]]]]) -> list[dict[str, Any]]:
    """The same as records."""
    return [
        {
            "world": world,
            "shift": kind,
            "test": test,
            "data_sets": len(p),
            "rejected_percent": 100 * sum(value <= LEVEL for value in p) / len(p),
        }
        for world, kinds in found.items()
        for kind, made in kinds.items()
        for number, test in enumerate(TESTS)
        if (p := [row[number] for row in made if row[number] is not None])
    ]


def one_data_set(world: str, kind: str, seed: int) -> list[float | None]:
    """The p-values of one data set; a function of a process's own."""
    torch.set_num_threads(1)
    data, labelled = shifted(world, kind, seed)
    return [None if p is None else round(p, 5) for p in p_values(data, labelled, seed)]


def blocks(
    found: dict[str, dict[str, list[list[float | None]]]], sims: int, shifts: int
) -> Iterator[tuple[str, str, range]]:
    """World, kind and seeds of the missing data sets, 25 at a time."""
    for kind in KINDS:
        for world in WORLDS:
            made = len(found.setdefault(world, {}).setdefault(kind, []))
            wanted = sims if kind == "none" else shifts
            for first in range(made, wanted, BLOCK):
                yield world, kind, range(first, min(wanted, first + BLOCK))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run, and write ``audit.json`` and ``audit.md`` as it goes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--sims", type=int, default=500, help="data sets without a shift")
    parser.add_argument("--shifted", type=int, default=100, help="data sets of each shift")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--minutes", type=float, default=math.inf, help="when to stop")
    options = parser.parse_args(arguments)
    path = options.out / "audit.json"
    found = json.loads(path.read_text())["p_values"] if path.exists() else {}
    began = time.monotonic()
    with ProcessPoolExecutor(options.jobs) as pool:
        for world, kind, seeds in list(blocks(found, options.sims, options.shifted)):
            if time.monotonic() - began > 60 * options.minutes:
                break
            found[world][kind] += pool.map(one_data_set, repeat(world), repeat(kind), seeds)
            content = {"machine": machine(), "summary": summary(found), "p_values": found}
            path.write_text(json.dumps(content) + "\n")
            (options.out / "audit.md").write_text(table(found))
    print(table(found))


if __name__ == "__main__":
    main()

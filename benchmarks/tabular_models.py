"""TabPFN and XGBoost as members of the default pool, and each of them alone.

The tables are the first seven of CONFIRM and all of KEPT_BACK (gains_sets.py) with at most 100
columns and 10 classes, which TabPFN 0.1 accepts; they were fixed before any result was seen, and no
setting was changed after one. Draws of labels are those of gains.py; at most 1,000 of their test
rows are used, because TabPFN takes milliseconds a row on a processor. TabPFN was trained on made-up
tables only.

    PYTHONPATH=src python benchmarks/tabular_models.py --cells CELLS --minutes 30
    PYTHONPATH=src python benchmarks/tabular_models.py --cells CELLS --minutes 0 --out benchmarks/results
    PYTHONPATH=src python benchmarks/tabular_models.py --smoke

One JSON for each cell (table, labels, draw); a cell that is there is not measured again. Needs the
tables of gains.py --prepare; tabpfn and xgboost take part where they are installed.
"""  # noqa: E501

import argparse
import json
import math
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dessl._files import write_whole
from dessl.recipes import fit, recipe_for
from dessl.recipes.predictor import predicted_log_proba
from dessl.teachers import DEFAULT, FromClassifier
from gains import PREPARED, missing, scored, write
from gains_methods import Answer, Task, classifier
from gains_report import Cell, difference, read_cells
from gains_sets import draw, load
from machine import machine

SETS = (
    "german", "phoneme", "satimage", "segment", "optdigits", "penbased", "spambase",
    "ionosphere", "sonar", "saheart", "titanic", "tic-tac-toe", "australian", "marketing",
)  # fmt: skip
LABELS, DRAWS, MOST_TEST = (100, 30, 300), 5, 1000
POOL = "pool"
Found = dict[int, dict[str, list[Cell]]]  # by labels and table


def _tabpfn(task: Task) -> Any:
    from tabpfn import TabPFNClassifier

    return TabPFNClassifier(device="cpu", N_ensemble_configurations=4, seed=task.seed)


def _xgboost(task: Task) -> Any:
    from xgboost import XGBClassifier

    return XGBClassifier(
        n_estimators=100, learning_rate=0.05, max_depth=4, random_state=task.seed, n_jobs=1
    )


MODELS: dict[str, Callable[[Task], Any]] = {"TabPFN": _tabpfn, "XGBoost": _xgboost}


def installed() -> dict[str, Callable[[Task], Any]]:
    """The models whose package is there."""
    return {name: make for name, make in MODELS.items() if find_spec(name.lower())}


def pool_of(task: Task, own: Sequence[FromClassifier] = ()) -> Answer:
    """The default with more members; seconds of fitting and of predicting the test rows."""
    began, data = time.perf_counter(), task.semi_data()
    recipe = recipe_for(data, seed=task.seed, teachers=[*DEFAULT, *own])
    fitted = fit(data, recipe, progress=False)
    p = predicted_log_proba(fitted.model, torch.from_numpy(task.x_test)).exp().numpy()
    seconds = time.perf_counter() - began
    weights = {one.name: one.weight for one in fitted.pool.members} if fitted.pool else {}
    return Answer(p, seconds, {"weights": weights})


def measured(name: str, n_labelled: int, seed: int) -> dict[str, Any] | None:
    """Every method on one draw; None where the table is too small for it."""
    torch.set_num_threads(1)
    drawn = draw(load(name, PREPARED), n_labelled, seed)
    if drawn is None:
        return None
    task, y = drawn[0]._replace(x_test=drawn[0].x_test[:MOST_TEST]), drawn[1][:MOST_TEST]
    models = installed()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = {POOL: scored(pool_of(task), y)}
        for model, make in models.items():
            own = [FromClassifier(make(task), name=model)]
            found[f"{POOL} + {model}"] = scored(pool_of(task, own), y)
            found[model] = scored(classifier(make, unlabelled=False)(task), y)
    rows = {"labelled": n_labelled, "unlabelled": len(task.x_unlabelled), "test": len(y)}
    sizes = {"columns": task.x.shape[1], "classes": task.n_classes}
    return {"set": name, "seed": seed, **rows, **sizes, "methods": found}


def pairs(cells: Sequence[Cell]) -> list[tuple[str, str]]:
    """What is compared: each model in the pool, each alone, and what the pool adds to it."""
    models = [model for model in methods(cells) if model in MODELS]
    alone = [(model, POOL) for model in models]
    return in_pool(cells) + alone + [(f"{POOL} + {model}", model) for model in models]


def in_pool(cells: Sequence[Cell]) -> list[tuple[str, str]]:
    """Each pool with a model, and the pool."""
    return [(f"{POOL} + {model}", POOL) for model in methods(cells) if model in MODELS]


def grouped(cells: Sequence[Cell]) -> Found:
    """Cells by labels and table."""
    found: Found = {}
    for cell in sorted(cells, key=lambda one: (one["labelled"], one["set"], one["seed"])):
        found.setdefault(cell["labelled"], {}).setdefault(cell["set"], []).append(cell)
    return found


def values(cells: Sequence[Cell], method: str, metric: str) -> Any:
    """One value for each draw."""
    return np.array([cell["methods"][method][metric] for cell in cells])


def comparison(tables: Mapping[str, Sequence[Cell]], one: str, other: str) -> list[object]:
    """Mean difference over tables with its interval, and how many tables tell."""
    gaps = {
        metric: [values(c, one, metric) - values(c, other, metric) for c in tables.values()]
        for metric in ("log_loss", "accuracy")
    }
    loss, hits = (difference(np.array([g.mean() for g in each])) for each in gaps.values())
    each = [difference(gap) for gap in gaps["log_loss"]]
    better, worse = sum(d.mean < -d.half for d in each), sum(d.surely_worse for d in each)
    lower, points = sum(d.mean < 0 for d in each), f"{100 * hits.mean:+.1f} ± {100 * hits.half:.1f}"
    return [loss, points, lower, better, worse]


def page(cells: Sequence[Cell], note: str = "") -> str:
    """Differences over all tables, means and seconds, weights, and each table."""
    found, names = grouped(cells), methods(cells)
    gaps = [f"{one} − {other}" for one, other in in_pool(cells)]
    lines = [
        "# TabPFN and XGBoost in the pool", "",
        "Measured by benchmarks/tabular_models.py on one thread. Differences are paired over draws "
        "of labels and test rows; lower log loss and higher accuracy are better. Intervals "
        "over all tables are 95 % t-intervals over the tables' means; a table counts as better or "
        "worse in log loss if the 95 % t-interval over its own draws excludes 0; one draw has no "
        f"interval. {note}", "",
        *section("Differences", "labels, tables, compared, log loss, accuracy in points, "
                 "tables with a lower mean, tables better, tables worse",
                 differences(found, pairs(cells))),
        *section("Means and cost", "labels, method, log loss, accuracy in %, seconds",
                 means(found, names)),
        *section("Weights of the new member", "labels, member, share of all weights in %, "
                 "pools with a weight, pools", weights(found)),
        *section("Table by table, log loss", ", ".join(["labels, table, draws", *names, *gaps]),
                 each_table(found, names, in_pool(cells))),
    ]  # fmt: skip
    return "\n".join(lines)


def section(title: str, heads: str, rows: Iterable[Sequence[object]]) -> list[str]:
    """A heading and a table, and an empty line."""
    titles = heads.split(", ")
    every = [titles, ["---:" for _ in titles], *rows]
    return [f"## {title}", "", *(f"| {' | '.join(map(str, row))} |" for row in every), ""]


def differences(found: Found, compared: Sequence[tuple[str, str]]) -> Iterator[Sequence[object]]:
    """One row for each number of labels and pair."""
    for n, tables in found.items():
        for one, other in compared:
            yield n, len(tables), f"{one} − {other}", *comparison(tables, one, other)


def means(found: Found, names: Sequence[str]) -> Iterator[Sequence[object]]:
    """One row for each number of labels and method: means of the tables' means."""
    for n, tables in found.items():
        for method in names:
            loss, hits, seconds = (
                np.mean([values(some, method, metric).mean() for some in tables.values()])
                for metric in ("log_loss", "accuracy", "seconds")
            )
            yield n, method, f"{loss:.3f}", f"{100 * hits:.1f}", f"{seconds:.2f}"


def weights(found: Found) -> Iterator[Sequence[object]]:
    """One row for each number of labels and model, with its mean share in percent."""
    for n, tables in found.items():
        cells = [cell for some in tables.values() for cell in some]
        for model in MODELS:
            each = [cell["methods"].get(f"{POOL} + {model}", {}).get("weights") for cell in cells]
            shares = [one.get(model, 0.0) / sum(one.values()) for one in each if one]
            if shares:
                held = sum(share > 0 for share in shares)
                yield n, model, f"{100 * np.mean(shares):.0f}", held, len(shares)


def each_table(
    found: Found, names: Sequence[str], compared: Sequence[tuple[str, str]]
) -> Iterator[Sequence[object]]:
    """One row for each number of labels and table."""
    for n, tables in found.items():
        for name, some in tables.items():
            losses = {method: values(some, method, "log_loss") for method in names}
            gaps = [difference(losses[one] - losses[other]) for one, other in compared]
            yield n, name, len(some), *(f"{one.mean():.3f}" for one in losses.values()), *gaps


def methods(cells: Sequence[Cell]) -> list[str]:
    """All that every cell has."""
    return [m for m in cells[0]["methods"] if all(m in cell["methods"] for cell in cells)]


def record(cells: Sequence[Cell]) -> str:
    """The cells with their numbers to five digits, and the machine and versions."""
    packages = {name.lower(): version(name.lower()) for name in installed()}
    text = json.dumps({"machine": machine(**packages), "cells": cells})
    short = json.loads(text, parse_float=lambda number: round(float(number), 5))
    lines = ",\n".join(json.dumps(cell) for cell in short["cells"])
    return f'{{"machine": {json.dumps(short["machine"])},\n"cells": [\n{lines}\n]}}\n'


def main(argv: Sequence[str] | None = None) -> None:
    """Measure what is not there yet, then write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    parser.add_argument("--labels", nargs="+", type=int, default=list(LABELS))
    parser.add_argument("--draws", type=int, default=DRAWS)
    parser.add_argument("--cells", type=Path, help="folder of the JSON files")
    parser.add_argument("--minutes", type=float, default=math.inf, help="when to stop")
    parser.add_argument("--out", type=Path, help="folder of tabular_models.json and .md")
    parser.add_argument("--note", default="", help="what a reader of the page must know")
    parser.add_argument("--smoke", action="store_true", help="two draws of a small table")
    options = parser.parse_args(argv)
    if options.smoke:
        options.sets, options.labels, options.draws = ["wine"], [30], 2
    with tempfile.TemporaryDirectory() as folder:
        place = options.cells or Path(folder)
        place.mkdir(parents=True, exist_ok=True)
        began = time.monotonic()
        for path, *cell in missing(options.sets, options.labels, options.draws, place):
            if time.monotonic() - began > 60 * options.minutes:
                break
            write(path, measured(*cell))
            print(path.stem, flush=True)
        cells = read_cells(place)
    text = page(cells, options.note)
    print(text)
    if options.out:
        write_whole(options.out / "tabular_models.md", text)
        write_whole(options.out / "tabular_models.json", record(cells))


if __name__ == "__main__":
    main()

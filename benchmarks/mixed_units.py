"""Tables whose columns have different units: the default on raw and on standardised columns.

Columns in one unit share a scale, because that is better for pixels. Here most columns are
percentages that say little, and the others, fractions or 0/1 marks, decide the class: they must not
be taken for percentages. 1,500 rows without labels, 1,000 test rows; log loss and accuracy of the
default, its complete case and logistic regression on standardised columns.

    PYTHONPATH=src python benchmarks/mixed_units.py --out benchmarks/results/mixed_units.json
"""

import argparse
import json
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from dessl.data import SemiData
from dessl.evaluation import mean_interval
from dessl.evaluation.metrics import accuracy, cross_entropy
from dessl.recipes import fit, recipe_for
from dessl.recipes.trial import predicted_log_proba
from machine import machine

Array = NDArray[np.float64]
TRAINED, TESTED = 1_500, 1_000
LABELS, DRAWS = (50, 300), 10


def fractions(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
    """Six percentages without a meaning, four fractions of which three decide the class."""
    z = rng.uniform(0, 1, (n, 4))
    return np.c_[rng.uniform(0, 100, (n, 6)), z], 12 * (z[:, 0] + z[:, 1] - z[:, 2] - 0.5)


def marks(rng: np.random.Generator, n: int) -> tuple[Array, Array]:
    """Five percentages of which one matters a little, and four 0/1 marks that decide the class."""
    percentages, found = rng.uniform(0, 100, (n, 5)), (rng.random((n, 4)) < 0.4).astype(float)
    odds = found @ [3, 2.5, -3, 0] + 0.02 * (percentages[:, 0] - 50) - 1
    return np.c_[percentages, found], odds


TABLES = {"fractions": fractions, "marks": marks}


def measured(table: str, n_labelled: int, seed: int) -> dict[str, Any]:
    """Log loss and accuracy of each method on one draw."""
    rng = np.random.default_rng(seed)
    x, odds = TABLES[table](rng, TRAINED + TESTED)
    y = (odds + rng.logistic(size=len(x)) > 0).astype(np.int64)
    seen, test = x[:TRAINED], y[TRAINED:]
    scaled = (x - seen.mean(0)) / seen.std(0)
    labels = np.where(np.arange(TRAINED) < n_labelled, y[:TRAINED], -1)
    probabilities = {}
    for columns, rows in (("raw", x), ("standardised", scaled)):
        data = SemiData(rows[:TRAINED], labels)
        fitted = fit(data, recipe_for(data, seed=seed), progress=False)
        new = torch.from_numpy(rows[TRAINED:]).float()
        models = {"default": fitted.model, "complete case": fitted.complete_case}
        for name, model in models.items():
            probabilities[f"{name}, {columns}"] = predicted_log_proba(model, new).exp().numpy()
    peer = LogisticRegression().fit(scaled[:n_labelled], y[:n_labelled])
    probabilities["logistic"] = peer.predict_proba(scaled[TRAINED:])
    return {
        name: {"log loss": cross_entropy(p, test), "accuracy": accuracy(p, test)}
        for name, p in probabilities.items()
    }


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--labels", type=int, nargs="+", default=list(LABELS))
    parser.add_argument("--draws", type=int, default=DRAWS)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(argv)
    torch.set_num_threads(1)
    found: dict[str, Any] = {"machine": machine(), "draws": options.draws, "tables": {}}
    for table in TABLES:
        for n_labelled in options.labels:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                draws = [measured(table, n_labelled, seed) for seed in range(options.draws)]
            its = found["tables"].setdefault(table, {}).setdefault(f"{n_labelled} labels", {})
            for name in draws[0]:
                for metric in ("log loss", "accuracy"):
                    mean = mean_interval([draw[name][metric] for draw in draws])
                    its.setdefault(name, {})[metric] = [
                        round(mean.mean, 4),
                        round(mean.half_width, 4),
                    ]
                print(f"{table}, {n_labelled} labels, {name}: {its[name]}", flush=True)
    if options.out:
        options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

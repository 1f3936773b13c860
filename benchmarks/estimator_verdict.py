"""Does the verdict of ``DeSSLClassifier`` hold? Its interval against the truth on many new rows.

The estimator has no test rows. Its verdict compares predictions of labels held out in training, by
pools and networks that did not see them. Here the model that it returns is compared with its
complete case on 10,000 new rows, in many draws of 600 rows from one population for each setting.

    PYTHONPATH=src python benchmarks/estimator_verdict.py --out results/estimator_verdict.json

Draws that are in the file are not repeated.
"""

import argparse
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from sklearn.datasets import make_classification

from dessl._files import write_whole
from dessl.data import SemiData
from dessl.evaluation.metrics import brier
from dessl.recipes import fit, recipe_for
from dessl.recipes.predictor import PooledPredictor
from machine import machine

ROWS, POOL, NEW = 600, 2_000, 10_000
MARGIN = 0.01


class Setting(NamedTuple):
    """A population, a number of labels and of networks."""

    separation: float
    classes: int
    labels: int
    networks: int


SETTINGS = {
    "easy": Setting(2.0, 2, 60, 5),
    "hard": Setting(0.7, 2, 60, 5),
    "three classes": Setting(1.0, 3, 150, 5),
    "one network": Setting(2.0, 2, 60, 1),
}


def draw(setting: Setting, seed: int) -> dict[str, Any] | None:
    """One fit: the interval of the verdict and the true difference; None without a pool."""
    x, y = make_classification(
        POOL + NEW, 10, n_informative=5, class_sep=setting.separation,
        n_classes=setting.classes, random_state=1,
    )  # fmt: skip
    rows, classes = torch.from_numpy(x).float(), torch.from_numpy(y).long()
    chosen = torch.randperm(POOL, generator=torch.Generator().manual_seed(seed))[:ROWS]
    labels = torch.full((ROWS,), -1)
    labels[: setting.labels] = classes[chosen[: setting.labels]]
    data = SemiData(rows[chosen], labels)
    found = fit(data, recipe_for(data, seed=seed, networks=setting.networks), progress=False)
    if not isinstance(found.model, PooledPredictor) or found.model.pool.compared is None:
        return None
    compared = found.model.pool.compared
    scores = [
        brier(model(rows[POOL:]).detach().exp(), classes[POOL:])
        for model in (found.model, found.complete_case)
    ]
    return {
        "seed": seed, "low": compared.low, "high": compared.high,
        "difference": compared.difference, "truth": scores[0] - scores[1],
        "outcome": compared.outcome(),
    }  # fmt: skip


def summary(draws: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """How often the interval holds, on which side it misses, and which outcomes were wrong."""
    n = len(draws)
    above = sum(one["truth"] > one["high"] for one in draws)
    below = sum(one["truth"] < one["low"] for one in draws)
    wrong = {
        "better": sum(one["outcome"] == "better" and one["truth"] >= 0 for one in draws),
        "worse": sum(one["outcome"] == "worse" and one["truth"] <= 0 for one in draws),
        "no practical difference": sum(
            one["outcome"] == "no practical difference" and abs(one["truth"]) > MARGIN
            for one in draws
        ),
    }
    return {
        "draws": n,
        "covered_percent": 100 * (n - above - below) / n,
        "truth_above_percent": 100 * above / n,
        "truth_below_percent": 100 * below / n,
        "mean_difference": sum(one["difference"] for one in draws) / n,
        "mean_truth": sum(one["truth"] for one in draws) / n,
        "outcomes": dict(Counter(one["outcome"] for one in draws)),
        "wrong": wrong,
    }


def main() -> None:
    """Draw what is missing and write after every draw."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--draws", type=int, default=100)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--settings", nargs="+", default=list(SETTINGS), choices=list(SETTINGS))
    options = parser.parse_args()
    torch.set_num_threads(1)
    done = json.loads(options.out.read_text())["draws"] if options.out.exists() else {}
    for name in options.settings:
        own: dict[str, Any] = done.setdefault(name, {})
        for seed in range(options.draws):
            if str(seed) in own:
                continue
            own[str(seed)] = draw(SETTINGS[name], seed)
            each = {key: [one for one in found.values() if one] for key, found in done.items()}
            report = {
                "machine": machine(),
                "summary": {key: summary(found) for key, found in each.items() if found},
                "draws": done,
            }
            write_whole(options.out, json.dumps(report, indent=1) + "\n")
        print(name, json.dumps(report["summary"][name]), flush=True)


if __name__ == "__main__":
    main()

"""The claims of docs/verdicts.md: suggested numbers of labels, checked baselines, refits.

    PYTHONPATH=src python benchmarks/verdicts.py decide                 # seconds
    PYTHONPATH=src python benchmarks/verdicts.py refit                  # two minutes of a core
    PYTHONPATH=src python benchmarks/verdicts.py baseline --data DIR    # with pneumoniamnist.npz

Each part is written to benchmarks/results/verdicts.json as it goes, with the machine.

decide: simulated differences of known mean and deviation; how often the number of labels that a
verdict suggests, and half as many, settle the question.
refit: the default recipe with two networks on scikit-learn's tables, 60 labels; the evaluated model
and the refitted one on new rows.
baseline: 150 labels among 1,500 X-rays, one network of 120 steps; balanced accuracy on the
    publisher's test images, with the check of the complete case and without.
"""

import argparse
import json
import math
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import stats
from sklearn import datasets

from dessl import SemiData
from dessl.evaluation.verdict import OVER_ROWS, Comparison
from dessl.recipes import recipe_for
from dessl.recipes.predictor import AnyPredictor, predicted_log_proba
from dessl.recipes.split import every_label, split
from dessl.recipes.trial import refitted, run_trial
from dessl.results.machine import machine_facts

RESULTS = Path(__file__).parent / "results" / "verdicts.json"
CASES = ((-0.02, 0.2), (0.0, 0.08), (0.03, 0.15))  # mean and deviation of a row's difference
EXPERIMENTS = 10_000
DRAWS = 6


def kept(part: str, entries: Any) -> None:
    """Write one part beside the others."""
    found = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    found[part] = entries
    found["made_with"] = machine_facts()
    RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def decide(_: argparse.Namespace) -> None:
    """How often the labels asked for decide."""
    random, cases = np.random.default_rng(0), []
    for mean, deviation in CASES:
        n = 40
        half = stats.t.ppf(0.975, n - 1) * deviation / math.sqrt(n)
        one = Comparison("brier", "a", "b", mean, mean - half, mean + half, 1.0, 0.95, OVER_ROWS, n)
        more = one.needed() or 0
        shares = {}
        for name, total in (("asked for", n + more), ("half as many", n + more // 2)):
            middles = random.normal(mean, deviation / math.sqrt(total), EXPERIMENTS)
            spread = np.sqrt(random.chisquare(total - 1, EXPERIMENTS) / (total - 1))
            halves = stats.t.ppf(0.975, total - 1) * deviation * spread / math.sqrt(total)
            open_ = (abs(middles) <= halves) & (abs(middles) + halves > 0.01)
            shares[name] = float(1 - open_.mean())
        cases.append({"mean": mean, "deviation": deviation, "labels": n, "more": more, **shares})
    kept("decide", {"experiments": EXPERIMENTS, "cases": cases})


def refit(_: argparse.Namespace) -> None:
    """The judged model and the refitted one on fresh rows."""
    tables = {"breast cancer": datasets.load_breast_cancer, "digits": datasets.load_digits}
    for name, load in tables.items():
        x, y = (torch.from_numpy(part) for part in load(return_X_y=True))
        runs = [_refit_run(x.float(), y.long(), draw) for draw in range(DRAWS)]
        kept(f"refit, {name}", {"runs": runs, **_paired(runs)})


def _refit_run(x: torch.Tensor, y: torch.Tensor, draw: int) -> dict[str, Any]:
    order = torch.from_numpy(np.random.default_rng(draw).permutation(len(y)))
    n = len(y) * 2 // 3
    few = torch.full((n,), -1)
    few[:60] = y[order[:60]]
    data = SemiData(x[order[:n]], few)
    train, test, _ = split(data, seed=draw)
    started = time.process_time()
    trial = run_trial(train, test, recipe_for(train, seed=draw, networks=2), progress=False)
    between = time.process_time()
    whole = every_label(data, seed=draw)
    again = refitted(trial, whole, recipe_for(whole, seed=draw, networks=2), progress=False)
    ended = time.process_time()
    if again is None:
        raise RuntimeError(f"the refit of draw {draw} did not train.")
    fresh = x[order[n:]], y[order[n:]]
    return {
        "draw": draw,
        "labels": [train.n_labelled, whole.n_labelled],
        "before": _losses(trial.fitted.model, *fresh),
        "after": _losses(again.model, *fresh),
        "seconds": [round(between - started, 2), round(ended - between, 2)],
    }


def _losses(model: AnyPredictor, x: torch.Tensor, y: torch.Tensor) -> dict[str, float]:
    log_p = predicted_log_proba(model, x)
    right = (log_p.argmax(1) == y).double()
    shares = [float(right[y == label].mean()) for label in y.unique()]
    return {
        "accuracy": float(right.mean()),
        "balanced_accuracy": statistics.mean(shares),
        "cross_entropy": float(-log_p.gather(1, y[:, None]).mean()),
    }


def _paired(runs: list[dict[str, Any]]) -> dict[str, float]:
    """The mean change of the cross-entropy over draws, with its 95 % t-interval."""
    change = [run["after"]["cross_entropy"] - run["before"]["cross_entropy"] for run in runs]
    mean, error = statistics.mean(change), statistics.stdev(change) / math.sqrt(len(change))
    half = float(stats.t.ppf(0.975, len(change) - 1)) * error
    return {"change": mean, "low": mean - half, "high": mean + half}


def baseline(arguments: argparse.Namespace) -> None:
    """The complete case of the X-rays, checked and as it was."""
    arrays = np.load(arguments.data / "pneumoniamnist.npz")
    x, y = (torch.from_numpy(arrays[f"train_{part}"]) for part in ("images", "labels"))
    fresh = (
        torch.from_numpy(arrays["test_images"])[:, None],
        torch.from_numpy(arrays["test_labels"]).flatten().long(),
    )
    runs = []
    for draw in range(*arguments.draws):
        order = torch.from_numpy(np.random.default_rng(draw).permutation(len(y)))[:1500]
        few = torch.full((1500,), -1)
        few[:150] = y.flatten().long()[order[:150]]
        train, test, _ = split(SemiData(x[order][:, None], few), seed=0)
        trial = run_trial(train, test, recipe_for(train, lam=0, steps=120, networks=1))
        found, (result,) = trial.fitted.baseline, trial.fitted.results
        runs.append(
            {
                "draw": draw,
                "failures": list(found.failures if found else ()),
                "trained": bool(found and found.trained),
                "steps": result.steps,
                "selected": result.step,
                **_losses(trial.fitted.complete_case, *fresh),
            }
        )
        kept("baseline", runs)


PARTS: dict[str, Callable[[argparse.Namespace], None]] = {
    "decide": decide,
    "refit": refit,
    "baseline": baseline,
}


def main() -> None:
    """Run one part."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--data", type=Path, default=Path())
    parser.add_argument("--draws", type=int, nargs=2, default=(0, 20))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    PARTS[arguments.part](arguments)


if __name__ == "__main__":
    main()

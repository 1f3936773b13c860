"""Labels that are not missing at random: what weighting them by 1/π costs and brings.

Four models of three data sets, about 100 labels, drawn with a probability that depends on x (a
logistic function of the first principal component) or on the class (three times as likely for half
of the classes), five draws:

complete case        the networks, labels not weighted
pool                 the default without propensities
weighted networks    propensities, no pool (debiased pseudo-labels; the default until this change)
weighted pool        the default with propensities: networks, teachers and pool weight labels

Propensities are the true ones. Log loss and accuracy are those of rows drawn at random. Writes one
JSON file per run in --runs; a run that already has its file is skipped.

    PYTHONPATH=src python benchmarks/weighted_pool.py --runs RUNS --out benchmarks/results/weighted_pool.json
    PYTHONPATH=src python benchmarks/weighted_pool.py --smoke
"""  # noqa: E501

import argparse
import json
import tempfile
import warnings
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dessl import DeSSLClassifier
from dessl._files import write_whole
from dessl.evaluation import mean_interval
from machine import machine

SETS, DESIGNS, DRAWS, LABELS = ("digits", "breast_cancer", "moons"), ("x", "class"), 5, 100
FEWEST = 0.01  # least propensity
STEEPNESS, TIMES = 1.2, 3.0
BEFORE = {"surrogate": "pseudo_label", "teachers": None}
MODELS: dict[str, tuple[dict[str, Any], bool]] = {
    "complete case": ({"lam": 0.0, "teachers": None}, False),
    "pool": ({}, False),
    "weighted networks": (BEFORE, True),
    "weighted pool": ({}, True),
}
PAIRS = (
    ("weighted pool", "weighted networks"),
    ("weighted pool", "pool"),
    ("pool", "complete case"),
)
Array = NDArray[Any]


def rows_of(name: str) -> tuple[Array, Array]:
    """All rows and classes of a set."""
    from sklearn import datasets

    if name == "moons":
        x, y = datasets.make_moons(2000, noise=0.25, random_state=0)
    else:
        x, y = getattr(datasets, f"load_{name}")(return_X_y=True)
    return x, y


def chances(design: str, x: Array, y: Array, labels: int) -> Array:
    """Each row's probability of being labelled, about ``labels`` in all."""
    if design == "class":
        odds = np.where(y % 2 == 0, TIMES, 1.0)
    else:
        z = (x - x.mean(0)) / np.where(x.std(0) > 0, x.std(0), 1)
        first = z @ np.linalg.svd(z, full_matrices=False)[2][0]
        odds = 1 / (1 + np.exp(-STEEPNESS * first / first.std()))
    found: Array = np.clip(odds * labels / odds.sum(), FEWEST, 0.9)
    return found


def measured(name: str, design: str, draw: int, steps: int | None) -> dict[str, Any]:
    """Fit all models on one draw of the labels; test on a third of the rows."""
    x, y = rows_of(name)
    rng = np.random.default_rng(draw)
    order = rng.permutation(len(x))
    test, train = order[: len(x) // 3], order[len(x) // 3 :]
    pi = chances(design, x[train], y[train], LABELS)
    codes = np.where(rng.random(len(train)) < pi, y[train], -1)
    found: dict[str, Any] = {"set": name, "design": design, "draw": draw}
    found |= {"labels": int((codes >= 0).sum()), "scores": {}}
    for title, (options, weighted) in MODELS.items():
        model = DeSSLClassifier(random_state=draw, steps=steps, **options)
        model.fit(x[train], codes, propensity=pi if weighted else None)
        p = model.predict_proba(x[test])[
            np.arange(len(test)), np.searchsorted(model.classes_, y[test])
        ]
        hits = model.predict(x[test]) == y[test]
        scores = {"cross_entropy": float(-np.log(p).mean()), "accuracy": float(hits.mean())}
        found["scores"][title] = scores
    return found


def table(records: Sequence[Mapping[str, Any]]) -> str:
    """Means over draws, and paired differences with their 95 % intervals."""
    cells: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for record in records:
        cells[record["design"], record["set"]].append(record["scores"])
    heads = [*MODELS, *(f"{one} − {other}" for one, other in PAIRS)]
    lines = [f"| labels depend on | data | draws | {' | '.join(heads)} |"]
    lines += [f"|---|---|---:|{'---:|' * len(heads)}"]
    for (design, name), scores in sorted(cells.items()):
        each = {title: [one[title]["cross_entropy"] for one in scores] for title in MODELS}
        means = [f"{np.mean(values):.3f}" for values in each.values()]
        for first, second in PAIRS:
            gaps = [a - b for a, b in zip(each[first], each[second], strict=True)]
            if len(gaps) < 2:
                means.append(f"{gaps[0]:+.3f}")
                continue
            found = mean_interval(gaps)
            means.append(f"{found.mean:+.3f} ± {found.half_width:.3f}")
        lines.append(f"| {design} | {name} | {len(scores)} | {' | '.join(means)} |")
    return "\n".join(lines) + "\n"


def main(argv: Sequence[str] | None = None) -> None:
    """Measure what has no file yet, and print all that there is."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--smoke", action="store_true", help="one tiny run")
    parser.add_argument("--runs", type=Path, help="folder with one file per run")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(argv)
    every = [(name, design, draw) for draw in range(DRAWS) for name in SETS for design in DESIGNS]
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.runs or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        for name, design, draw in [("breast_cancer", "x", 0)] if options.smoke else every:
            file = folder / f"{name}-{design}-{draw}.json"
            if not file.exists():
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # that labels are not missing at random
                    found = measured(name, design, draw, 5 if options.smoke else None)
                write_whole(file, json.dumps(found) + "\n")
                print(file.name, found["scores"], flush=True)
        records = [json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))]
    text = table(records)
    print(text)
    if options.out:
        write_whole(options.out, json.dumps({"machine": machine(), "runs": records}) + "\n")
        head = "# Labels not missing at random: log loss of rows drawn at random\n\n"
        write_whole(options.out.with_suffix(".md"), head + text)


if __name__ == "__main__":
    main()

"""The default on images given as plain columns, against logistic regression and trees.

Whoever flattens images loses what an image network knows of them, and columns of pixels are not
like those of a table: they have one unit, and many are nearly constant. For MNIST and sets of
MedMNIST, at most 3,000 unlabelled and 5,000 test rows: the default of `dessl fit` on floats (n, d),
its complete case, logistic regression on columns of standard deviation 1 and on columns divided by
one common number, and extremely randomised trees. The strength C of logistic regression is chosen
by five folds; it sees the columns turned into the span of the labelled rows, which changes nothing
but its time. Probabilities of scikit-learn's methods are clipped at 0.001.

Test rows of MedMNIST can have another law than training rows. The unlabelled rows have the law of
the labelled ones, so all methods are evaluated on these too; no method sees their classes.

One JSON file for each cell in --runs, one thread each; a cell that is there is not measured again.

    PYTHONPATH=src DESSL_DATA=DATA python benchmarks/pixel_columns.py --runs RUNS
"""

import argparse
import json
import time
import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from dessl._files import write_whole
from dessl.data import SemiData, load
from dessl.evaluation import mean_interval
from gains import scored
from gains_methods import CLIP, Answer, Array, Task, classifier, dessl_default
from machine import machine

RESULTS = Path(__file__).parent / "results" / "pixel_columns.md"
SETS = (
    "mnist", "bloodmnist", "breastmnist", "dermamnist", "pneumoniamnist", "retinamnist",
)  # fmt: skip
LABELS = (100, 500)
DRAWS, MOST_UNLABELLED, MOST_TEST = 5, 3_000, 5_000
STRENGTHS = np.logspace(-6, 0, 7)
FOLDS = 5
OURS, TWIN = "default", "complete case"
SEPARATE, COMMON = "logistic, separate scales", "logistic, one scale"
METHODS = (OURS, TWIN, SEPARATE, COMMON, "ExtraTrees")
TESTED, HIDDEN = "methods", "unlabelled rows"  # where a record has the scores on either rows


@cache
def loaded(name: str) -> SemiData:
    """A public set, which is not downloaded."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of rebuilt sets, whose name says so
        return load(name, download=False)


Classes = NDArray[np.int64]


def drawn(name: str, labels: int, draw: int) -> tuple[Task, Classes, Classes]:
    """One draw of rows as columns of levels from 0 to 255.

    Returns:
        The task, in which the unlabelled rows stand again after the test rows, the classes of the
        test rows and those of the unlabelled rows.
    """
    data = loaded(name)
    assert data.test is not None
    generator = torch.Generator().manual_seed(draw)
    order = torch.randperm(len(data), generator=generator)[: labels + MOST_UNLABELLED]
    tested = torch.randperm(len(data.test.y), generator=generator)[:MOST_TEST]
    rows, test = (part.flatten(1).float().numpy() for part in (data.x[order], data.test.x[tested]))
    y, unlabelled = data.y[order].numpy(), rows[labels:]
    asked = np.concatenate([test, unlabelled])
    task = Task(rows[:labels], y[:labels], unlabelled, asked, data.n_classes, draw)
    return task, data.test.y[tested].numpy(), y[labels:]


def logistic(task: Task, *, one_scale: bool) -> Answer:
    """Logistic regression with its strength chosen by folds, on columns scaled in either way."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold

    began = time.perf_counter()
    rows = np.concatenate([task.x, task.x_unlabelled]).astype(float)
    mean, scale = rows.mean(0), rows.std(0)
    scale = np.sqrt((scale**2).mean()) if one_scale else np.where(scale > 0, scale, 1.0)
    x, test = (task.x - mean) / scale, (task.x_test - mean) / scale
    # Weights shrunk to 0 lie in the span of the rows they are fitted to.
    basis = np.linalg.svd(x, full_matrices=False)[2].T
    x, test = x @ basis, test @ basis
    folds = StratifiedKFold(FOLDS, shuffle=True, random_state=task.seed)

    def predicted(model: LogisticRegression, strength: float, some: Any, asked: Array) -> Array:
        model.set_params(C=strength).fit(x[some], task.y[some])
        p = np.zeros((len(asked), task.n_classes))
        p[:, model.classes_] = model.predict_proba(asked)
        p = np.clip(p, CLIP, None)
        return np.asarray(p / p.sum(1, keepdims=True))

    losses = np.zeros(len(STRENGTHS))
    for fitted, held in folds.split(x, task.y):
        model = LogisticRegression(max_iter=500, warm_start=True)
        for number, strength in enumerate(STRENGTHS):
            p = predicted(model, float(strength), fitted, x[held])
            losses[number] -= np.log(p[np.arange(len(held)), task.y[held]]).sum()
    best = float(STRENGTHS[losses.argmin()])
    p = predicted(LogisticRegression(max_iter=500), best, slice(None), test)
    return Answer(p, time.perf_counter() - began, {"strength": best})


def _trees(task: Task) -> Any:
    from sklearn.ensemble import ExtraTreesClassifier

    return ExtraTreesClassifier(300, min_samples_leaf=2, random_state=task.seed)


def measured(name: str, labels: int, draw: int) -> dict[str, Any]:
    """Every method on one draw."""
    torch.set_num_threads(1)
    task, y, hidden = drawn(name, labels, draw)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ours = dessl_default(task)
        answers = {
            OURS: ours["dessl"],
            TWIN: ours["complete case"],
            SEPARATE: logistic(task, one_scale=False),
            COMMON: logistic(task, one_scale=True),
            "ExtraTrees": classifier(_trees, unlabelled=False)(task),
        }
    return {
        "set": loaded(name).name, "labels": labels, "draw": draw,
        "unlabelled": len(task.x_unlabelled), "test": len(y), "columns": task.x.shape[1],
        TESTED: {m: scored(a._replace(p=a.p[: len(y)]), y) for m, a in answers.items()},
        HIDDEN: {
            m: scored(Answer(a.p[len(y) :], a.seconds, {}), hidden) for m, a in answers.items()
        },
        "machine": machine(),
    }  # fmt: skip


def without_reports(record: dict[str, Any]) -> dict[str, Any]:
    """A record with its scores to six digits, without what the pool says of itself."""
    short = {
        where: {
            method: {
                k: v if k == "strength" else round(v, 6) for k, v in found.items() if k != "report"
            }
            for method, found in record[where].items()
        }
        for where in (TESTED, HIDDEN)
    }
    return {**record, **short}


def values(
    records: Sequence[Mapping[str, Any]], method: str, metric: str, where: str = TESTED
) -> Array:
    """One value for each draw."""
    return np.array([record[where][method][metric] for record in records])


def spread(found: Array, digits: int, sign: str = "") -> str:
    """A mean with its 95 % interval."""
    half = mean_interval(found.tolist()).half_width if len(found) > 1 else float("nan")
    return f"{found.mean():{sign}.{digits}f} ± {half:.{digits}f}"


def table(records: Sequence[Mapping[str, Any]], where: str) -> list[str]:
    """Log loss and accuracy on some rows, and the default less each other method."""
    keys = sorted({(record["set"], record["labels"]) for record in records})
    lines = [
        "| set | labels | draws | method | log loss | accuracy, % | default less it, log loss | "
        "default less it, accuracy, points | seconds |",
        "|---|---:|---:|---|---:|---:|---:|---:|---:|",
    ]
    verdicts = {method: [0, 0] for method in METHODS[1:]}
    for key in keys:
        its = [record for record in records if (record["set"], record["labels"]) == key]
        for method in METHODS:
            loss, right = (values(its, method, name, where) for name in ("log_loss", "accuracy"))
            less = values(its, OURS, "log_loss", where) - loss
            more = 100 * (values(its, OURS, "accuracy", where) - right)
            cells = [key[0], str(key[1]), str(len(its)), method, f"{loss.mean():.3f}"]
            cells += [f"{100 * right.mean():.1f}"]
            cells += ["", ""] if method == OURS else [spread(less, 3, "+"), spread(more, 1, "+")]
            seconds = values(its, method, "seconds", where).mean()
            lines.append(f"| {' | '.join([*cells, f'{seconds:.1f}'])} |")
            if method != OURS and len(its) > 1:
                half = mean_interval(less.tolist()).half_width
                verdicts[method][0] += bool(less.mean() < -half)
                verdicts[method][1] += bool(less.mean() > half)
    lines += ["", f"Cases of a set and a number of labels: {len(keys)}. The default's log loss is"]
    lines += [
        f"- significantly lower than that of {method}: {lower}; significantly higher: {higher}."
        for method, (lower, higher) in verdicts.items()
    ]
    return lines


def report(records: Sequence[Mapping[str, Any]]) -> str:
    """The tables of the test rows and of the unlabelled rows."""
    facts = records[0]["machine"]
    lines = [
        "# Images as columns", "",
        f"Measured by benchmarks/pixel_columns.py ({facts['cpu']}, torch {facts['torch']}, one "
        f"thread). Means over draws of labels, with 95 % t-intervals; differences are the default "
        f"less the method, paired over draws.", "",
        "## Test rows", "", *table(records, TESTED), "",
        "## Unlabelled rows", "",
        "The same models on the unlabelled rows, which have the law of the labelled ones; no "
        "method saw their classes.", "", *table(records, HIDDEN),
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def main(argv: Sequence[str] | None = None) -> None:
    """Measure what has no file yet, then write all that there is."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=Path, required=True, help="folder with one file per cell")
    parser.add_argument("--out", type=Path, default=RESULTS, help="Markdown; records beside it")
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    parser.add_argument("--labels", nargs="+", type=int, default=list(LABELS))
    parser.add_argument("--draws", type=int, default=DRAWS)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="start none later")
    options = parser.parse_args(argv)
    options.runs.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + 60 * options.minutes
    for draw in range(options.draws):
        for labels in options.labels:
            for name in options.sets:
                place = options.runs / f"{name}-{labels}-{draw}.json"
                if place.exists() or time.monotonic() >= end:
                    continue
                found = measured(name, labels, draw)
                write_whole(place, json.dumps(found) + "\n")
                shown = {m: round(s["log_loss"], 3) for m, s in found[TESTED].items()}
                spent = {m: round(s["seconds"], 1) for m, s in found[TESTED].items()}
                print(place.stem, shown, spent, flush=True)
    files = sorted(options.runs.glob("*.json"))
    records = [without_reports(json.loads(file.read_text())) for file in files]
    text = report(records)
    print(text)
    write_whole(options.out, text)
    write_whole(options.out.with_suffix(".json"), json.dumps(records, indent=1) + "\n")


if __name__ == "__main__":
    main()

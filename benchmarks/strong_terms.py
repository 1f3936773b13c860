"""The unlabelled term of the image default on a GPU: DeFixMatch or DeSoftMatch, on several sets.

For each data set and draw: a complete case and DeFixMatch as :func:`dessl.recipes.fit` trains them,
and DeSoftMatch, its weights aligned to the class frequencies of the labels, with the same rows,
held-out labels, flips and turns, and seeds; each network alone, and pooled with teachers on its
features. Two kinds of rows judge: *hidden*, unlabelled training rows with their true labels, and
*test*, the publisher's test rows. The default is chosen on the hidden ones. On the test rows, the
default of a CPU with the same labels, from the results of image_default.py, stands beside.

Writes one JSON file per set and draw in --runs; one that already has its file is skipped. --out
writes the table, and all records beside it.

    PYTHONPATH=src DESSL_DATA=DATA python benchmarks/strong_terms.py --device cuda --runs RUNS
    PYTHONPATH=src python benchmarks/strong_terms.py --runs RUNS --out benchmarks/results
"""

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dessl._files import write_whole
from dessl.data import SemiData, load
from dessl.evaluation import metrics_from_logits
from dessl.recipes import Fitted, Predictor, Recipe, fit
from dessl.recipes.held_out import held_out_parts
from dessl.recipes.networks import Training, with_teachers
from dessl.recipes.predictor import AnyPredictor, predicted_log_proba
from dessl.recipes.strong import strong_recipe
from dessl.recipes.symmetries import with_symmetries
from image_default import CASES, KEPT, few_labels, spread
from machine import machine

METHODS = (
    "complete case",
    "DeFixMatch",
    "DeSoftMatch",
    "DeFixMatch, pooled",
    "DeSoftMatch, pooled",
)
MOST_HIDDEN = 10_000
FILE, CPU = "strong_terms.md", "default of a CPU"
DEFAULTS = Path(__file__).parent / "results" / "image_default.json"


def hidden_rows(data: SemiData, name: str) -> tuple[Tensor, Tensor]:
    """Unlabelled training rows with their true labels, at most 10,000."""
    unlabelled = data.unlabelled_rows.cpu()
    pick = torch.randperm(len(unlabelled), generator=torch.Generator().manual_seed(0))
    rows = unlabelled[pick[:MOST_HIDDEN]]
    return data.x[rows.to(data.device)], load(name, download=False).y[rows]


def alone(model: AnyPredictor) -> Predictor:
    """The networks of a model, without its pool."""
    found = model if isinstance(model, Predictor) else model.networks
    assert isinstance(found, Predictor)
    return found


def with_term(data: SemiData, recipe: Recipe, like: Fitted) -> AnyPredictor:
    """Another term's network, pooled; held-out labels, views and doubt are those of a fit."""
    assert like.recipe.symmetries is not None
    recipe = with_symmetries(recipe, like.recipe.symmetries)
    parts = held_out_parts(data, None, members=1, seed=recipe.plan.seed)
    networks = Training(recipe, parts.data, (), None, False).members("debiased", recipe.plan.lam)
    members = [result.model for result in networks.results]
    doubt = alone(like.model).doubt
    predictor = Predictor(members, *recipe.scaling, 0.0 if doubt is None else float(doubt))
    return with_teachers(predictor, networks.logits, data, parts, recipe)


def measured(name: str, n: int, draw: int, options: argparse.Namespace) -> dict[str, Any]:
    """Train with each term, and measure all models on hidden and test rows."""
    data, began = few_labels(name, n, draw).to(options.device), time.perf_counter()
    fixmatch, softmatch = (
        strong_recipe(data, term=term, steps=options.steps, seed=draw)
        for term in ("fixmatch", "softmatch")
    )
    # With a number for λ and safe=False, DeFixMatch is kept whatever held-out labels say.
    fitted = fit(data, replace(fixmatch, lam=fixmatch.plan.lam, safe=False), progress=False)
    other = with_term(data, softmatch, fitted)
    models = (fitted.complete_case, alone(fitted.model), alone(other), fitted.model, other)
    assert data.test is not None
    judges = {"hidden": hidden_rows(data, name), "test": (data.test.x, data.test.y.cpu())}
    scores: dict[str, Any] = {judge: {} for judge in judges}
    for judge, (x, y) in judges.items():
        for method, model in zip(METHODS, models, strict=True):
            metrics = metrics_from_logits(predicted_log_proba(model, x), y).as_dict()
            scores[judge][method] = {metric: metrics[metric] for metric in KEPT}
    symmetries = fitted.recipe.symmetries
    assert symmetries is not None
    assert fitted.check is not None
    return {
        "set": data.name, "labels": n, "draw": draw, "scores": scores,
        "kept": fitted.check.helped, "account": fitted.account,
        "symmetries": [which for which, safe in symmetries._asdict().items() if safe],
        "seconds": time.perf_counter() - began, "machine": machine(),
    }  # fmt: skip


@cache
def results_of_default() -> list[dict[str, Any]]:
    """The records of image_default.py."""
    found: list[dict[str, Any]] = json.loads(DEFAULTS.read_text())
    return found


def with_cpu(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record with the scores of the default of a CPU on the test rows, if measured."""
    same = [
        one["scores"]["default"]
        for one in results_of_default()
        if one["device"] == "cpu" and all(one[k] == record[k] for k in ("set", "labels", "draw"))
    ]
    test = record["scores"]["test"] | ({CPU: same[0]} if same else {})
    return {**record, "scores": {**record["scores"], "test": test}}


def table(records: Sequence[Mapping[str, Any]]) -> str:
    """Every method on every set, and DeSoftMatch minus DeFixMatch, paired over draws and sets."""
    grouped: dict[tuple[str, int], list[Mapping[str, Any]]] = defaultdict(list)
    for record in records:
        grouped[record["set"], record["labels"]].append(record)
    lines = []
    for judge in ("hidden", "test"):
        shown = [*METHODS, *([CPU] if all(CPU in one["scores"][judge] for one in records) else [])]
        lines += [f"\n## {judge.capitalize()} rows\n"]
        lines += [f"| set | labels | draws | metric | {' | '.join(shown)} |"]
        lines += ["|---|---:|---:|---" + "|---:" * len(shown) + "|"]
        for (name, labels), its in sorted(grouped.items()):
            for metric, factor, digits in (("accuracy", 100, 1), ("cross_entropy", 1, 3)):
                cells = [name, f"{labels:,}", str(len(its)), metric.replace("_", "-")]
                cells += [
                    spread([factor * one["scores"][judge][m][metric] for one in its], digits)
                    for m in shown
                ]
                lines += [f"| {' | '.join(cells)} |"]
        lines += ["", *differences(list(grouped.values()), judge)]
    return "\n".join(lines) + "\n"


def differences(sets: Sequence[Sequence[Mapping[str, Any]]], judge: str) -> list[str]:
    """DeSoftMatch minus DeFixMatch: each set's mean over draws, averaged over sets."""
    lines = []
    for pooled in ("", ", pooled"):
        parts = []
        for metric, factor, digits in (("accuracy", 100, 2), ("cross_entropy", 1, 3)):
            gaps = []
            for its in sets:
                ours, theirs = (
                    sum(one["scores"][judge][f"{term}{pooled}"][metric] for one in its) / len(its)
                    for term in ("DeSoftMatch", "DeFixMatch")
                )
                gaps.append(factor * (ours - theirs))
            parts.append(f"{metric.replace('_', '-')} {spread(gaps, digits, '+')}")
        lines += [
            f"- DeSoftMatch minus DeFixMatch{pooled}: {', '.join(parts)} (over {len(sets)} sets)"
        ]
    return lines


def main(argv: Sequence[str] | None = None) -> None:
    """Measure what has no file yet, then print all that there is."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--runs", type=Path, required=True, help="folder with one file per run")
    parser.add_argument("--out", type=Path, help=f"folder of {FILE}; trains nothing")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="start none later")
    parser.add_argument("--draws", type=int, default=1)
    parser.add_argument("--sets", nargs="+", default=list(dict.fromkeys(n for n, _ in CASES)))
    parser.add_argument("--steps", type=int, help="for a try")
    options = parser.parse_args(argv)
    options.runs.mkdir(parents=True, exist_ok=True)
    end, cases = time.monotonic() + 60 * options.minutes, dict(reversed(CASES))
    todo = [] if options.out else [(s, d) for d in range(options.draws) for s in options.sets]
    for name, draw in todo:
        place = options.runs / f"{name}-{draw}.json"
        if place.exists() or time.monotonic() >= end:
            continue
        found = measured(name, cases[name], draw, options)
        write_whole(place, json.dumps(found) + "\n")
        print(f"{place.stem} {found['scores']['test']} {found['seconds']:.0f} s", flush=True)
    records = [json.loads(file.read_text()) for file in sorted(options.runs.glob("*.json"))]
    text = table([with_cpu(record) for record in records])
    print(text)
    if options.out:
        write_whole(options.out / FILE, "# DeFixMatch or DeSoftMatch by default\n" + text)
        lines = ",\n".join(json.dumps(record) for record in records)
        write_whole((options.out / FILE).with_suffix(".json"), f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()

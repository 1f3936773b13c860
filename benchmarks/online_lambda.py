"""λ that follows the run, against λ fixed in advance and against the complete case.

Three sets of scikit-learn, ten draws of labels, two terms. A network with 64 hidden units is
trained for 400 steps on the labels that are not held out; a quarter of them is held out, and only
the online λ uses it. The weights of the last step are tested on rows that are in no other part.
λ is at most 1 for the entropy, ½ for pseudo-labels, the largest for which the debiased risk is
bounded below; the fixed λ is that number.

    PYTHONPATH=src python benchmarks/online_lambda.py       # about ten minutes on one core
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from sklearn import datasets

from dessl._files import write_whole
from dessl.data import SemiData, draw_labels
from dessl.evaluation import evaluate, mean_interval
from dessl.models import MLP
from dessl.surrogates import named_surrogate
from dessl.training import TrainPlan, train
from machine import machine

SETS = {"digits": 100, "breast_cancer": 40, "wine": 40}
TERMS = {"entropy": 1.0, "pseudo_label": 0.5}
DRAWS, STEPS, HELD_OUT = 10, 400, 0.25
RESULTS = Path(__file__).parent / "results" / "online_lambda.json"
Record = dict[str, Any]


def drawn(name: str, draw: int) -> SemiData:
    """Standardised rows with few labels, a quarter of them held out; half of all rows are tests."""
    found = getattr(datasets, f"load_{name}")()
    x, y = torch.tensor(found.data).float(), torch.tensor(found.target)
    generator = torch.Generator().manual_seed(draw)
    order = torch.randperm(len(x), generator=generator)
    test, rest = order[: len(x) // 2], order[len(x) // 2 :]
    mean, scale = x[rest].mean(0), x[rest].std(0).clamp(min=1e-6)
    x = (x - mean) / (x[rest].std() if name == "digits" else scale)
    n = SETS[name]
    labels = draw_labels(y[rest], n, n_validation=round(HELD_OUT * n), generator=generator)
    return SemiData(x[rest], y[rest], test=(x[test], y[test])).with_labels(labels)


def measured(name: str, draw: int) -> list[Record]:
    """Every way of one draw."""
    data, found = drawn(name, draw), []
    plan = TrainPlan(
        steps=STEPS, labelled_batch=32, unlabelled_batch=128, optimiser="adamw",
        learning_rate=1e-3, weight_decay=1e-3, evaluate_every=STEPS // 20, select="last",
        seed=draw,
    )  # fmt: skip
    for term, most in TERMS.items():
        ways = {
            "complete case": replace(plan, risk="complete_case", lam=0.0),
            "standard SSL, fixed λ": replace(plan, risk="ssl", lam=most),
            "debiased, fixed λ": replace(plan, risk="debiased", lam=most),
            "debiased, online λ": replace(plan, risk="debiased", lam=most, online=True),
        }
        for way, own in ways.items():
            result = train(
                lambda: MLP(data.x.shape[1], data.n_classes, hidden=(64,)),
                named_surrogate(term), data, own, progress=False,
            )  # fmt: skip
            assert data.test is not None
            tested = evaluate(result.model, *data.test)
            found.append({
                "set": name, "draw": draw, "term": term, "way": way,
                "log_loss": tested.cross_entropy, "accuracy": tested.accuracy,
                "lam": [event.lam for event in result.history][-1],
            })  # fmt: skip
    return found


def table(records: Sequence[Mapping[str, Any]]) -> str:
    """Means, and differences from the complete case paired over draws, with 95 % intervals."""
    lines = ["| set | term | way | last λ | accuracy, % | log loss | log loss added |"]
    lines += ["|---|---|---|---:|---:|---:|---:|"]
    ways = dict.fromkeys(record["way"] for record in records)
    for name in SETS:
        for term in TERMS:
            own = {
                way: [r for r in records if (r["set"], r["term"], r["way"]) == (name, term, way)]
                for way in ways
            }
            base = [record["log_loss"] for record in own["complete case"]]
            for way, its in own.items():
                losses = [record["log_loss"] for record in its]
                gap = mean_interval([a - b for a, b in zip(losses, base, strict=True)])
                cells = [name, term, way, f"{_mean(its, 'lam'):.2f}"]
                cells += [f"{100 * _mean(its, 'accuracy'):.1f}", f"{_mean(its, 'log_loss'):.3f}"]
                cells += [
                    "" if way == "complete case" else f"{gap.mean:+.3f} ± {gap.half_width:.3f}"
                ]
                lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _mean(records: Sequence[Mapping[str, Any]], key: str) -> float:
    return sum(record[key] for record in records) / len(records)


def main() -> None:
    """Run all, and write ``online_lambda.json`` and ``.md``."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--draws", type=int, default=DRAWS)
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    found = [r for draw in range(options.draws) for name in SETS for r in measured(name, draw)]
    text = table(found)
    print(text)
    write_whole(options.out, json.dumps({"machine": machine(), "results": found}, indent=1) + "\n")
    head = (
        f"# λ that follows the run\n\n{options.draws} draws, {STEPS} steps; paired over draws.\n\n"
    )
    write_whole(options.out.with_suffix(".md"), head + text)


if __name__ == "__main__":
    main()

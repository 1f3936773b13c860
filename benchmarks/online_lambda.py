"""λ that follows the run, against λ fixed in advance and against the complete case.

Three sets of scikit-learn, ten draws of labels, three terms. A network with 64 hidden units is
trained for 400 steps on the labels that are not held out; a quarter of them is held out, and only
the online λ uses it. The weights of the last step are tested on rows that are in no other part.
λ is at most 1 for the entropy, ½ for pseudo-labels, the largest for which the debiased risk is
bounded below; the fixed λ is that number. The third term is the sum of two teachers: one is right
for 85 % of the rows, the other answers at random. Online, each has a λ of its own, at most 1 in the
non-negative form of the risk; the fixed λ is ½ for both.

    PYTHONPATH=src python benchmarks/online_lambda.py       # about a quarter of an hour on one core
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from sklearn import datasets
from torch.nn.functional import one_hot

from dessl._files import write_whole
from dessl.data import SemiData, draw_labels
from dessl.evaluation import evaluate, mean_interval
from dessl.models import MLP
from dessl.surrogates import Combine, Surrogate, Teacher, named_surrogate
from dessl.training import TrainPlan, train
from machine import machine

TEACHERS = "two teachers"
SETS = {"digits": 100, "breast_cancer": 40, "wine": 40}
TERMS = {"entropy": 1.0, "pseudo_label": 0.5, TEACHERS: 0.5}
RIGHT = 0.85  # share of rows for which the better teacher is right
DRAWS, STEPS, HELD_OUT = 10, 400, 0.25
RESULTS = Path(__file__).parent / "results" / "online_lambda.json"
Record = dict[str, Any]


def drawn(name: str, draw: int) -> tuple[SemiData, torch.Tensor]:
    """Standardised rows with few labels, a quarter of them held out, and the classes of all.

    Half of all rows are tests.
    """
    found = getattr(datasets, f"load_{name}")()
    x, y = torch.tensor(found.data).float(), torch.tensor(found.target)
    generator = torch.Generator().manual_seed(draw)
    order = torch.randperm(len(x), generator=generator)
    test, rest = order[: len(x) // 2], order[len(x) // 2 :]
    mean, scale = x[rest].mean(0), x[rest].std(0).clamp(min=1e-6)
    x = (x - mean) / (x[rest].std() if name == "digits" else scale)
    n = SETS[name]
    labels = draw_labels(y[rest], n, n_validation=round(HELD_OUT * n), generator=generator)
    return SemiData(x[rest], y[rest], test=(x[test], y[test])).with_labels(labels), y[rest]


def teachers(y: torch.Tensor, n_classes: int, draw: int) -> Surrogate:
    """A teacher whose answers are right for most of the rows, and one that answers at random."""
    generator = torch.Generator().manual_seed(1_000 + draw)
    guesses = torch.randint(n_classes, (2, len(y)), generator=generator)
    right = torch.rand(len(y), generator=generator) < RIGHT
    answers = torch.where(right, y, guesses[0]), guesses[1]
    sure = RIGHT + (1 - RIGHT) / n_classes
    rest = (1 - sure) / (n_classes - 1)
    return Combine(
        [Teacher(rest + (sure - rest) * one_hot(own, n_classes).double()) for own in answers]
    )


def measured(name: str, draw: int) -> list[Record]:
    """Every way of one draw."""
    (data, y), found = drawn(name, draw), []
    plan = TrainPlan(
        steps=STEPS, labelled_batch=32, unlabelled_batch=128, optimiser="adamw",
        learning_rate=1e-3, weight_decay=1e-3, evaluate_every=STEPS // 20, select="last",
        seed=draw,
    )  # fmt: skip
    for term, most in TERMS.items():
        several = term == TEACHERS
        debiased = replace(plan, risk="debiased", bound="nonnegative" if several else None)
        ways = {
            "complete case": replace(plan, risk="complete_case", lam=0.0),
            "standard SSL, fixed λ": replace(plan, risk="ssl", lam=most),
            "debiased, fixed λ": replace(debiased, lam=most),
            "debiased, online λ": replace(debiased, lam=1.0 if several else most, online=True),
        }
        for way, own in ways.items():
            result = train(
                lambda: MLP(data.x.shape[1], data.n_classes, hidden=(64,)),
                teachers(y, data.n_classes, draw) if several else named_surrogate(term),
                data, own, progress=False,
            )  # fmt: skip
            last = result.history[-1]
            assert data.test is not None
            tested = evaluate(result.model, *data.test)
            found.append({
                "set": name, "draw": draw, "term": term, "way": way,
                "log_loss": tested.cross_entropy, "accuracy": tested.accuracy,
                "lam": last.lam, "lams": last.lams,
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
                cells = [name, term, way, _last_lams(its)]
                cells += [f"{100 * _mean(its, 'accuracy'):.1f}", f"{_mean(its, 'log_loss'):.3f}"]
                cells += [
                    "" if way == "complete case" else f"{gap.mean:+.3f} ± {gap.half_width:.3f}"
                ]
                lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _last_lams(records: Sequence[Mapping[str, Any]]) -> str:
    """The mean λ of the last step, or the means of the terms' own."""
    every = [record["lams"] or [record["lam"]] for record in records]
    return ", ".join(f"{sum(own) / len(own):.2f}" for own in zip(*every, strict=True))


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

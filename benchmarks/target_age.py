"""Whether temporal ensembling's targets are as old on labelled rows as on unlabelled ones.

A model whose prediction tells the step it was made at shows the age of every target that H is
computed with. Labelled rows are drawn in epochs of their own, and a round of the memory lasts an
epoch of the unlabelled rows. Ages are in steps, past the fourth round, means over 24 seeds, with
95 % intervals of the difference.

    PYTHONPATH=src python benchmarks/target_age.py --out benchmarks/results/target_age.json
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from dessl._files import write_whole
from dessl.data import Batches, SemiData
from dessl.evaluation import mean_interval
from dessl.surrogates import Rows, TemporalEnsembling, as_is
from machine import machine

BATCH, SEEDS, ROUNDS, FEWEST_STEPS = 5, 24, 40, 300
ROWS = (  # labelled and unlabelled
    (20, 20), (20, 25), (20, 30), (20, 35), (20, 40), (20, 45), (20, 50), (20, 105), (20, 205),
    (30, 20),
)  # fmt: skip


class Clock:
    """Predicts the first class with a probability that grows with the step."""

    def __init__(self, steps: int) -> None:
        self.step, self.steps = 0, steps

    def __call__(self, x: Tensor) -> Tensor:
        """Logits (n, 2)."""
        p = (self.step + 1) / (self.steps + 2)
        return torch.tensor([[p, 1 - p]]).log().expand(len(x), 2)

    def age(self, targets: Tensor) -> Tensor:
        """Steps since the targets (n, 2) were predicted, (n,)."""
        return self.step + 1 - targets[:, 0] * (self.steps + 2)


def ages(n_labelled: int, n_unlabelled: int, seed: int) -> tuple[float, float]:
    """Mean age of the targets of labelled and of unlabelled rows."""
    y = torch.full((n_labelled + n_unlabelled,), -1)
    y[:n_labelled] = torch.arange(n_labelled) % 2
    batches = Batches(SemiData(torch.zeros(len(y), 1), y), BATCH, BATCH, seed=seed)
    model = Clock(max(FEWEST_STEPS, ROUNDS * max(n_labelled, n_unlabelled) // BATCH))
    surrogate = TemporalEnsembling(momentum=0.0, view=as_is, seed=seed)
    surrogate.prepare(nn.Linear(1, 2), len(y), 2)
    surrogate.draws_from(torch.arange(len(y)))
    found: list[Tensor] = []
    for step in range(model.steps):
        model.step = step
        batch = next(batches)
        x = torch.cat([batch.x_labelled, batch.x_unlabelled])
        rows = Rows(x, torch.cat([batch.ids_labelled, batch.ids_unlabelled]))
        if model.step > 4 * n_unlabelled / BATCH:
            found.append(model.age(surrogate.target(rows.ids)).view(2, BATCH).mean(1))
        surrogate.after_step(nn.Identity(), rows, surrogate(model, rows))
    labelled, unlabelled = torch.stack(found).mean(0).tolist()
    return labelled, unlabelled


def measured(n_labelled: int, n_unlabelled: int, seeds: int = SEEDS) -> dict[str, Any]:
    """The ages for one length of the labelled epoch and of the round."""
    pairs = torch.tensor([ages(n_labelled, n_unlabelled, seed) for seed in range(seeds)])
    older = mean_interval((100 * (pairs[:, 0] - pairs[:, 1]) / pairs[:, 1].mean()).tolist())
    return {
        "labelled epochs in a round": n_unlabelled / n_labelled,
        "steps of a round": n_unlabelled / BATCH,
        "age on labelled rows, steps": round(float(pairs[:, 0].mean()), 3),
        "age on unlabelled rows, steps": round(float(pairs[:, 1].mean()), 3),
        "older on labelled rows, %": round(older.mean, 2),
        "half of its 95 % interval": round(older.half_width, 2),
    }


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(argv)
    torch.set_num_threads(1)
    found = [measured(*rows, options.seeds) for rows in ROWS]
    print(json.dumps(found, indent=1))
    if options.out:
        both = {"machine": machine(threads=1), "seeds": options.seeds, "results": found}
        write_whole(options.out, json.dumps(both, indent=1) + "\n")


if __name__ == "__main__":
    main()

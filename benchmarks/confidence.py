"""λ* of the gradient and of the risk over the course of training, on test and training rows.

For a calibrated model E[∇L | x] = 0, so that no H of x correlates with ∇L and λ* is 0; an
overconfident model has a negative λ*, an underconfident one a positive one (docs/theory.md). Here a
network 64-128-10 is trained on 300 of scikit-learn's digits, with their labels and with a fifth of
all labels redrawn at random, and examined during training: on its 300 training rows, and on 600
rows that it never saw. λ* is given for n_u ≫ n_l: Cov(∇L, ∇H)/V(∇H), over all parameters.

    PYTHONPATH=src python benchmarks/confidence.py --out benchmarks/results/confidence.json
"""

import argparse
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from dessl.data import load, redraw_labels
from dessl.evaluation.risk_quality import network_gradient_spread, oracle_lambda
from dessl.functional import cross_entropy
from dessl.models import MLP
from dessl.results.averages import average
from dessl.surrogates import Entropy, PseudoLabel, Rows, Surrogate, as_is, losses_and_terms
from machine import machine

SEEDS, TRAINED, TESTED = 5, 300, 600
LENGTHS = (10, 100, 1000, 3000)
NOISE = (0.0, 0.2)
TERMS: dict[str, Surrogate] = {
    "entropy": Entropy(view=as_is),
    "pseudo_label": PseudoLabel(threshold=0.0, view=as_is),
}


def rows_of(noise: float, seed: int) -> dict[str, tuple[Tensor, Tensor]]:
    """Training rows and held-out rows, with their labels."""
    data = load("digits")
    assert data.test is not None
    generator = torch.Generator().manual_seed(seed)
    x = torch.cat([data.x, data.test.x]).flatten(1).float() / 255
    y = torch.cat([data.y, data.test.y])
    if noise:
        y = redraw_labels(y, noise, data.n_classes, generator=generator)
    order = torch.randperm(len(y), generator=generator)
    x, y = (x[order] - 0.3) / 0.38, y[order]
    return {"training": (x[:TRAINED], y[:TRAINED]), "test": (x[-TESTED:], y[-TESTED:])}


def trained(x: Tensor, y: Tensor, seed: int, lengths: Sequence[int]) -> Iterator[nn.Module]:
    """The model after each of these numbers of steps."""
    torch.manual_seed(seed)
    model = MLP(64, 10, hidden=(128,))
    optimiser = torch.optim.Adam(model.parameters(), lr=2e-3)
    generator = torch.Generator().manual_seed(seed)
    for step in range(1, max(lengths) + 1):
        rows = torch.randint(len(x), (50,), generator=generator)
        loss = cross_entropy(model(x[rows]), y[rows]).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if step in lengths:
            yield model


def looked_at(model: nn.Module, x: Tensor, y: Tensor) -> dict[str, float]:
    """How confident the model is on rows, and λ* of each term's gradient and of the risk."""
    with torch.no_grad():
        p = model(x).softmax(-1)
    found = {
        "accuracy": float((p.argmax(-1) == y).double().mean()),
        "confidence": float(p.amax(-1).double().mean()),
    }
    found["overconfidence"] = found["confidence"] - found["accuracy"]
    for name, term in TERMS.items():
        spread = network_gradient_spread(model, term, x, y, n_labelled=40, splits=2, at_once=300)
        found[f"lam_gradient.{name}"] = spread.rows.product / spread.rows.second
        found[f"ratio_gradient.{name}"] = 1 - spread.correlation**2
        rows = Rows(x, torch.arange(len(x)))
        loss, h, _ = losses_and_terms(lambda seen: model(seen).double(), term, rows, y)
        risk = oracle_lambda(loss, h, n_labelled=40)
        found[f"lam_risk.{name}"] = risk.lam * len(x) / (len(x) - 40)
        found[f"ratio_risk.{name}"] = 1 - risk.correlation**2
    return found


def run(job: tuple[float, int], lengths: Sequence[int]) -> list[dict[str, Any]]:
    """One entry for each length and part, of one noise and seed."""
    noise, seed = job
    torch.set_num_threads(1)
    parts = rows_of(noise, seed)
    found = []
    for steps, model in zip(lengths, trained(*parts["training"], seed, lengths), strict=True):
        for part, (x, y) in parts.items():
            said = {"noise": noise, "seed": seed, "steps": steps, "part": part}
            found.append(said | looked_at(model, x, y))
    return found


def means(found: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Mean and half of the 95 % t-interval over seeds, for each noise, length and part."""
    kinds = dict.fromkeys((one["noise"], one["part"], one["steps"]) for one in found)
    rows = []
    for noise, part, steps in kinds:
        same = [
            one
            for one in found
            if (one["noise"], one["part"], one["steps"]) == (noise, part, steps)
        ]
        row: dict[str, Any] = {"noise": noise, "part": part, "steps": steps, "seeds": len(same)}
        for metric in [key for key in same[0] if key not in (*row, "seed")]:
            mean = average([float(one[metric]) for one in same])
            row[metric] = [mean.mean, mean.half_width]
        rows.append(row)
    return rows


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """The means as Markdown."""
    columns = {
        "overconfidence": "confidence − accuracy",
        "lam_gradient.pseudo_label": "λ* of the gradient, pseudo-labels",
        "ratio_gradient.pseudo_label": "variance there",
        "lam_gradient.entropy": "λ* of the gradient, entropy",
        "lam_risk.entropy": "λ* of the risk, entropy",
        "lam_risk.pseudo_label": "λ* of the risk, pseudo-labels",
    }
    lines = [
        f"| labels redrawn | rows | steps | {' | '.join(columns.values())} |",
        "|---:|:---|---:" + "|---:" * len(columns) + "|",
    ]
    for row in rows:
        cells = [f"{mean:+.3f} ± {half:.3f}" for mean, half in (row[key] for key in columns)]
        lines.append(
            f"| {row['noise']:.0%} | {row['part']} | {row['steps']:,} | {' | '.join(cells)} |"
        )
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run, print the table, and write it with every run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, help="a JSON file; the table goes beside it, as .md")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--lengths", type=int, nargs="+", default=list(LENGTHS))
    options = parser.parse_args(arguments)
    if options.seeds < 2:
        parser.error(f"--seeds must be at least 2, for an interval; got {options.seeds}.")
    began = time.perf_counter()
    jobs = [(noise, seed) for noise in NOISE for seed in range(options.seeds)]
    with ProcessPoolExecutor(options.jobs) as pool:
        each = list(pool.map(partial(run, lengths=options.lengths), jobs))
    found = [one for some in each for one in some]
    text = table(means(found))
    print(text)
    if options.out:
        measured_on = machine(seconds=round(time.perf_counter() - began))
        content = {"machine": measured_on, "means": means(found), "runs": found}
        options.out.write_text(json.dumps(content, indent=1) + "\n")
        options.out.with_suffix(".md").write_text(text)


if __name__ == "__main__":
    main()

"""Does restarting a complete case that failed help, if a logistic regression learns nothing either?

    PYTHONPATH=src python benchmarks/restarts.py     # twelve minutes of a core

Seven made-up laws of two classes, 16, 32 and 64 labels of 300 rows, twelve draws each. A complete
case that fails is restarted, whatever the regression says. benchmarks/results/restarts.json counts,
for each law and number of labels, the draws, those where the regression is not better than the
class shares by more than one standard error, the first trainings that failed, with and without such
a regression, the restarts that passed the check, and those that were also better on 1,000 new rows.
"""

import json
from collections import Counter
from pathlib import Path

import torch
from torch import Tensor

from dessl import SemiData
from dessl.recipes import recipe_for
from dessl.recipes.baseline import RESTARTS, References, restarted
from dessl.recipes.fit import _held_out_logits, _predictor
from dessl.recipes.held_out import held_out_parts
from dessl.recipes.networks import Training
from dessl.recipes.scaling import standardised_data
from dessl.results.machine import machine_facts
from dessl.risk import COMPLETE_CASE

RESULTS = Path(__file__).parent / "results" / "restarts.json"
COLUMNS = {
    "xor": 4,
    "sharp xor": 2,
    "logistic": 6,
    "weak": 6,
    "noise": 6,
    "rare noise": 6,
    "ring": 3,
}
LABELS = (16, 32, 64)
DRAWS, ROWS, NEW = 12, 300, 1000


def logits_of(law: str, x: Tensor) -> Tensor:
    """The log-odds of the second class."""
    product = x[:, 0] * x[:, 1]
    return {
        "xor": 3 * product,
        "sharp xor": 20 * product.sign(),
        "logistic": 2 * x[:, 0] + x[:, 1],
        "weak": 0.7 * x[:, 0],
        "noise": 0 * product,
        "rare noise": 0 * product - 1.4,
        "ring": 3 * (x[:, :2].square().sum(1) - 1.4),
    }[law]


def outcomes(law: str, labels: int, seed: int) -> list[str]:
    """What happened in one draw; nothing if labels cannot be held out."""
    generator = torch.Generator().manual_seed(1000 * seed + labels)
    x = torch.randn(ROWS + NEW, COLUMNS[law], generator=generator)
    y = (torch.rand(len(x), generator=generator) < torch.sigmoid(logits_of(law, x))).long()
    few = torch.where(torch.arange(ROWS) < labels, y[:ROWS], -1)
    data = SemiData(x[:ROWS], few, class_names=["a", "b"])
    first = recipe_for(data, seed=seed)
    seen = standardised_data(data.labelled_alone(), first.scaling)
    parts = held_out_parts(seen, None, members=first.networks, seed=seed)
    references = References.of(data, parts)
    if references is None:
        return []
    losses: list[float] = []
    for number in range(RESTARTS + 1):
        recipe = restarted(first, number) if number else first
        networks = Training(recipe, parts.data, (), None, False).members(COMPLETE_CASE, 0.0)
        found = references.baseline(_held_out_logits(networks.results, parts, recipe))
        log_p = _predictor(networks.results, recipe, parts, shrunk=True)(x[ROWS:])
        losses.append(-float(log_p.gather(1, y[ROWS:, None]).detach().mean()))
        if found.trained:
            break
    happened = ["draws"] if found.learnable else ["draws", "regression learns nothing"]
    if len(losses) > 1:
        happened.append("failed" if found.learnable else "failed, regression learns nothing")
        if found.trained:
            happened += ["restart passed"]
            happened += ["restart passed and was better"] * (losses[-1] < losses[0])
    return happened


def main() -> None:
    """Count every law and number of labels, and write the counts."""
    counts = {}
    for law in COLUMNS:
        for labels in LABELS:
            counted = Counter(one for seed in range(DRAWS) for one in outcomes(law, labels, seed))
            counts[f"{law}, {labels} labels"] = dict(counted)
            print(law, labels, dict(counted), flush=True)
    total = sum((Counter(one) for one in counts.values()), Counter[str]())
    entries = {"total": dict(total), "counts": counts, "made_with": machine_facts()}
    RESULTS.write_text(json.dumps(entries, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

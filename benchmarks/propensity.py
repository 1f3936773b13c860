"""MNIST with labels that are not missing at random: the effect of inverse-propensity weights.

Three designs draw labels from 12,000 training images, independently for each seed:

class      a digit k is labelled with probability 0.03 · 10^(k/9): 0.03 for 0 up to 0.3 for 9
brightness an image is labelled with probability 0.03 + 0.27 / (1 + exp(2 z)), z its standardised
           mean brightness: bold digits are rarely labelled
random     each image with probability 0.13: the control

The network is deliberately small, so that five seeds run on a CPU: an MLP with 256 hidden units on
50 principal components, 600 steps of AdamW, with the entropy as H and λ = 0.5 for every risk that
uses unlabelled rows. It is evaluated on 10,000 test images. Nothing was chosen by these results.

    PYTHONPATH=src python benchmarks/propensity.py MNIST_FOLDER --out benchmarks/results --seeds 5

With --errors N, the standard errors of estimated class propensities are checked instead, on N data
sets of three Gaussian classes (``propensity_errors.json``).

MNIST_FOLDER has the publisher's four idx files. Seeds that are already in the results are skipped.
"""

import argparse
import json
import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dessl import SemiData, TrainPlan, train
from dessl.data.formats.idx import read_idx
from dessl.evaluation import mean_interval, paired_t_test
from dessl.models import MLP
from dessl.safety.propensity import (
    Propensity,
    known_propensity,
    propensity_from_x,
    propensity_from_y,
)
from dessl.teachers.space import Space
from machine import machine

ROWS, STEPS, LAM = 12_000, 600, 0.5
DESIGNS = ("class", "brightness", "random")
COMPLETE = "complete case"


def read_mnist(folder: Path) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Training and test images as principal components learnt from training rows, with labels."""
    arrays = [
        torch.as_tensor(np.asarray(read_idx(next(folder.glob(f"{part}-{kind}*")))))
        for part in ("train", "t10k")
        for kind in ("images", "labels")
    ]
    x, y, test_x, test_y = arrays
    flat, test_flat = (part.flatten(1).float() / 255 for part in (x, test_x))
    return flat, y.long(), test_flat, test_y.long()


def chances(design: str, x: Tensor, y: Tensor) -> Tensor:
    """The probability that each row is labelled."""
    if design == "class":
        return 0.03 * 10 ** (y.double() / 9)
    if design == "random":
        return torch.full((len(y),), 0.13, dtype=torch.float64)
    bright = x.mean(1).double()
    z = (bright - bright.mean()) / bright.std()
    return 0.03 + 0.27 / (1 + (2 * z).exp())


def propensities(design: str, data: SemiData, truth: Tensor) -> dict[str, Propensity]:
    """Known propensities, and those estimated by a user who knows what they depend on."""
    found = {"known": known_propensity(data, truth)}
    if design == "class":
        found["EM from y"] = propensity_from_y(data)
        found["moments from y"] = propensity_from_y(data, method="moments")
    elif design == "brightness":
        found["estimated from x"] = propensity_from_x(data)
    else:
        found["EM from y"] = propensity_from_y(data)
        found["estimated from x"] = propensity_from_x(data)
    return found


def trained(data: SemiData, risk: str, lam: float, seed: int) -> torch.nn.Module:
    """One network."""
    plan = TrainPlan(
        steps=STEPS, labelled_batch=64, unlabelled_batch=192, optimiser="adamw",
        learning_rate=2e-3, schedule="cosine", weight_decay=0.1, lam=lam, ramp="linear_ramp",
        risk=risk, seed=seed,
    )  # fmt: skip
    n_features = data.x.shape[1]
    return train(lambda: MLP(n_features, 10, hidden=[256]), "entropy", data, plan,
                 progress=False).model  # fmt: skip


def measured(model: torch.nn.Module, x: Tensor, y: Tensor) -> dict[str, float]:
    """Accuracy averaged over the classes, and cross-entropy."""
    with torch.no_grad():
        log_p = model.eval()(x).double().log_softmax(1)
    hits = (log_p.argmax(1) == y).double()
    each = [float(hits[y == k].mean()) for k in range(10)]
    return {
        "balanced_accuracy": float(np.mean(each)),
        "worst_class": min(each),
        "cross_entropy": float(-log_p.gather(1, y[:, None]).mean()),
    }


def one_seed(design: str, seed: int, arrays: Sequence[Tensor]) -> list[dict[str, Any]]:
    """All methods on one draw of rows and labels."""
    x, y, test_x, test_y = arrays
    generator = torch.Generator().manual_seed(1000 + seed)
    rows = torch.randperm(len(y), generator=generator)[:ROWS]
    x, y = x[rows], y[rows]
    chance = chances(design, x, y)
    labelled = torch.rand(ROWS, generator=generator, dtype=torch.float64) < chance
    space = Space.of(x)
    data = SemiData(space(x), torch.where(labelled, y, -1), class_names=list(map(str, range(10))))
    test = space(test_x)
    found = []

    def add(method: str, one: SemiData, risk: str, lam: float, **more: Any) -> None:
        began = time.perf_counter()
        result = measured(trained(one, risk, lam, seed), test, test_y)
        found.append(
            {"design": design, "seed": seed, "method": method, "labels": data.n_labelled, **result,
             **more, "seconds": round(time.perf_counter() - began, 2)}
        )  # fmt: skip

    add(COMPLETE, data, "complete_case", 0.0)
    add("debiased", data, "debiased", LAM)
    for name, propensity in propensities(design, data, chance).items():
        known = {"effective_labels": propensity.effective_labels, "raised": propensity.raised}
        if propensity.classes:
            known["classes"] = [list(one[1:]) for one in propensity.classes]
        own = propensity.on(data)
        add(f"debiased, {name}", own, "debiased", LAM, **known)
        if name == "known":
            add("labels weighed alone, known", own, "debiased", 0.0, **known)
    return found


def errors(draws: int) -> list[dict[str, Any]]:
    """How often φ ± 1.96 standard errors covers the truth, for three classes in four columns."""
    phi = np.array([0.4, 0.1, 0.03])
    rows = []
    for seed in range(draws):
        generator = np.random.default_rng(seed)
        y = generator.integers(0, 3, 2000)
        x = generator.normal(size=(2000, 4))
        x[:, 0] += 2 * y
        x[:, 1] += 2 * (y == 1)
        labelled = generator.random(2000) < phi[y]
        data = SemiData(torch.from_numpy(x).float(), np.where(labelled, y, -1))
        for method in ("em", "moments"):
            found = propensity_from_y(data, method=method, seed=seed).classes
            rows.append((method, [[one.propensity, one.standard_error] for one in found]))
    return [
        {
            "method": method,
            "class": k,
            "truth": float(phi[k]),
            "draws": draws,
            "mean": float(own[:, 0].mean()),
            "deviation": float(own[:, 0].std(ddof=1)),
            "mean_standard_error": float(own[:, 1].mean()),
            "covered_percent": float(100 * (np.abs(own[:, 0] - phi[k]) <= 1.96 * own[:, 1]).mean()),
        }
        for method in ("em", "moments")
        for k in range(3)
        for own in [np.array([values[k] for name, values in rows if name == method])]
    ]


def table(found: Sequence[Mapping[str, Any]]) -> str:
    """Means over seeds with 95 % intervals, and paired differences from the complete case."""
    lines = [
        "| design | method | seeds | balanced accuracy, % | against complete case, points "
        "| cross-entropy | against complete case |",
        "|---|---|---|---|---|---|---|",
    ]
    for design in DESIGNS:
        rows = [row for row in found if row["design"] == design]
        for method in dict.fromkeys(row["method"] for row in rows):
            cells = [design, method]
            ours = sorted((r for r in rows if r["method"] == method), key=lambda r: r["seed"])
            twin = sorted((r for r in rows if r["method"] == COMPLETE), key=lambda r: r["seed"])
            cells.append(str(len(ours)))
            for metric, scale, digits in (("balanced_accuracy", 100, 2), ("cross_entropy", 1, 3)):
                a, b = ([scale * r[metric] for r in part] for part in (ours, twin))
                mean = mean_interval(a)
                cells.append(f"{mean.mean:.{digits}f} ± {mean.half_width:.{digits}f}")
                if method == COMPLETE:
                    cells.append("")
                    continue
                test = paired_t_test(a, b)
                cells.append(f"{test.difference:+.{digits}f} ({test.low:+.{digits}f} to "
                             f"{test.high:+.{digits}f})")  # fmt: skip
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run, and write ``propensity.json`` and ``propensity.md`` as it goes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("mnist", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=math.inf, help="of this session")
    parser.add_argument("--errors", type=int, default=0, help="draws of the errors of φ, alone")
    options = parser.parse_args()
    if options.errors:
        content = {"machine": machine(), "results": errors(options.errors)}
        (options.out / "propensity_errors.json").write_text(json.dumps(content, indent=1) + "\n")
        return
    path = options.out / "propensity.json"
    found = json.loads(path.read_text())["results"] if path.exists() else []
    arrays, began = read_mnist(options.mnist), time.monotonic()
    for seed in range(options.seeds):
        for design in DESIGNS:
            if any(row["seed"] == seed and row["design"] == design for row in found):
                continue
            if time.monotonic() - began > options.seconds:
                return
            found += one_seed(design, seed, arrays)
            path.write_text(json.dumps({"machine": machine(), "results": found}, indent=1) + "\n")
            print(design, seed, len(found), flush=True)
    (options.out / "propensity.md").write_text(table(found))
    print(table(found))


if __name__ == "__main__":
    main()

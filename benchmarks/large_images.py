"""Large images on a CPU: the default, which reduces them to 32 pixels, against every pixel.

CIFAR-10's images enlarged to 64, 128 and 224 pixels a side, 2,000 of them, 300 with a label. For
each side: the seconds of a training step with the default network, which sees reduced images, and
with the same network on every pixel, in turns; then the whole default fit, its time and its
accuracy on 1,000 test images, beside that of the original images.

    PYTHONPATH=src DESSL_DATA=DATA python benchmarks/large_images.py --out FILE
    PYTHONPATH=src DESSL_DATA=DATA python benchmarks/large_images.py --smoke
"""

import argparse
import json
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import interpolate

from dessl.data import SemiData, load
from dessl.evaluation import metrics_from_logits
from dessl.recipes import fit, recipe_for
from dessl.recipes.predictor import predicted_log_proba
from dessl.recipes.scaling import reduced_data
from dessl.training.run import Run
from machine import machine

ORIGINAL = 32
SIDES = (64, 128, 224)


def images(rows: int, labels: int, side: int) -> SemiData:
    """The first rows of CIFAR-10, enlarged, with labels for the first of them."""
    data = load("cifar10", download=False)
    assert data.test is not None

    def enlarged(x: torch.Tensor) -> torch.Tensor:
        if side == ORIGINAL:
            return x
        return interpolate(x.float(), side, mode="bicubic").round().clamp(0, 255).to(torch.uint8)

    y = torch.where(torch.arange(rows) < labels, data.y[:rows], -1)
    test = (enlarged(data.test.x[: rows // 2]), data.test.y[: rows // 2])
    return SemiData(enlarged(data.x[:rows]), y, class_names=data.class_names, test=test)


def step_seconds(data: SemiData, steps: int) -> dict[str, float]:
    """Seconds of a step of the complete case, for both networks in turns: the median."""
    runs: dict[str, Run] = {}
    times: dict[str, list[float]] = {"reduced": [], "every pixel": []}
    for name, model in (("reduced", None), ("every pixel", "fast_cifar")):
        recipe = recipe_for(data, model=model)
        seen = data if recipe.reduced_to is None else reduced_data(data, recipe.reduced_to)
        runs[name] = Run(recipe.model(), recipe.surrogate, seen, recipe.plan, recipe.transform)
    for step in range(steps + 1):  # the first warms up
        for name, run in runs.items():
            began = time.perf_counter()
            run.take(step)
            times[name].append(time.perf_counter() - began)
    return {name: statistics.median(some[1:]) for name, some in times.items()}


def whole_fit(data: SemiData, steps: int | None) -> dict[str, float]:
    """Seconds of the default fit, and its metrics on the test rows."""
    assert data.test is not None
    began = time.perf_counter()
    fitted = fit(data, recipe_for(data, steps=steps), progress=False)
    seconds = time.perf_counter() - began
    log_p = predicted_log_proba(fitted.model, data.test.x)
    metrics = metrics_from_logits(log_p, data.test.y).as_dict()
    return {"seconds": seconds} | {name: metrics[name] for name in ("accuracy", "cross_entropy")}


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--smoke", action="store_true", help="few images, one step")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(argv)
    rows, labels, steps, sides = (40, 30, 1, (40,)) if options.smoke else (2000, 300, 5, SIDES)
    found: dict[str, Any] = {"machine": machine(), "rows": rows, "labels": labels, "sides": {}}
    for side in (ORIGINAL, *sides):
        data = images(rows, labels, side)
        its: dict[str, Any] = {"fit": whole_fit(data, 1 if options.smoke else None)}
        if side > ORIGINAL:
            times = step_seconds(data, steps)
            its |= {"seconds of a step": times}
            its |= {"times as long": times["every pixel"] / times["reduced"]}
        found["sides"][str(side)] = its
        print(side, its, flush=True)
        if options.out:
            options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

"""The defaults of `dessl fit` on images, on a GPU and on a CPU.

For each data set, number of labels and draw: the default on a GPU (debiased SoftMatch and its
complete case, or the default of a CPU where it does not help), and the default on a CPU (networks
trained on the labelled rows, pooled with teachers), both with the flips and turns that a probe
finds safe. With --former, the default before there were pools, strong views and flips: networks
with λ estimated on held-out labels. MedMNIST is written to a folder of PNG files, one subfolder per
class and `unlabelled`, and read back as `dessl fit FOLDER` reads it. Reports accuracy and
cross-entropy on the publisher's test rows. Writes one JSON file per run in --runs; a run that
already has its file is skipped.

    PYTHONPATH=src DESSL_DATA=DATA python benchmarks/image_default.py --device cuda --runs RUNS
    PYTHONPATH=src DESSL_DATA=DATA python benchmarks/image_default.py --runs RUNS --out FILE
"""

import argparse
import json
import tempfile
import time
import warnings
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from dessl._files import write_whole
from dessl.augment.symmetries import NO_SYMMETRIES
from dessl.data import SemiData, load
from dessl.evaluation import mean_interval, metrics_from_logits
from dessl.recipes import fit, recipe_for
from dessl.recipes.predictor import predicted_log_proba
from machine import machine

CASES = (
    ("cifar10", 250), ("mnist", 100), ("pneumoniamnist", 100), ("cifar10", 1000),
    ("bloodmnist", 250), ("dermamnist", 250), ("breastmnist", 78), ("retinamnist", 250),
)  # fmt: skip
DRAWS = 3
KEPT = ("accuracy", "cross_entropy", "brier")


def few_labels(name: str, n: int, draw: int) -> SemiData:
    """A set with n of its labels, drawn at random, and its test rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of rebuilt sets, whose name says so
        data = load(name, download=False)
    known = torch.randperm(len(data), generator=torch.Generator().manual_seed(draw))[:n]
    y = torch.full_like(data.y, -1)
    y[known] = data.y[known]
    x = data.x
    if name.endswith("mnist") and name != "mnist":
        x, y = through_folder(x, y)
    return SemiData(x, y, class_names=data.class_names, test=data.test, name=data.name)


def through_folder(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """The images and labels as read from a folder of images, in the given order."""
    with tempfile.TemporaryDirectory() as folder:
        for row, (image, label) in enumerate(zip(x, y.tolist(), strict=True)):
            place = Path(folder) / (f"{label:02d}" if label >= 0 else "unlabelled")
            place.mkdir(exist_ok=True)
            pixels = image[0] if len(image) == 1 else image.permute(1, 2, 0)
            Image.fromarray(pixels.numpy()).save(place / f"{row:06d}.png")
        read = SemiData.from_folder(folder)
    order = torch.tensor([int(Path(found).stem) for found in read.row_names]).argsort()
    classes = torch.tensor([*map(int, read.class_names), -1])  # the last one for unlabelled rows
    return read.x[order], classes[read.y][order]


def measured(
    name: str,
    n: int,
    draw: int,
    device: str,
    steps: int | None = None,
    *,
    probe: bool = True,
    former: bool = False,
) -> dict[str, Any]:
    """Fit the device's default, and measure it and its complete case.

    Args:
        name: Name of the set.
        n: Number of labels.
        draw: Seed of the labels and of training.
        device: Device to train on.
        steps: Training steps; None for the default.
        probe: Whether a probe may find flips and turns to use; otherwise none are used.
        former: Whether to fit networks alone, with λ estimated on held-out labels and no flips.
    """
    data = few_labels(name, n, draw).to(device)
    recipe = recipe_for(data, seed=draw, steps=steps, teachers=None if former else "auto")
    if former or not probe:
        recipe = replace(recipe, symmetries=NO_SYMMETRIES)
    began, used = time.perf_counter(), time.process_time()
    fitted = fit(data, recipe, progress=False)
    seconds, used = time.perf_counter() - began, time.process_time() - used
    assert data.test is not None
    x, y = data.test.x, data.test.y.cpu()
    scores = {}
    for method, model in (("default", fitted.model), ("complete case", fitted.complete_case)):
        metrics = metrics_from_logits(predicted_log_proba(model, x), y).as_dict()
        scores[method] = {metric: metrics[metric] for metric in KEPT}
    symmetries = fitted.recipe.symmetries
    shown = [name for name, safe in symmetries._asdict().items() if safe] if symmetries else []
    return {
        "set": data.name, "labels": n, "draw": draw,
        "device": f"{device}, former" if former else device, "seconds": seconds,
        "processor_seconds": used, "scores": scores, "lam": fitted.lam, "account": fitted.account,
        "symmetries": shown, "machine": machine(),
    }  # fmt: skip


def table(records: Sequence[Mapping[str, Any]]) -> str:
    """A line for each set, number of labels and device; differences are paired over draws."""
    grouped: dict[tuple[str, int, str], list[Mapping[str, Any]]] = defaultdict(list)
    for record in records:
        grouped[record["set"], record["labels"], record["device"]].append(record)
    lines = ["| set | labels | device | runs | accuracy, % | complete case, % | accuracy gained | "]
    lines[0] += "cross-entropy | complete case | cross-entropy added | Brier added | flips | "
    lines[0] += "turns | "
    lines[0] += "seconds |"
    lines += ["|---|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"]
    for (name, labels, device), its in sorted(grouped.items()):
        cells = [name, f"{labels:,}", device, str(len(its))]
        scales = (("accuracy", 100, 1), ("cross_entropy", 1, 3), ("brier", 1, 3))
        for metric, scale, digits in scales:
            ours, theirs = (
                [scale * record["scores"][method][metric] for record in its]
                for method in ("default", "complete case")
            )
            if metric != "brier":
                cells += [spread(ours, digits), spread(theirs, digits)]
            cells += [spread([a - b for a, b in zip(ours, theirs, strict=True)], digits, "+")]
        flipped = sum("flip" in record["symmetries"] for record in its)
        turned = sum("turn" in record["symmetries"] for record in its)
        seconds = sum(record["seconds"] for record in its) / len(its)
        cells += [f"{flipped} of {len(its)}", f"{turned} of {len(its)}", f"{seconds:.0f}"]
        lines += [f"| {' | '.join(cells)} |"]
    return "\n".join(lines) + "\n"


def side_by_side(records: Sequence[Mapping[str, Any]]) -> str:
    """Accuracy (%) and cross-entropy of each draw on a GPU, and of others with the same labels."""
    shown = {
        "default on a GPU": ("cuda", "default"),
        "its complete case": ("cuda", "complete case"),
        "default of a CPU": ("cpu", "default"),
        "former default": ("cpu, former", "default"),
    }
    by_run = {(one["set"], one["labels"], one["draw"], one["device"]): one for one in records}
    lines = [f"| set | labels | draw | kept | {' | '.join(shown)} |"]
    lines += ["|---|---:|---:|---|" + "---:|" * len(shown)]
    for (name, labels, draw, device), run in sorted(by_run.items()):
        if device != "cuda":
            continue
        kept = "DeSoftMatch" if run["lam"] else "as on a CPU"
        cells = [name, f"{labels:,}", str(draw), kept]
        for kind, method in shown.values():
            found = by_run.get((name, labels, draw, kind))
            scores = found and found["scores"][method]
            cells.append(
                f"{100 * scores['accuracy']:.1f}, {scores['cross_entropy']:.3f}" if scores else "–"
            )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def spread(values: Sequence[float], digits: int, sign: str = "") -> str:
    """A mean with its 95 % interval, where there are two values or more."""
    half = f" ± {mean_interval(values).half_width:.{digits}f}" if len(values) > 1 else ""
    return f"{sum(values) / len(values):{sign}.{digits}f}{half}"


def main(argv: Sequence[str] | None = None) -> None:
    """Measure what has no file yet, then print all that there is."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--runs", type=Path, required=True, help="folder with one file per run")
    parser.add_argument("--out", type=Path, help="Markdown file; records beside it")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="start none later")
    parser.add_argument("--draws", type=int, default=DRAWS)
    parser.add_argument("--sets", nargs="+", default=sorted({name for name, _ in CASES}))
    parser.add_argument("--labels", type=int, help="instead of each set's own number")
    parser.add_argument("--steps", type=int, help="for a try")
    parser.add_argument("--former", action="store_true", help="the default before there were pools")
    options = parser.parse_args(argv)
    options.runs.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + 60 * options.minutes
    for draw in range(options.draws):
        for name, own in CASES:
            n = options.labels or own
            kind = f"{options.device}-former" if options.former else options.device
            place = options.runs / f"{name}-{n}-{kind}-{draw}.json"
            if name not in options.sets or place.exists() or time.monotonic() >= end:
                continue
            found = measured(name, n, draw, options.device, options.steps, former=options.former)
            write_whole(place, json.dumps(found) + "\n")
            print(f"{place.stem} {found['scores']} {found['seconds']:.0f} s", flush=True)
    records = [json.loads(file.read_text()) for file in sorted(options.runs.glob("*.json"))]
    text = table(records)
    print(text)
    if options.out:
        same = f"\n## With the same labels\n\n{side_by_side(records)}"
        write_whole(options.out, f"# Images by default\n\n{text}{same}")
        write_whole(options.out.with_suffix(".json"), json.dumps(records, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""Numbers that no file holds as such: for each page the passage, and how results give them."""

import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from records import mean_and_half

ROOT = Path(__file__).parents[2]


def tree(path: str) -> Any:
    return json.loads((ROOT / path).read_text(encoding="utf-8"))


def surrogate_runs(measure: str, **which: str) -> list[float]:
    """In percent, one for each seed, of the study of all surrogates."""
    runs = tree("results/surrogates-digits/results.json")["results"]
    chosen = [run for run in runs if all(run[key] == value for key, value in which.items())]
    return [100 * run[measure] for run in sorted(chosen, key=lambda run: run["seed"])]


def debiased_less_usual(method: str) -> tuple[float, ...]:
    """Of accuracy, in points, paired over seeds."""
    pairs = zip(
        surrogate_runs("accuracy", method=method, risk="debiased"),
        surrogate_runs("accuracy", method=method, risk="ssl"),
        strict=True,
    )
    return mean_and_half([debiased - usual for debiased, usual in pairs])


def surrogate_intervals(column: int) -> list[tuple[str, float]]:
    """Differences to the complete case in the study's table: as printed, and the half-width."""
    table = (ROOT / "results/surrogates-digits/table.md").read_text(encoding="utf-8")
    cells = [line.split("|")[column] for line in table.splitlines() if line.startswith("| `")]
    return [(cell, float(re.findall(r"± ([\d.]+)", cell)[0])) for cell in cells]


def wide_intervals() -> tuple[int, int]:
    halves = [half for _, half in surrogate_intervals(5)]
    return sum(half > 2 for half in halves), len(halves)


def intervals_without_zero() -> tuple[int, int]:
    cells = [cell for column in (5, 6, 7) for cell, _ in surrogate_intervals(column)]
    return len(cells), sum("**" in cell for cell in cells)


def demo_row(method: str) -> tuple[float, ...]:
    """Means and half-widths over seeds, accuracy and ECE in percent."""
    runs = [
        run for run in tree("results/demo-digits/facts.json")["runs"] if run["method"] == method
    ]
    return tuple(
        number * (100 if metric in ("accuracy", "ece") else 1)
        for metric in ("accuracy", "cross_entropy", "brier", "ece")
        for number in mean_and_half([run["metrics"][metric] for run in runs])
    )


def toy_row(method: str, lam: int) -> tuple[float, ...]:
    """λ, then posterior and training cross-entropy, each with the paper's."""
    found = tree(f"results/toy/runs/toy-25000-{method}-lam{lam}-seed0.json")["metrics"]
    targets = (ROOT / "src/dessl_paper/experiments/targets.toml").read_text(encoding="utf-8")
    toy = tomllib.loads(targets)["toy"]
    pairs = (found["overlap_posterior"], toy[method])
    return lam, *pairs, found["training_cross_entropy"], toy["train_ce_final"][method]


def step_rate() -> tuple[float, ...]:
    """The DeFixMatch step's rates: its time over SSL's, the least there could be, the share."""
    step = tree("benchmarks/results/step-h200.json")
    way = step["ways"]["compiled graph"]
    ratio = step["step time, debiased over ssl"]["compiled graph / ssl"]
    return ratio, 1 / way["floor"]["seconds"], 100 * way["share of floor"]


DERIVED: dict[str, dict[str, Callable[[], tuple[float, ...]]]] = {
    "README.md": {
        # "labels" is in the facts' title and so names nothing there.
        "all labels 98.4 ± 0.5 0.060 ± 0.012 0.030 ± 0.008 1.9 ± 0.7": (
            lambda: demo_row("all labels")
        ),
        "complete case 0 0.249 (0.240) 0.259 (0.247)": lambda: toy_row("complete_case", 0),
        "PseudoLabel 1 0.125 (0.120) 0.282 (0.267)": lambda: toy_row("pseudo_label", 1),
        "DePseudoLabel 1 0.249 (0.260) 0.260 (0.247)": lambda: toy_row("de_pseudo_label", 1),
        "EntMin 1 0.075 (0.090) 0.318 (0.326)": lambda: toy_row("entropy", 1),
        "DeEntMin 1 0.249 (0.230) 0.260 (0.261)": lambda: toy_row("de_entropy", 1),
    },
    "docs/choosing.md": {"30 of the 40 intervals of accuracy": wide_intervals},
    "docs/surrogates.md": {
        "the worst of 215 has 69 % accuracy": lambda: (
            len(surrogate_runs("accuracy")),
            min(surrogate_runs("accuracy")),
        ),
        "6.1 ± 3.7 below": lambda: debiased_less_usual("vat"),
        "2.1 ± 1.8 below its usual form": lambda: debiased_less_usual("ict"),
        "1.9 ± 1.8 points above its usual form": lambda: debiased_less_usual("freematch"),
        "of 120 intervals six exclude zero by chance; 18 do": intervals_without_zero,
    },
    "docs/training.md": {
        "a step taking 1.001 times as long": lambda: step_rate()[:1],
        "399.5 steps a second by the operations and bytes of a step; 30.9 % of that": (
            lambda: step_rate()[1:]
        ),
    },
}

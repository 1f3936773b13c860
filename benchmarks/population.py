"""The runs of the paper's MNIST figure all at once, compared with one after another.

210 LeNets: 10 splits × (λ = 0, and 10 values of λ for each of SSL and DeSSL), 72 labelled and 400
unlabelled rows per step, SGD with momentum 0.9 at 0.003, pseudo-labels at τ = 0.95, an evaluation
on 100 held-out labels after each epoch of 12 steps. Rows are random levels: the time of a step does
not depend on them. A model-step is one step of one model. Three ways:

    population   train_population's own steps: compiled, in a CUDA graph
    eager loop   an ordinary PyTorch loop of one debiased run, rows already on the device
    single run   dessl.train on one debiased run

    PYTHONPATH=src python benchmarks/population.py --out benchmarks/results/population-h200.json
    PYTHONPATH=src python benchmarks/population.py --smoke     # a few runs, on any machine
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from dessl.data import SemiData, draw_labels
from dessl.models import LeNet
from dessl.surrogates import PseudoLabel
from dessl.training.plan import TrainPlan
from dessl.training.population import built_population
from dessl.training.single import train
from dessl.training.stacked_runs import PopulationRun
from machine import machine

EPOCHS = 1024
THRESHOLD = 0.95


@dataclass(frozen=True)
class Setting:
    """What is measured, and for how long."""

    device: torch.device
    rows: int
    labels: int
    validation: int
    splits: int
    lams: tuple[float, ...]
    labelled: int
    unlabelled: int
    windows: int
    epochs: int  # in a window

    @property
    def runs(self) -> int:
        """Runs of the figure: λ = 0 once, every λ twice."""
        return self.splits * (1 + 2 * len(self.lams))


FIGURE = Setting(
    torch.device("cuda"), 60_000, 1_000, 100, 10, tuple(np.logspace(-1, 1, 10)), 72, 400, 5, 8
)
SMOKE = Setting(torch.device("cpu"), 300, 100, 10, 1, (0.5,), 32, 32, 2, 1)


def centred(x: Tensor) -> Tensor:
    """The paper's Normalize(0.5, 1.0) of levels in [0, 1]."""
    return x * (1 / 255) - 0.5


def view(x: Tensor, generator: torch.Generator) -> Tensor:  # noqa: ARG001 (a View)
    """What the models see of a row."""
    return centred(x)


def random_digits(setting: Setting) -> SemiData:
    """As many rows as the training set has, of random levels and classes."""
    g = torch.Generator().manual_seed(0)
    x = torch.randint(256, (setting.rows, 1, 28, 28), dtype=torch.uint8, generator=g)
    return SemiData(x, torch.randint(10, (setting.rows,), generator=g)).to(setting.device)


def figure_runs(data: SemiData, setting: Setting) -> list[PopulationRun]:
    """Every run of the figure; the runs of a split share its labels, weights and streams."""
    runs = []
    for split in range(setting.splits):
        g = torch.Generator().manual_seed(split)
        draw = draw_labels(data.y, setting.labels, n_validation=setting.validation, generator=g)
        runs.append(PopulationRun(split, draw, 0.0, "complete_case"))
        runs += [
            PopulationRun(split, draw, float(lam), risk)
            for risk in ("ssl", "debiased")
            for lam in setting.lams
        ]
    return runs


def plan_of(setting: Setting, **options: Any) -> TrainPlan:
    """The figure's recipe."""
    return TrainPlan(
        labelled_batch=setting.labelled,
        unlabelled_batch=setting.unlabelled,
        learning_rate=0.003,
        nesterov=False,
        select="accuracy",
        **options,
    )


def wait(setting: Setting) -> None:
    """Let the device finish."""
    if setting.device.type == "cuda":
        torch.cuda.synchronize()


def windows(call: Callable[[], None], setting: Setting) -> list[float]:
    """Seconds of one call, in each window."""
    seconds = []
    for _ in range(setting.windows):
        wait(setting)
        start = time.perf_counter()
        call()
        wait(setting)
        seconds.append(time.perf_counter() - start)
    return seconds


def rate(way: str, runs: int, model_steps: int, seconds: Sequence[float]) -> dict[str, Any]:
    """Model-steps per second: the median over windows, with their extremes."""
    each = [model_steps / s for s in seconds]
    numbers = {"slowest": min(each), "fastest": max(each)}
    return {"way": way, "runs": runs, "model_steps_per_second": statistics.median(each)} | numbers


def population_rate(
    way: str, data: SemiData, runs: Sequence[PopulationRun], setting: Setting
) -> tuple[dict[str, Any], float, str]:
    """Its rate, evaluations and draws of rows included; seconds an epoch; how steps were run."""
    plan = plan_of(setting, epochs=EPOCHS)
    surrogate = PseudoLabel(THRESHOLD, view=view)
    population = built_population(LeNet, surrogate, data, runs, plan, centred)

    def epochs(count: int) -> None:
        for _ in range(count):
            began = time.perf_counter()
            for step in range(population.done, population.next_stop()):
                population.take(step)
            population.done = population.next_stop()
            population.observe(began)

    epochs(2)
    steps = setting.epochs * plan.epoch_steps(population.members[0].n_labelled)
    seconds = windows(lambda: epochs(setting.epochs), setting)
    mode = population.results()[0].mode
    found = rate(way, len(runs), len(runs) * steps, seconds)
    return found, statistics.median(seconds) / setting.epochs, mode


def drawn(rows: Tensor, size: int) -> Tensor:
    """A batch of rows, drawn where they are."""
    return rows[torch.randint(len(rows), (size,), device=rows.device)]


def eager_rate(data: SemiData, run: PopulationRun, setting: Setting) -> dict[str, Any]:
    """An ordinary loop: one model, PyTorch's layers, losses and optimiser, no graph."""
    model = LeNet().to(setting.device)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.003, momentum=0.9)
    labelled, unlabelled = (rows.to(setting.device) for rows in (run.draw[0], run.draw[2]))
    steps = setting.epochs * max(1, len(labelled) // setting.labelled)

    def loop() -> None:
        for _ in range(steps):
            known = drawn(labelled, setting.labelled)
            rows = torch.cat([known, drawn(unlabelled, setting.unlabelled)])
            logits = model(centred(data.x[rows]))
            confidence, label = logits.detach().softmax(1).max(1)
            h = F.cross_entropy(logits, label, reduction="none") * (confidence > THRESHOLD)
            loss = F.cross_entropy(logits[: setting.labelled], data.y[known])
            risk = loss + run.lam * (h[setting.labelled :].mean() - h[: setting.labelled].mean())
            optimiser.zero_grad()
            risk.backward()
            optimiser.step()

    loop()
    return rate("eager loop", 1, steps, windows(loop, setting))


def single_rate(data: SemiData, run: PopulationRun, setting: Setting) -> tuple[dict[str, Any], str]:
    """dessl.train on one run, its first evaluation interval left out."""
    plan = plan_of(setting, epochs=setting.epochs * (setting.windows + 1))
    surrogate, own = PseudoLabel(THRESHOLD, view=view), data.with_labels(run.draw)
    result = train(LeNet, surrogate, own, run.plan(plan), transform=centred, progress=False)
    each = [1 / event.steps_per_second for event in result.history[setting.epochs :]]
    return rate("single run", 1, 1, each), result.mode


def measured(setting: Setting) -> dict[str, object]:
    """All rates, their ratios, and the figure's whole time."""
    data = random_digits(setting)
    runs = figure_runs(data, setting)
    alone = [run for run in runs if run.risk == "complete_case"]
    joint = sorted((r for r in runs if r.risk != "complete_case"), key=lambda run: run.risk)
    eager = eager_rate(data, joint[0], setting)  # a debiased run
    single, single_mode = single_rate(data, joint[0], setting)
    both, seconds_joint, mode = population_rate("population, joint", data, joint, setting)
    cc, seconds_alone, _ = population_rate("population, complete case", data, alone, setting)
    steps = max(1, (setting.labels - setting.validation) // setting.labelled)
    model_steps = EPOCHS * steps * setting.runs
    every = setting.runs * steps / (seconds_joint + seconds_alone)
    return {
        "rates": [eager, single, both, cc],
        "modes": {"population": mode, "single run": single_mode},
        "runs": setting.runs,
        "model_steps_per_second": every,
        "times_eager": every / eager["model_steps_per_second"],
        "times_single": every / single["model_steps_per_second"],
        "figure_model_steps": model_steps,
        "figure_minutes": model_steps / every / 60,
        "figure_minutes_eager": model_steps / eager["model_steps_per_second"] / 60,
        "memory_gib": torch.cuda.max_memory_allocated() / 2**30,
    }


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, print, write JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--smoke", action="store_true", help="a few runs of few steps, CPU")
    parser.add_argument("--out", type=Path, help="where to write the results as JSON")
    options = parser.parse_args(argv)
    setting = SMOKE if options.smoke or not torch.cuda.is_available() else FIGURE
    report = {"machine": machine(), "smoke": setting is SMOKE} | measured(setting)
    print(", ".join(f"{key} {value}" for key, value in report["machine"].items()))
    for way, runs, median, slowest, fastest in (found.values() for found in report["rates"]):
        spread = f"({slowest:,.0f} to {fastest:,.0f})"
        print(f"{way:<30} {runs:>4} runs {median:,.0f} model-steps/s {spread}")
    print("all {runs} runs: {model_steps_per_second:,.0f} model-steps/s".format(**report))
    print(
        "times the eager loop {times_eager:.1f}, the single run {times_single:.1f}".format(**report)
    )
    print("figure: {figure_minutes:.1f} min, eager {figure_minutes_eager:.1f} min".format(**report))
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

"""Numbers that no file holds as such: for each page the passage, and how results give them."""

import json
import re
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


def demo_posteriors() -> tuple[float, ...]:
    """The toy's true posterior, what usual SSL learns and what debiased SSL does."""
    found = tree("results/demo/demo.json")["harm"]
    return found["truth"], found["means"]["ssl"], found["means"]["debiased"]


def demo_shares() -> tuple[float, ...]:
    """Accuracies of the demonstration's fit, in percent: the model's and its networks'."""
    scores = tree("results/demo/demo.json")["gain"]["scores"]
    return tuple(100 * one["value"] for one in reversed(scores))


def demo_interval() -> tuple[float, ...]:
    """The first interval from few labels, the test rows and the accuracy by all, in percent."""
    found = tree("results/demo/demo.json")["intervals"]
    first = found["draws"][0]
    return 100 * first["low"], 100 * first["high"], found["rows"], 100 * found["truth"]


def demo_cost() -> tuple[float, ...]:
    """What believing the teacher changes, in points."""
    return (100 * tree("results/demo/demo.json")["advice"]["differences"][1]["difference"],)


def floor_rate() -> tuple[float, ...]:
    """The most steps a second there could be of DeFixMatch, and the share of it, in percent."""
    ways = tree("benchmarks/results/step-h200.json")["ways"]
    most = 1 / ways["compiled graph"]["floor"]["seconds"]
    rates = tree("benchmarks/results/house-speed.json")["step, later"]["new"]["DeFixMatch"]
    return most, *(100 * rate / most for rate in sorted(rates))


def step_ratios() -> tuple[float, ...]:
    """How fast the step is: over an eager one, the complete case's over it, its time over SSL's."""
    step = tree("benchmarks/results/step-h200.json")
    names = ("eager, float32, joint", "compiled graph", "compiled graph, complete case")
    eager, ours, alone = (step["ways"][name]["steps/s"] for name in names)
    ratio = step["step time, debiased over ssl"]["compiled graph / ssl"]
    return ours / eager, alone / ours, ratio


def change(metric: str, ours: tuple[str, str], other: tuple[str, str]) -> tuple[float, ...]:
    """Mean and half-width of a difference paired over seeds; each is an experiment and its runs."""
    one, two = (
        {run["seed"]: run["metrics"][metric] for run in map(json.loads, _texts(*runs))}
        for runs in (ours, other)
    )
    return mean_and_half([one[seed] - two[seed] for seed in sorted(one.keys() & two.keys())])


def _texts(experiment: str, runs: str) -> list[str]:
    files = (ROOT / "results" / experiment / "runs").glob(f"*-{runs}-seed*.json")
    return [file.read_text(encoding="utf-8") for file in files]


def longer_mnist(method: str) -> tuple[float, ...]:
    """Accuracy at λ = 10, in points: 151,034 steps minus 13,312."""
    runs = f"1100-{method}-lam10"
    found = change("accuracy", ("mnist-long", runs), ("mnist", runs))
    return tuple(100 * value for value in found)


def other_model(metric: str, method: str, against: str = "complete_case") -> tuple[float, ...]:
    """A quantity of CNN-13 minus that of another, by default 23,000 steps on plain images."""
    one, other = (("confidence", f"4000-{name}-lam0") for name in (method, against))
    return change(metric, one, other)


def memorised() -> tuple[float, ...]:
    """The gradient's variance on training rows where it did not fall to 0, on plain images."""
    names = [f"4000-{method}-lam0" for method in ("complete_case", "longer")]
    runs = [json.loads(text) for name in names for text in _texts("confidence", name)]
    ratios = [run["metrics"]["training_gradient_least_ratio_pseudo_label"] for run in runs]
    return tuple(ratio for ratio in ratios if ratio > 0.0005)


def terms_on_mnist() -> tuple[float]:
    """The cross-entropy of DeSoftMatch minus DeFixMatch on hidden rows, both pooled."""
    [run] = [run for run in tree("benchmarks/results/strong_terms.json") if run["set"] == "mnist"]
    soft, fix = (
        run["scores"]["hidden"][f"{name}, pooled"] for name in ("DeSoftMatch", "DeFixMatch")
    )
    return (soft["cross_entropy"] - fix["cross_entropy"],)


DERIVED: dict[str, dict[str, Callable[[], tuple[float, ...]]]] = {
    "README.md": {
        "probability of 0.25 into 0.13. Debiased SSL learns 0.25": demo_posteriors,
        "right on 95.3 % of new rows; its networks alone are right on 89.7 %": demo_shares,
        "88.5 to 99.5 %; all 360 give 95.3 %": demo_interval,
        "−2.8 points": demo_cost,
    },
    "docs/choosing.md": {"30 of the 40 intervals of accuracy": wide_intervals},
    "docs/few-labels-images-measured.md": {"on MNIST it is large, −0.084": terms_on_mnist},
    "docs/surrogates.md": {
        "the worst of 215 has 69 % accuracy": lambda: (
            len(surrogate_runs("accuracy")),
            min(surrogate_runs("accuracy")),
        ),
        "6.1 ± 3.7 below": lambda: debiased_less_usual("vat"),
        "2.1 ± 1.8 below its standard form": lambda: debiased_less_usual("ict"),
        "1.9 ± 1.8 points above its standard form": lambda: debiased_less_usual("freematch"),
        "of 120 intervals six exclude zero by chance; 19 do": intervals_without_zero,
    },
    "docs/reproduction.md": {
        "raise the accuracy of PseudoLabel by 0.89 ± 0.45 points": lambda: longer_mnist("pl"),
        "that of DePseudoLabel by 0.83 ± 0.45 points": lambda: longer_mnist("de_pl"),
        "changes by +0.063 ± 0.206": lambda: other_model("lam_opt.entropy", "longer"),
        "−0.66 ± 9.26": lambda: other_model("lam_opt.pseudo_label", "longer"),
        "FixMatch's by +0.012 ± 0.009": lambda: other_model("lam_opt.fixmatch", "longer"),
        "changes by −0.001 ± 0.010": lambda: other_model("test_overconfidence", "longer"),
        "(by 0.063 ± 0.020)": lambda: other_model("test_overconfidence", "views"),
        "larger, by 0.400 ± 0.069": lambda: other_model("lam_opt.entropy", "views"),
        "smaller, by 9.46 ± 6.77": lambda: other_model("lam_opt.pseudo_label", "views"),
        "is clear, 0.263 ± 0.159": (
            lambda: other_model("test_gradient_lam_opt_entropy", "views", "longer")
        ),
        "0.210 ± 0.237": (lambda: other_model("test_gradient_lam_opt_entropy", "views")),
        "in the sixth to 0.894": memorised,
        "larger by 0.050 ± 0.012": lambda: other_model("lam_opt.fixmatch", "views"),
    },
    "docs/training.md": {
        "398.0 steps a second by the operations and bytes of a step; 31.4 and 31.8 % of that": (
            floor_rate
        ),
        "3.2 times as fast": lambda: step_ratios()[:1],
        "2.6 times as fast as DeFixMatch": lambda: step_ratios()[1:2],
        "a step taking 0.999 times as long": lambda: step_ratios()[2:],
    },
}

"""The report of benchmarks/gains.py: paired differences, three verdicts, one table for each set."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gains_fresh import FRESH
from gains_methods import METHODS
from gains_searched import SEARCHED
from gains_sets import DESIGN, KEPT_BACK

OURS, TWIN = "dessl", "complete case"
CONFIDENCE = 0.95
NOTHING = 0.005  # nats: a best gain below it is none to share in

Cell = Mapping[str, Any]


class Difference(NamedTuple):
    """Mean of paired differences and half of its 95 % t-interval."""

    mean: float
    half: float

    @property
    def surely_worse(self) -> bool:
        """Whether the whole interval lies above 0."""
        return self.mean > self.half

    def __str__(self) -> str:
        return f"{self.mean:+.3f} ± {self.half:.3f}"


class Group(NamedTuple):
    """All draws of one set with one number of labels."""

    name: str
    labelled: int
    cells: tuple[Cell, ...]

    def values(self, method: str, metric: str) -> "np.ndarray[Any, np.dtype[np.float64]]":
        """One value for each draw."""
        return np.array([cell["methods"][method][metric] for cell in self.cells])

    @property
    def methods(self) -> list[str]:
        """Those that took part in every draw."""
        return [m for m in METHODS if all(m in cell["methods"] for cell in self.cells)]

    def less(self, method: str, other: str, metric: str = "log_loss") -> Difference:
        """The first less the second, draw by draw."""
        return difference(self.values(method, metric) - self.values(other, metric))

    @property
    def best_other(self) -> str:
        """The method besides ours with the least mean log loss."""
        others = [m for m in self.methods if m != OURS]
        return min(others, key=lambda m: float(self.values(m, "log_loss").mean()))

    @property
    def share_of_best_gain(self) -> float:
        """Our gain over the complete case, as a share of the best method's in hindsight."""
        return self.our_gain / self.best_gain if self.best_gain >= NOTHING else 1.0

    @property
    def our_gain(self) -> float:
        """How much lower our mean log loss is than that of the complete case."""
        return -self.less(OURS, TWIN).mean

    @property
    def best_gain(self) -> float:
        """The same of the best method, 0 if that is the complete case."""
        losses = [float(self.values(m, "log_loss").mean()) for m in self.methods]
        return float(self.values(TWIN, "log_loss").mean()) - min(losses)


def difference(values: "np.ndarray[Any, np.dtype[np.float64]]") -> Difference:
    """Mean and half interval of differences (draws,)."""
    from scipy import stats

    n = len(values)
    if n < 2:
        return Difference(float(values.mean()), math.inf)
    quantile = float(stats.t.ppf((1 + CONFIDENCE) / 2, n - 1))
    return Difference(float(values.mean()), quantile * float(values.std(ddof=1)) / math.sqrt(n))


def read_cells(folder: Path) -> list[Cell]:
    """Every cell that was measured, sets too small for their labels left out."""
    read = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(folder.glob("*.json"))]
    return [cell for cell in read if cell is not None]


def grouped(cells: Sequence[Cell]) -> list[Group]:
    """Cells by set and number of labels."""
    keys = sorted({(cell["set"], cell["labelled"]) for cell in cells})
    return [
        Group(name, n, tuple(c for c in cells if (c["set"], c["labelled"]) == (name, n)))
        for name, n in keys
    ]


def verdicts(groups: Sequence[Group]) -> list[str]:
    """The three claims, counted."""
    worse = [g for g in groups if g.less(OURS, TWIN).surely_worse]
    better = [g for g in groups if g.less(OURS, TWIN).mean < -g.less(OURS, TWIN).half]
    tied = [g for g in groups if not g.less(OURS, g.best_other).surely_worse]
    half = [g for g in groups if g.share_of_best_gain >= 0.5]
    strictly = sum(g.our_gain >= 0.5 * g.best_gain for g in groups)
    mean = np.mean([g.less(OURS, TWIN).mean for g in groups])
    points = 100 * np.mean([g.less(OURS, TWIN, "accuracy").mean for g in groups])
    n = len(groups)
    named = ", ".join(f"{g.name} {g.labelled}" for g in worse) or "none"
    return [
        f"Significantly worse than its own complete case in log loss: {len(worse)} of {n} "
        f"({named}); significantly better: {len(better)}; mean {mean:+.3f} nats and "
        f"{points:+.1f} points of accuracy.",
        f"Best or tied in log loss (not significantly worse than the best other method): "
        f"{len(tied)} of {n}. Not: {_named(groups, tied)}.",
        f"At least half of the best method's gain in hindsight: {len(half)} of {n}. "
        f"Not: {_named(groups, half)}. A group whose best gain is below {NOTHING:g} nats counts "
        f"as passed; without this rule it is {strictly} of {n}.",
    ]


def _named(groups: Sequence[Group], passed: Sequence[Group]) -> str:
    return ", ".join(f"{g.name} {g.labelled}" for g in groups if g not in passed) or "none"


def unlabelled_gain(cell: Cell) -> float | None:
    """What the pool of a cell said the unlabelled rows brought; None without a pool."""
    ours = cell["methods"][OURS]
    if ours.get("report"):
        return float(ours["report"]["unlabelled"]["mean"])
    return ours.get("unlabelled_gain")


def unlabelled_line(groups: Sequence[Group]) -> str:
    """What the pool itself said the unlabelled rows brought, on held-out labels."""
    found = [unlabelled_gain(cell) for g in groups for cell in g.cells]
    gains = [gain for gain in found if gain is not None]
    if not gains:
        return "The cells were read without the pools' own reports."
    return (
        f"By the pools' own reports, the unlabelled rows lowered the cross-entropy of held-out "
        f"labels by {np.mean(gains):.3f} nats on average (by more than 0.01 in "
        f"{sum(g > 0.01 for g in gains)} of {len(gains)} cells, raised it as much in "
        f"{sum(g < -0.01 for g in gains)})."
    )


def table(group: Group) -> list[str]:
    """Means over draws of every method, and our paired difference from it."""
    first = group.cells[0]
    lines = [
        f"### {group.name}, {group.labelled} labels",
        "",
        f"{len(group.cells)} draws, {first['unlabelled']} unlabelled rows, {first['columns']} "
        f"columns, {first['classes']} classes.",
        "",
        "| method | log loss | accuracy | Brier | ECE | seconds | dessl less it, log loss |",
        "|---|---|---|---|---|---|---|",
    ]
    for method in group.methods:
        means = [
            f"{group.values(method, metric).mean():.3f}"
            for metric in ("log_loss", "accuracy", "brier", "ece")
        ]
        seconds = f"{group.values(method, 'seconds').mean():.1f}"
        ours = "" if method == OURS else str(group.less(OURS, method))
        lines.append(f"| {method} | {' | '.join(means)} | {seconds} | {ours} |")
    return [*lines, ""]


def summary(cells: Sequence[Cell]) -> str:
    """The counts over all sets, those that fixed constants apart."""
    machines = "; ".join(sorted({cell["machine"] for cell in cells}))
    lines = [
        "# Gains",
        "",
        f"Measured by benchmarks/gains.py ({machines}; one thread a cell). Differences are paired "
        "over draws of labels and test rows, with 95 % t-intervals; draws share one table, so "
        "intervals speak of this table alone. Every set is in gains_tables.md.",
        "",
    ]
    for title, some in _parts(cells).items():
        if some:
            lines += [f"## {title}", "", *(f"- {line}" for line in verdicts(some))]
            lines += [f"- {unlabelled_line(some)}", ""]
    return "\n".join(lines)


def tables(cells: Sequence[Cell]) -> str:
    """One table for each set and number of labels."""
    groups = [group for some in _parts(cells).values() for group in some]
    return "\n".join(["# Gains, set by set", "", *(line for g in groups for line in table(g))])


def _parts(cells: Sequence[Cell]) -> dict[str, list[Any]]:
    groups = grouped(cells)
    others = (*DESIGN, *KEPT_BACK, *SEARCHED, *FRESH)
    return {
        "Design sets": [g for g in groups if g.name in DESIGN],
        "Confirmation sets": [g for g in groups if g.name not in others],
        "Sets kept back": [g for g in groups if g.name in KEPT_BACK],
        "Sets searched for weaknesses": [g for g in groups if g.name in SEARCHED],
        "Fresh tables": [g for g in groups if g.name in FRESH],
    }

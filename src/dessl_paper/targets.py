"""The paper's numbers in our units: printed in its tables, or read off its figures.

``targets.toml`` lists curves by λ and tables by method; accuracies in tables are percentages there
and fractions here. One of our λ is compared with the paper's nearest λ if that is within 3 %.
"""

import math
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any, NamedTuple

from dessl._entries import read_toml
from dessl.evaluation.metrics.vocabulary import metric_named
from dessl.risk import COMPLETE_CASE, RISKS
from dessl_paper.results import Block, Results

LOWEST = 0.1  # λ above 0 of most of the paper's figures
NEAR = 0.03  # relative distance up to which two λ count as equal
CURVES = {"accuracy": "acc", "cross_entropy": "ce", "ece": "ece"}
SHORT = {"accuracy": "acc", "cross_entropy": "ce", "auc": "auc"}  # in the MedMNIST tables
ROWS = {COMPLETE_CASE: "cc", "pl": "pl", "de_pl": "de_pl"}
COLUMNS = {"worst_class_accuracy": "worst_class"}


def _spaced(high: float, count: int) -> tuple[float, ...]:
    return (0.0, *(LOWEST * (high / LOWEST) ** (k / (count - 1)) for k in range(count)))


# λ of the paper's figures; those of CIFAR-100 were read off it.
GRIDS = {
    "mnist": _spaced(10, 10),
    "mnist_label_noise": _spaced(10, 10),
    "cifar10": _spaced(20, 15),
    "cifar100": (0.0, 0.11, 0.7, 1.0, 3.0, 6.4, 11.8, 17.0, 20.0),
}


@cache
def paper_targets() -> dict[str, Any]:
    """Everything in ``targets.toml``.

    >>> paper_targets()["toy"]["pseudo_label"]
    0.12
    """
    return read_toml(resources.files("dessl_paper") / "experiments" / "targets.toml")


def targets_at(path: str) -> dict[str, Any]:
    """The table at a dotted path; an empty path gives an empty table.

    >>> targets_at("tables.fixmatch.cifar10")["fixmatch"]["accuracy"]
    [93.87, 0.13]
    """
    found: Any = paper_targets()
    if not path:
        return {}
    for part in path.split("."):
        if not isinstance(found, dict) or part not in found:
            raise KeyError(f"targets.toml has no table {path!r}.")
        found = found[part]
    table: dict[str, Any] = found
    return table


class Printed(NamedTuple):
    """A number of the paper and half of its 95 % interval, if it gives one."""

    mean: float
    half_width: float | None = None


NOTHING = Printed(math.nan)


def printed(
    results: Results, block: Block, method: str, metric: str, lam: float | None = None
) -> Printed:
    """The paper's number for a method of a block; NaN if it has none.

    Args:
        results: The experiment.
        block: Data set and number of labels.
        method: Name.
        metric: Name.
        lam: λ, if the paper has a curve.
    """
    path = results.experiment.targets
    if path.startswith("curves."):
        lams, values = paper_curve(results, method, metric)
        near = [v for at, v in zip(lams, values, strict=True) if same_lambda(at, lam or 0.0)]
        return Printed(near[0]) if near else NOTHING
    table = targets_at(path)
    if path == "toy":
        return _toy(table, method, metric)
    if path == "lambda_opt_on_test":
        return _scaled(metric, table.get(metric.removeprefix("lam_opt.")))
    if path == "tables.medmnist":
        return _medical(table, block.data.removesuffix("mnist"), method, metric)
    if path.startswith("tables."):
        return _scaled(metric, table.get(method, {}).get(COLUMNS.get(metric, metric)))
    return NOTHING


def paper_curve(
    results: Results, method: str, metric: str
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The paper's λ and means of a curve, 0 first; both empty if it has none."""
    path = results.experiment.targets
    name = path.removeprefix("curves.")
    if not path.startswith("curves.") or metric not in CURVES:
        return (), ()
    side = "de" if results.risk(method) == "debiased" else "pl"
    values = tuple(targets_at(path).get(f"{side}_{CURVES[metric]}", ()))
    if not RISKS[results.risk(method)].unlabelled:
        return (0.0,) * len(values[:1]), values[:1]
    return (GRIDS[name], values) if values else ((), ())


def paper_p_value(results: Results, method: str, metric: str) -> float:
    """The paper's one-sided p-value that a debiased method is better than its usual twin."""
    path = results.experiment.targets
    table = targets_at(path).get(f"p_values_{method}_better", {})
    return float(table.get(metric, math.nan))


def paper_classes(results: Results, name: str) -> list[float]:
    """The paper's row of one number per class (only for CIFAR-10); empty if it has none."""
    if results.experiment.targets != "tables.fixmatch.cifar10":
        return []
    scale = 1 if name.endswith("_br") else 100
    row = paper_targets()["tables"]["per_class_cifar10"].get(name, [])
    return [value / scale for value in row]


def same_lambda(a: float, b: float) -> bool:
    """Whether two λ count as equal.

    >>> same_lambda(0.1668, 0.16681005), same_lambda(0.1, 0.11), same_lambda(0.0, 0.0)
    (True, False, True)
    """
    return abs(a - b) <= NEAR * min(a, b)


def _toy(table: Mapping[str, Any], method: str, metric: str) -> Printed:
    if metric == "training_cross_entropy":
        return _scaled(metric, table["train_ce_final"].get(method))
    return _scaled(metric, table.get(method) if metric == "overlap_posterior" else None)


def _medical(table: Mapping[str, Any], data: str, method: str, metric: str) -> Printed:
    row = ROWS.get(method, method)
    if metric == "balanced_accuracy":
        return _scaled(metric, table.get(f"{data}_balanced_accuracy", {}).get(row))
    return _scaled(metric, table.get(data, {}).get(SHORT.get(metric, metric), {}).get(row))


def _scaled(metric: str, entry: Any) -> Printed:
    scale = metric_named(metric).unit
    if entry is None:
        return NOTHING
    if isinstance(entry, list):
        mean, half_width = entry
        return Printed(mean / scale, half_width / scale)
    return Printed(entry / scale)

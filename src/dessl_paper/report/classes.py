"""Accuracy class by class, and each class's benefit ratio, as means over splits."""

import statistics
from collections.abc import Mapping, Sequence

from dessl.data.publishers import DATASETS
from dessl.evaluation.metrics import benefit_ratio
from dessl_paper.report.averages import Average, average, number
from dessl_paper.report.results import Block, Results

MOST = 20  # classes that a table or a panel can show
ALONE, EVERYTHING = "complete_case", "supervised"


def class_accuracies(results: Results, block: Block) -> dict[str, list[Average]]:
    """Each method's accuracies by class, (classes,) a method.

    Empty where no run has any, or where there are too many classes to show.
    """
    found = {}
    for method in results.methods:
        rows = [
            [number(value) for value in record.metrics.get("per_class_accuracy") or ()]
            for record in results.runs(block, method)
        ]
        columns = [*zip(*(row for row in rows if row), strict=True)]
        if 0 < len(columns) <= MOST:
            found[method] = [average(column) for column in columns]
    return found


def benefit_ratios(accuracies: Mapping[str, Sequence[Average]]) -> dict[str, list[float]]:
    """Benefit ratios of mean accuracies, where the complete case and all labels were run too."""
    if not {ALONE, EVERYTHING} <= set(accuracies):
        return {}
    means = {name: [one.mean for one in row] for name, row in accuracies.items()}
    alone, everything = means.pop(ALONE), means.pop(EVERYTHING)
    return {name: benefit_ratio(row, alone, everything).tolist() for name, row in means.items()}


def spread(ratios: Sequence[float]) -> float:
    """Standard deviation (n − 1) over the classes that have a ratio; NaN below two.

    >>> round(spread([0.5, 1.0, float("nan")]), 4)
    0.3536
    """
    known = [ratio for ratio in ratios if ratio == ratio]
    return statistics.stdev(known) if len(known) > 1 else float("nan")


def class_names(block: Block, count: int) -> tuple[str, ...]:
    """The publisher's names of the classes, or their numbers."""
    known = DATASETS[block.data].class_names if block.data in DATASETS else ()
    return known if len(known) == count else tuple(map(str, range(count)))

"""Methods compared over seeds: paired, each against the complete case."""

import math
from collections.abc import Sequence

from dessl.evaluation import paired_t_test
from dessl.report.facts import Comparison, RunResult

METRICS = ("accuracy", "cross_entropy", "brier", "ece")
TEST = "paired t-test over seeds"


def seed_comparisons(
    runs: Sequence[RunResult], methods: Sequence[str], metrics: Sequence[str] = METRICS
) -> tuple[Comparison, ...]:
    """Return the paired t-test of each method against the first, metric by metric.

    Args:
        runs: One for each method and seed.
        methods: Names, the one to compare with first.
        metrics: Fields of ``Metrics``. Where a value is not finite there is no test.
    """
    baseline, *others = methods
    comparisons = []
    for method in others:
        for metric in metrics:
            pairs = _pairs(runs, method, baseline, metric)
            if len(pairs) < 2 or not all(math.isfinite(value) for pair in pairs for value in pair):
                continue
            test = paired_t_test([ours for ours, _ in pairs], [theirs for _, theirs in pairs])
            comparisons.append(
                Comparison(
                    metric, method, baseline, test.difference, test.low, test.high, test.p_value,
                    test.confidence, TEST, test.n,
                )
            )  # fmt: skip
    return tuple(comparisons)


def _pairs(
    runs: Sequence[RunResult], method: str, baseline: str, metric: str
) -> list[tuple[float, float]]:
    found: dict[int, dict[str, float]] = {}
    for run in runs:
        value = run.metrics[metric]
        found.setdefault(run.seed, {})[run.method] = math.nan if value is None else float(value)
    return [
        (values[method], values[baseline])
        for values in found.values()
        if method in values and baseline in values
    ]

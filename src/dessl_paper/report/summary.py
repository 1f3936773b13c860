"""The numbers behind tables and sentences, for programs: means, tests and the paper's."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from dessl._json import finite
from dessl_paper.report.averages import average, values_of
from dessl_paper.report.comparison import Comparison, over_lambda
from dessl_paper.report.findings.all import summary
from dessl_paper.report.findings.finding import Finding
from dessl_paper.report.paper import printed
from dessl_paper.report.results import Block, Results
from dessl_paper.report.tables.methods import comparisons


def summary_entries(results: Results, findings: Sequence[Finding]) -> dict[str, Any]:
    """Means by data set, method, λ and metric, the comparisons, and the findings."""
    trained = results.shape in ("sweep", "methods")
    return {
        "experiment": results.experiment["name"],
        "profile": results.experiment.get("profile"),
        "summary": summary(results, findings),
        "findings": [dataclasses.asdict(one) for one in findings],
        "means": [one for block in results.blocks for one in _means(results, block)],
        "comparisons": [
            finite(block._asdict() | dataclasses.asdict(one))
            for block in (results.blocks if trained else ())
            for one in _comparisons(results, block)
        ],
    }


def _means(results: Results, block: Block) -> list[dict[str, Any]]:
    found = []
    for method, title in results.methods.items():
        for lam in results.lams(method):
            runs = results.runs(block, method, lam)
            for metric in results.metrics:
                ours = average(values_of(runs, metric))
                given = printed(results, block, method, metric, lam)
                entries = block._asdict() | {"method": method, "title": title, "lam": lam}
                entries["metric"] = metric
                entries |= dataclasses.asdict(ours)
                entries |= {"paper": given.mean, "paper_half_width": given.half_width}
                found += [finite(entries)] if ours.n else []
    return found


def _comparisons(results: Results, block: Block) -> list[Comparison]:
    if results.shape == "methods":
        return [one for metric in results.metrics for one in comparisons(results, block, metric)]
    pairs = [(debiased, usual) for usual, debiased in results.twins()]
    if alone := results.complete_case():
        pairs += [(name, alone) for name in results.methods if name != alone]
    return [
        one
        for method, against in pairs
        for metric in results.metrics
        for one in over_lambda(results, block, metric, method, against)
        if one.n
    ]

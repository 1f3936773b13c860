"""Every finding of an experiment, whatever its shape."""

import math
from collections.abc import Callable, Sequence

from dessl_paper.report.averages import values_of
from dessl_paper.report.findings.finding import Finding, counted
from dessl_paper.report.findings.methods import method_findings
from dessl_paper.report.findings.probe import probe_findings
from dessl_paper.report.findings.sweep import sweep_findings
from dessl_paper.report.findings.toy import toy_findings
from dessl_paper.report.results import Block, Results, Shape, block_of, diverged
from dessl_paper.report.titles import data_title
from dessl_paper.report.wording import lambda_text, listed, plain

SMOKE = "This is a smoke run: it shows that all works, and its numbers say nothing of the paper."

MAKERS: dict[Shape, Callable[[Results], list[Finding]]] = {
    "sweep": sweep_findings,
    "methods": method_findings,
    "probe": probe_findings,
    "toy": toy_findings,
}


def findings_of(results: Results) -> list[Finding]:
    """What agrees, what does not, which runs diverged, and which numbers are infinite."""
    return [*MAKERS[results.shape](results), *_divergences(results), *_infinities(results)]


def summary(results: Results, findings: Sequence[Finding]) -> str:
    """One sentence on all findings; of a smoke run, that it is one."""
    if results.experiment.get("profile") == "smoke":
        return f"{SMOKE} {counted(findings)}"
    return counted(findings)


def _divergences(results: Results) -> list[Finding]:
    dead = [record for record in results.records if diverged(record)]
    if not dead:
        return []
    said = sorted(
        f"{_on(results, block_of(r))}{r.title} at λ = {lambda_text(r.lam)}, split {r.seed}"
        for r in dead
    )
    return [Finding("fact", f"Diverged, and left out of every mean: {listed(said)}.")]


def _infinities(results: Results) -> list[Finding]:
    said = [
        f"{_on(results, block)}{plain(metric)} of {name} at λ = {lambda_text(lam)} "
        f"({count} of {len(values)} splits)"
        for block in results.blocks
        for method, name in results.methods.items()
        for lam in results.lams(method)
        for metric in results.metrics
        if (values := values_of(results.runs(block, method, lam), metric))
        and (count := sum(map(math.isinf, values)))
    ]
    if not said:
        return []
    text = f"Infinite, so that there is no interval, difference or p-value: {listed(said)}."
    return [Finding("fact", text)]


def _on(results: Results, block: Block) -> str:
    return f"{data_title(results, block)}: " if len(results.blocks) > 1 else ""

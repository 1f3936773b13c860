"""Every finding of an experiment, whatever its shape."""

from collections.abc import Callable, Sequence

from dessl.report.reproduction.findings.finding import Finding, counted
from dessl.report.reproduction.findings.methods import method_findings
from dessl.report.reproduction.findings.probe import probe_findings
from dessl.report.reproduction.findings.sweep import sweep_findings
from dessl.report.reproduction.findings.toy import toy_findings
from dessl.report.reproduction.results import Results, Shape, block_of, diverged
from dessl.report.reproduction.titles import data_title
from dessl.report.reproduction.wording import lambda_text, listed

SMOKE = "This is a smoke run: it shows that all works, and its numbers say nothing of the paper."

MAKERS: dict[Shape, Callable[[Results], list[Finding]]] = {
    "sweep": sweep_findings,
    "methods": method_findings,
    "probe": probe_findings,
    "toy": toy_findings,
}


def findings_of(results: Results) -> list[Finding]:
    """What agrees, what does not, and which runs diverged."""
    return [*MAKERS[results.shape](results), *_divergences(results)]


def summary(results: Results, findings: Sequence[Finding]) -> str:
    """One sentence on all findings; of a smoke run, that it is one."""
    if results.experiment.get("profile") == "smoke":
        return f"{SMOKE} {counted(findings)}"
    return counted(findings)


def _divergences(results: Results) -> list[Finding]:
    dead = [record for record in results.records if diverged(record)]
    if not dead:
        return []
    several = len(results.blocks) > 1
    said = sorted(
        f"{f'{data_title(results, block_of(r))}: ' if several else ''}"
        f"{r.title} at λ = {lambda_text(r.lam)}, split {r.seed}"
        for r in dead
    )
    return [Finding("fact", f"Diverged, and left out of every mean: {listed(said)}.")]

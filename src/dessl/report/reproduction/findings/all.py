"""Every finding of an experiment, whatever its shape."""

from dessl.report.reproduction.findings.finding import Finding
from dessl.report.reproduction.findings.methods import method_findings
from dessl.report.reproduction.findings.sweep import sweep_findings
from dessl.report.reproduction.results import Results, diverged
from dessl.report.reproduction.wording import lambda_text, listed


def findings_of(results: Results) -> list[Finding]:
    """What agrees, what does not, and which runs diverged."""
    made = {"sweep": sweep_findings, "methods": method_findings}
    return [*made[results.shape](results), *_divergences(results)]


def _divergences(results: Results) -> list[Finding]:
    dead = [record for record in results.records if diverged(record)]
    if not dead:
        return []
    said = sorted({f"{r.title} at λ = {lambda_text(r.lam)}, split {r.seed}" for r in dead})
    return [Finding("fact", f"Diverged, and left out of every mean: {listed(said)}.")]

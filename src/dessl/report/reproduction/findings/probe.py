"""What the probes say: is the estimate unbiased, does its variance fall, and where is λ_opt."""

import math
from collections.abc import Iterator

from dessl.experiments.record import Record
from dessl.report.reproduction.averages import number
from dessl.report.reproduction.findings.finding import Finding
from dessl.report.reproduction.findings.levels import Level, gap, level
from dessl.report.reproduction.results import Block, Results
from dessl.report.reproduction.tables.probe import LAMBDA, terms_of
from dessl.report.reproduction.wording import lambda_text, listed

# An estimate that is unbiased at all λ is a line in λ with two random coefficients: its largest
# bias over all λ, in standard errors, is below this in 95 % of cases (χ² with 2 degrees, rooted).
CHANCE = math.sqrt(-2 * math.log(0.05))


def probe_findings(results: Results) -> list[Finding]:
    """Findings of every run that was looked through, or of λ_opt over all of them."""
    found: list[Finding] = []
    for block in results.blocks:
        for method in results.methods:
            runs = results.runs(block, method)
            for record in runs:
                name = f"Split {record.seed}: " if len(runs) > 1 else ""
                found += [Finding(one.outcome, name + one.text) for one in _of(record)]
            found += _lambdas(results, block, method)
    return found


def _of(record: Record) -> Iterator[Finding]:
    if "ssl_mean" in record.arrays:
        yield _bias(record)
    if "ratio_theory" in record.arrays:
        yield _variance(record)


def _bias(record: Record) -> Finding:
    debiased = number(record.metrics.get("debiased_largest_bias_in_errors"))
    ssl = number(record.metrics.get("ssl_largest_bias_in_errors"))
    lams, oracle = record.arrays["lams"], number(record.metrics.get("oracle"))
    inside = {
        name: sum(
            low <= oracle <= high
            for low, high in zip(
                record.arrays[f"{name}_low"], record.arrays[f"{name}_high"], strict=True
            )
        )
        for name in ("ssl", "debiased")
    }
    text = (
        f"The oracle lies in the debiased estimate's band at {inside['debiased']} of {len(lams)} λ "
        f"and in the semi-supervised one's at {inside['ssl']}; the mean over splits is off by up "
        f"to {debiased:.1f} standard errors (debiased) and {ssl:.1f} (SSL), where chance gives "
        f"up to {CHANCE:.1f}. The paper has the debiased one unbiased and the other not."
    )
    as_claimed = debiased <= CHANCE, ssl > CHANCE
    return Finding(
        "agrees" if all(as_claimed) else "in part" if any(as_claimed) else "differs", text
    )


def _variance(record: Record) -> Finding:
    arrays = record.arrays
    lams, theory, seen = arrays["lams"], arrays["ratio_theory"], arrays["ratio_empirical"]
    lam = number(record.metrics.get("lam_opt"))
    least = number(record.metrics.get("least_ratio_empirical"))
    apart, at = max((abs(a - b), x) for a, b, x in zip(theory, seen, lams, strict=True))
    below = [x for x, ratio in zip(lams, seen, strict=True) if ratio < 1]
    reach = (
        f"for λ from {lambda_text(min(below))} to {lambda_text(max(below))}" if below else "nowhere"
    )
    text = (
        f"At λ_opt = {lambda_text(lam)} the variance over splits is {least:.3f} of the complete "
        f"case's (theorem 3.1: {number(record.metrics.get('least_ratio')):.3f}); it is below it "
        f"{reach}, and farthest from the theorem at λ = {lambda_text(at)}, by {apart:.3f}. The "
        "paper has it below the complete case's at λ_opt."
    )
    return Finding("agrees" if least < 1 else "differs", text)


def _lambdas(results: Results, block: Block, method: str) -> Iterator[Finding]:
    known: list[Level] = []
    for term in terms_of(results, block, method):
        metric = f"{LAMBDA}{term}"
        found = level(results, block, method, metric, 0.0, term.replace("_", " "))
        if found is None:
            continue
        known.append(found)
        text = f"λ_opt of {found.name}: {gap(metric, found)}"
        if found.ours.half_width is None:
            yield Finding("open", f"{text}; one model, no interval over models.")
        elif found.meets:
            yield Finding("agrees", f"{text}; our interval over models holds it.")
        else:
            yield Finding("differs", f"{text}; our interval over models does not hold it.")
    if len(known) > 1:
        ours = [one.name for one in sorted(known, key=lambda one: one.ours.mean)]
        theirs = [one.name for one in sorted(known, key=lambda one: one.paper.mean)]
        text = (
            f"From the least λ_opt to the largest: {listed(ours)}; in the paper {listed(theirs)}."
        )
        yield Finding("agrees" if ours == theirs else "differs", text)

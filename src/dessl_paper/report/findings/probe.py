"""What the probes say: is the estimate unbiased, does its variance fall, and where is λ_opt."""

import math
from collections.abc import Callable, Iterator

from dessl.results.record import Record
from dessl_paper.report.averages import number
from dessl_paper.report.findings.finding import Finding, Outcome
from dessl_paper.report.findings.levels import Level, gap, level
from dessl_paper.report.results import Block, Results
from dessl_paper.report.tables.probe import LAMBDA, terms_of
from dessl_paper.report.wording import lambda_text, listed

# An estimate that is unbiased at all λ is a line in λ with two random coefficients: its largest
# bias over all λ, in standard errors, is below this in 95 % of cases (χ² with 2 degrees, rooted).
CHANCE = math.sqrt(-2 * math.log(0.05))

LEAST_SEEN = "least_ratio_empirical"


def probe_findings(results: Results) -> list[Finding]:
    """Findings of every run that was looked through, or of λ_opt over all of them."""
    found: list[Finding] = []
    splits = results.experiment.get("settings", {}).get("splits", 0)
    for block in results.blocks:
        for method in results.methods:
            runs = results.runs(block, method)
            for record in runs:
                name = f"Split {record.seed}: " if len(runs) > 1 else ""
                found += [Finding(one.outcome, name + one.text) for one in _of(record, splits)]
            found += _lambdas(results, block, method)
    return found


def _of(record: Record, splits: int) -> Iterator[Finding]:
    if "ssl_mean" in record.arrays:
        yield _bias(record)
    if "ratio_theory" in record.arrays:
        yield _variance(record, splits)


def _bias(record: Record) -> Finding:
    debiased = number(record.metrics["debiased_largest_bias_in_errors"])
    ssl = number(record.metrics["ssl_largest_bias_in_errors"])
    lams, oracle = record.arrays["lams"], number(record.metrics["oracle"])
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


def _variance(record: Record, splits: int) -> Finding:
    """Does debiasing make the estimate less variable, as the paper has it for λ > 0?

    For splits of these very rows theorem 3.1 is exact, and what the splits show differs from it by
    chance alone. Still the splits are what was measured: where they are on the other side of the
    complete case, the theorem's number claims nothing by itself.
    """
    lam, exact, seen = (
        number(record.metrics[name]) for name in ("lam_opt", "least_ratio", LEAST_SEEN)
    )
    if lam == 0 and set(record.arrays["ratio_theory"]) == {1.0}:
        text = "H is the same for all these rows: the variance is the complete case's at every λ."
        return Finding("open", text)
    error = ratio_error(exact, splits)
    chance = min(seen, exact) > 0 and abs(math.log(seen / exact)) <= 2 * error
    at_best = (
        f"At λ_opt = {lambda_text(lam)} the variance is {exact:.3f} of the complete case's by "
        f"theorem 3.1, which is exact for these rows, and {seen:.3f} over {splits} splits, "
        f"{'as near as chance lets it be' if chance else 'farther off than chance explains'} "
        f"(standard error {exact * error:.3f}, of a normal estimate that correlates with the "
        "complete case's as the theorem has it)."
    )
    over_lambda, shown = _above(record) if lam <= 0 else _below(record, lam, seen)
    text = f"{at_best} {over_lambda}"
    if not shown:
        return Finding("open" if chance else "in part", text)
    if lam <= 0:
        return Finding("differs", text)
    return Finding("agrees" if chance else "in part", text)


def _below(record: Record, lam: float, at_best: float) -> tuple[str, bool]:
    """With λ_opt > 0: where the variance is below, and whether the splits have it so at λ_opt."""
    end = 2 * lam
    ratios = _seen(record, lambda at: at < end and not math.isclose(at, end))
    text = (
        f"By the theorem it is below for λ from 0 to {lambda_text(end)}, as the paper has it; over "
        f"the splits at {sum(ratio < 1 for ratio in ratios)} of {len(ratios)} λ between"
    )
    shown = at_best < 1
    return f"{text}{'' if shown else ', so that they do not show it to fall'}.", shown


def _above(record: Record) -> tuple[str, bool]:
    """With λ_opt ≤ 0: that the variance is above for λ > 0, and whether the splits have it so."""
    ratios = _seen(record, lambda _: True)
    above = sum(ratio > 1 for ratio in ratios)
    text = (
        "With λ > 0 it is above the complete case's at every λ by the theorem, and over the splits "
        f"at {above} of {len(ratios)} λ; the paper has it below."
    )
    return text, above == len(ratios)


def _seen(record: Record, chosen: Callable[[float], bool]) -> list[float]:
    """The ratio of variances over the splits at each positive λ of the curve that is chosen."""
    lams, ratios = record.arrays["lams"], record.arrays["ratio_empirical"]
    zero = 1e-9 * max(lams)  # the middle of a curve that goes both ways is 0 but for rounding
    pairs = zip(lams, ratios, strict=True)
    return [number(ratio) for lam, ratio in pairs if lam > zero and chosen(lam)]


def ratio_error(ratio: float, splits: int) -> float:
    """Standard error of the logarithm of the variances' ratio over n splits: 2 √((1 − r)/(n − 1)).

    The two estimates, one of least variance among a + λb and the other a, correlate with √r.

    >>> round(ratio_error(0.75, 101), 3)
    0.1
    """
    return 2 * math.sqrt(max(0.0, 1 - ratio) / max(1, splits - 1))


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
        outcome: Outcome = "agrees" if ours == theirs else "differs"
        sure = all(one.ours.half_width is not None for one in known)
        yield Finding(outcome if sure else "open", text)

"""What a λ-sweep says beside the paper's: the complete case, the end of large λ, and the levels."""

import math
from collections.abc import Iterator, Sequence

from dessl_paper.report.comparison import Comparison, over_lambda
from dessl_paper.report.findings.directions import (
    agreement,
    agreement_text,
    direction_finding,
    with_paper,
    with_sign,
)
from dessl_paper.report.findings.finding import Finding, placed
from dessl_paper.report.findings.levels import gap, level, level_finding
from dessl_paper.report.results import Block, Results
from dessl_paper.report.wording import amount, lambda_text, listed, plain

LARGE = 1.0


def sweep_findings(results: Results) -> list[Finding]:
    """Findings of every data set, pair of methods and metric."""
    return [
        placed(results, block, one) for block in results.blocks for one in _findings(results, block)
    ]


def _findings(results: Results, block: Block) -> Iterator[Finding]:
    for metric in results.metrics:
        yield from _complete_case(results, block, metric)
    for usual, debiased in results.twins():
        for metric in results.metrics:
            tests = over_lambda(results, block, metric, debiased, usual)
            yield from _at_large_lambda(results, tests)
            if metric == "accuracy":
                yield from _closeness(results, tests)
        for method in (usual, debiased):
            for metric in results.metrics:
                yield from _levels(results, block, method, metric)


def _complete_case(results: Results, block: Block, metric: str) -> Iterator[Finding]:
    alone = results.complete_case()
    found = level(results, block, alone, metric, 0.0, "") if alone else None
    if found is None:
        return
    text = f"{plain(metric)} of the complete case is {gap(metric, found)}"
    if found.ours.half_width is None:
        yield Finding("open", f"{text}; one split, no interval.")
    elif found.meets:
        yield Finding("agrees", f"{text}; our interval holds it.")
    else:
        yield Finding("differs", f"{text}; our interval does not hold it.")


def _levels(results: Results, block: Block, method: str, metric: str) -> Iterator[Finding]:
    found = [
        level(results, block, method, metric, lam, f"λ = {lambda_text(lam)}")
        for lam in results.lams(method)
    ]
    of = f"{results.methods[method]}: "
    made = level_finding(metric, [one for one in found if one], of)
    if made:
        yield made


def _at_large_lambda(results: Results, tests: list[Comparison]) -> Iterator[Finding]:
    """The largest λ in full, then all from ``LARGE`` on; the verdict is that of them all."""
    large = [one for one in tests if one.n and one.lam >= LARGE]
    if not large:
        return
    last = large[-1]
    made = direction_finding(results, last, f"at λ = {lambda_text(last.lam)} ")
    if made is None:
        return
    known = with_sign(large)
    if not known:
        yield made
        return
    more = "" if known == [last] else f" {_signs(known)}"
    yield Finding(agreement(known), made.text + more)


def _signs(known: Sequence[Comparison]) -> str:
    """At how many large λ the sign is the paper's, and where it clearly is not."""
    text = f"For λ ≥ {LARGE:g} the sign is the paper's {agreement_text(known, 'values')}"
    other = [lambda_text(one.lam) for one in known if one.clear and not one.same_direction]
    return f"{text}; clearly not at λ = {listed(other)}." if other else f"{text}."


def _closeness(results: Results, tests: list[Comparison]) -> Iterator[Finding]:
    """How far the two accuracies part at most: the paper's claim is that they are alike."""
    known = [one for one in tests if not math.isnan(one.difference)]
    if not known:
        return
    far = max(known, key=lambda one: abs(one.difference))
    names = results.methods
    text = (
        f"over all λ the mean accuracies of {names[far.method]} and {names[far.against]} "
        f"are never farther apart than {amount('accuracy', far.difference)} "
        f"(at λ = {lambda_text(far.lam)})"
    )
    papers = [abs(one.paper) for one in with_paper(known)]
    if papers:
        text += f"; in the paper, over the same λ, {amount('accuracy', max(papers))}"
    yield Finding("fact", f"{text}.")

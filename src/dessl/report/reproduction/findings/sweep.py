"""What a λ-sweep says beside the paper's: the complete case, the levels, and the end of large λ."""

from collections.abc import Iterator

from dessl.report.reproduction.comparison import Comparison, over_lambda
from dessl.report.reproduction.findings.directions import agreement_text, direction_finding
from dessl.report.reproduction.findings.finding import Finding
from dessl.report.reproduction.findings.levels import gap, level, level_finding
from dessl.report.reproduction.results import Block, Results
from dessl.report.reproduction.titles import data_title
from dessl.report.reproduction.wording import amount, lambda_text, plain

LARGE = 1.0


def sweep_findings(results: Results) -> list[Finding]:
    """Findings of every data set, pair of methods and metric."""
    return [one for block in results.blocks for one in _findings(results, block)]


def _findings(results: Results, block: Block) -> Iterator[Finding]:
    where = data_title(results, block)
    alone = results.complete_case()
    for metric in results.metrics:
        found = alone and level(results, block, alone, metric, 0.0, "complete case")
        if found:
            text = f"{where}: {plain(metric)} of the complete case is {gap(metric, found)}"
            if found.ours.half_width is None:
                yield Finding("open", f"{text}; one split, no interval.")
            else:
                verb = "holds" if found.meets else "does not hold"
                outcome = "agrees" if found.meets else "differs"
                yield Finding(outcome, f"{text}; our interval {verb} it.")
    for usual, debiased in results.twins():
        for metric in results.metrics:
            tests = over_lambda(results, block, metric, debiased, usual)
            yield from _at_large_lambda(results, where, tests)
            yield from _closeness(results, where, tests)
        for method in (usual, debiased):
            for metric in results.metrics:
                yield from _levels(results, block, where, method, metric)


def _levels(
    results: Results, block: Block, where: str, method: str, metric: str
) -> Iterator[Finding]:
    found = [
        level(results, block, method, metric, lam, f"λ = {lambda_text(lam)}")
        for lam in results.lams(method)
    ]
    made = level_finding(
        f"{where}, {results.methods[method]}", metric, [one for one in found if one]
    )
    if made:
        yield made


def _at_large_lambda(results: Results, where: str, tests: list[Comparison]) -> Iterator[Finding]:
    large = [one for one in tests if one.n and one.lam >= LARGE]
    if not large:
        return
    last = large[-1]
    made = direction_finding(results, f"{where}, λ = {lambda_text(last.lam)}", last)
    if made is None:
        return
    if len(large) > 1 and any(one.paper == one.paper for one in large):
        more = f" Over the λ ≥ 1 the sign is the paper's at {agreement_text(large)}."
        made = Finding(made.outcome, made.text + more)
    yield made


def _closeness(results: Results, where: str, tests: list[Comparison]) -> Iterator[Finding]:
    """Accuracy alone: the paper's claim there is that the two are alike."""
    known = [one for one in tests if one.n and one.metric == "accuracy"]
    if not known:
        return
    far = max(known, key=lambda one: abs(one.difference))
    names = results.methods
    text = (
        f"{where}: over all λ the accuracies of {names[far.method]} and {names[far.against]} are "
        f"never farther apart than {amount('accuracy', far.difference)} "
        f"(λ = {lambda_text(far.lam)})"
    )
    papers = [abs(one.paper) for one in known if one.paper == one.paper]
    if papers:
        text += f"; in the paper {amount('accuracy', max(papers))} at the same λ values"
    yield Finding("fact", f"{text}.")

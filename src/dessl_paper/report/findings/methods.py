"""What a table of methods says beside the paper's: levels by data set, and signs of differences."""

from collections.abc import Iterator, Mapping

from dessl_paper.report.comparison import Comparison, compared
from dessl_paper.report.findings.classes import class_findings
from dessl_paper.report.findings.directions import (
    agreement,
    agreement_text,
    difference_text,
    direction_finding,
    with_sign,
)
from dessl_paper.report.findings.finding import Finding, placed
from dessl_paper.report.findings.levels import Level, gap, level, level_finding
from dessl_paper.report.results import Block, Results
from dessl_paper.report.wording import listed, plain

HEADLINE = "accuracy"


def method_findings(results: Results) -> list[Finding]:
    """The headline, the twins' differences, those to the complete case, and the levels."""
    found = [*_headlines(results)]
    for usual, debiased in results.twins():
        for metric in results.metrics:
            found += _twins(results, metric, usual, debiased)
    found += _to_the_complete_case(results)
    for block in results.blocks:
        found += [placed(results, block, one) for one in class_findings(results, block)]
        for metric in results.metrics:
            levels = _levels(results, block, metric)
            made = level_finding(metric, levels)
            found += [placed(results, block, made)] if made else []
    return found


def _lam(results: Results, method: str) -> float:
    return results.lams(method)[0]


def _levels(results: Results, block: Block, metric: str) -> list[Level]:
    found = [
        level(results, block, method, metric, _lam(results, method), name)
        for method, name in results.methods.items()
    ]
    return [one for one in found if one]


def _headlines(results: Results) -> Iterator[Finding]:
    """How far a debiased method's accuracy is from the paper's, where there is one data set."""
    if len(results.blocks) > 1:
        return
    for _, debiased in results.twins():
        block, name = results.blocks[0], results.methods[debiased]
        found = level(results, block, debiased, HEADLINE, _lam(results, debiased), name)
        if found:
            text = f"{name} beside the paper's headline: accuracy {gap(HEADLINE, found)}."
            yield Finding("fact", text)


def _compared(results: Results, metric: str, method: str, against: str) -> dict[Block, Comparison]:
    lams = _lam(results, method), _lam(results, against)
    found = {
        block: compared(results, block, metric, method, against, *lams) for block in results.blocks
    }
    return {block: one for block, one in found.items() if one.n}


def _twins(results: Results, metric: str, usual: str, debiased: str) -> list[Finding]:
    known = _compared(results, metric, debiased, usual)
    if not with_sign([*known.values()]):
        found = [
            placed(results, block, Finding("fact", f"{difference_text(results, one)}."))
            for block, one in known.items()
        ]
    elif len(known) == 1:
        ((block, one),) = known.items()
        found = [placed(results, block, made)] if (made := direction_finding(results, one)) else []
    else:
        found = [_over_blocks(results, metric, known)]
    return found


def _over_blocks(results: Results, metric: str, known: Mapping[Block, Comparison]) -> Finding:
    """One sentence over several data sets: where the sign is the paper's, and where not."""
    both = {block: one for block, one in known.items() if with_sign([one])}
    found = list(both.values())
    names = results.methods
    text = (
        f"{names[found[0].method]} less {names[found[0].against]}, {plain(metric)}: the sign is "
        f"the paper's {agreement_text(found, 'data sets')}"
    )
    other = [block.data for block, one in both.items() if not one.same_direction]
    text += f"; not on {listed(other)}." if other else "."
    return Finding(agreement(found), text)


def _to_the_complete_case(results: Results) -> Iterator[Finding]:
    """One sentence a method, over all metrics and data sets."""
    alone = results.complete_case()
    for method, name in results.methods.items():
        if alone is None or method == alone:
            continue
        cells = {
            f"{plain(metric)} on {block.data}": one
            for metric in results.metrics
            for block, one in _compared(results, metric, method, alone).items()
            if with_sign([one])
        }
        if not cells:
            continue
        found = list(cells.values())
        text = (
            f"{name} less the complete case: the sign is the paper's "
            f"{agreement_text(found, 'differences')}"
        )
        other = [what for what, one in cells.items() if not one.same_direction]
        text += f"; not in {listed(other)}." if other else "."
        yield Finding(agreement(found), text)

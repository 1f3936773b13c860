"""What a table of methods says beside the paper's: levels by data set, and signs of differences."""

from collections.abc import Iterator

from dessl.report.reproduction.comparison import Comparison, compared
from dessl.report.reproduction.findings.directions import (
    agreement_text,
    difference_text,
    direction_finding,
)
from dessl.report.reproduction.findings.finding import Finding
from dessl.report.reproduction.findings.levels import gap, level, level_finding
from dessl.report.reproduction.results import Block, Results
from dessl.report.reproduction.titles import data_title
from dessl.report.reproduction.wording import plain

HEADLINE = "accuracy"


def method_findings(results: Results) -> list[Finding]:
    """The headline, then each metric's levels, then the twins' differences."""
    found = [*_headlines(results)]
    for block in results.blocks:
        for metric in results.metrics:
            made = level_finding(data_title(results, block), metric, _levels(results, block, metric))
            found += [made] if made else []
    for usual, debiased in results.twins():
        for metric in results.metrics:
            found += _twins(results, metric, usual, debiased)
    return found


def _levels(results: Results, block: Block, metric: str) -> list:
    found = [
        level(results, block, method, metric, results.lams(method)[0], name)
        for method, name in results.methods.items()
    ]
    return [one for one in found if one]


def _headlines(results: Results) -> Iterator[Finding]:
    """How far a debiased method's accuracy is from the paper's, where one table is about one."""
    if len(results.blocks) > 1:
        return
    for _, debiased in results.twins():
        block = results.blocks[0]
        found = level(results, block, debiased, HEADLINE, results.lams(debiased)[0], "")
        if found:
            name = results.methods[debiased]
            yield Finding(
                "fact", f"{name} against the paper's headline: accuracy {gap(HEADLINE, found)}."
            )


def _twins(results: Results, metric: str, usual: str, debiased: str) -> list[Finding]:
    lams = results.lams(debiased)[0], results.lams(usual)[0]
    by_block = {
        block: compared(results, block, metric, debiased, usual, *lams) for block in results.blocks
    }
    known = {block: one for block, one in by_block.items() if one.n}
    if not known:
        return []
    if len(known) == 1:
        ((block, one),) = known.items()
        made = direction_finding(results, data_title(results, block), one)
        return [made] if made else []
    return [_over_blocks(results, metric, known)]


def _over_blocks(results: Results, metric: str, known: dict[Block, Comparison]) -> Finding:
    """One sentence over several data sets: where the sign is the paper's, and where not."""
    found = list(known.values())
    names = results.methods
    what = f"{plain(metric)} of {names[found[0].method]} less {names[found[0].against]}'s"
    if all(one.paper != one.paper for one in found):
        told = [
            f"{data_title(results, block)}: {difference_text(results, one)}"
            for block, one in known.items()
        ]
        return Finding("fact", "; ".join(told) + ".")
    text = f"The sign of {what} is the paper's in {agreement_text(found)} data sets"
    other = [block.data for block, one in known.items() if not one.same_direction]
    text += f"; not on {', '.join(other)}." if other else "."
    clear = [one for one in found if one.clear]
    if not clear:
        return Finding("open", text)
    same = sum(one.same_direction for one in clear)
    if same == len(clear):
        return Finding("agrees", text)
    return Finding("in part" if same else "differs", text)

"""What the toy example says: who finds the posterior where the classes overlap."""

from collections.abc import Iterator

from dessl_paper.report.averages import average, values_of
from dessl_paper.report.findings.finding import Finding
from dessl_paper.report.findings.levels import Level, gap, level
from dessl_paper.report.results import Block, Results
from dessl_paper.report.tables.toy import METRIC, TRUTH
from dessl_paper.report.wording import written

READ_OFF = 0.03  # the paper's numbers are read off a figure, no better than this


def toy_findings(results: Results) -> list[Finding]:
    """One sentence a method on the posterior, one on the training loss."""
    return [one for block in results.blocks for one in _findings(results, block)]


def _findings(results: Results, block: Block) -> Iterator[Finding]:
    for method, name in results.methods.items():
        found = level(results, block, method, METRIC, results.lams(method)[0], name)
        if found:
            yield _posterior(found)
        else:
            ours = average(values_of(results.runs(block, method), METRIC))
            yield Finding("fact", f"{name}: mean posterior {written(METRIC, ours.mean)}.")
    yield from _training(results, block)


def _posterior(found: Level) -> Finding:
    near = abs(found.off) <= READ_OFF
    text = (
        f"{found.name}: the mean posterior on the overlap is {_from_truth(found.ours.mean)}; in "
        f"the paper's figure it is {_from_truth(found.paper.mean)}. The two are "
        f"{abs(found.off):.3f} apart, {'within' if near else 'more than'} the {READ_OFF} to which "
        "a figure can be read."
    )
    return Finding("agrees" if near else "differs", text)


def _from_truth(value: float) -> str:
    off = value - TRUTH
    side = "above" if off > 0 else "below"
    return f"{value:.3f}, {abs(off):.3f} {side} the truth {TRUTH}"


def _training(results: Results, block: Block) -> Iterator[Finding]:
    metric = "training_cross_entropy"
    levels = [
        level(results, block, method, metric, results.lams(method)[0], name)
        for method, name in results.methods.items()
    ]
    known = [one for one in levels if one]
    if known:
        far = max(known, key=lambda one: abs(one.off))
        text = f"Final training cross-entropy: the farthest is {far.name}, {gap(metric, far)}."
        yield Finding("fact", text)

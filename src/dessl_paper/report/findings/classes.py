"""How unequally classes benefit: the spread of benefit ratios, ours and the paper's."""

import math
from collections.abc import Iterator

from dessl_paper.report.classes import benefit_ratios, class_accuracies, spread
from dessl_paper.report.findings.finding import Finding
from dessl_paper.report.paper import paper_classes
from dessl_paper.report.results import Block, Results


def class_findings(results: Results, block: Block) -> Iterator[Finding]:
    """For each pair of methods, whose benefit is the more even; means over splits, no test."""
    accuracies = class_accuracies(results, block)
    ratios = benefit_ratios(accuracies)
    for usual, debiased in results.twins():
        if not {usual, debiased} <= set(ratios):
            continue
        names = results.methods
        ours = spread(ratios[debiased]), spread(ratios[usual])
        if any(map(math.isnan, ours)):
            text = "full supervision is above the complete case in fewer than two classes"
            yield Finding("open", f"The benefit ratio has no spread: {text}.")
            return
        paper = [spread(paper_classes(results, f"{name}_br")) for name in (debiased, usual)]
        text = (
            f"Standard deviation of the benefit ratio over classes: {ours[0]:.3f} for "
            f"{names[debiased]}, {ours[1]:.3f} for {names[usual]}"
        )
        if paper[0] != paper[0]:
            yield Finding("fact", f"{text}.")
            continue
        text += f"; in the paper {paper[0]:.3f} and {paper[1]:.3f}"
        if min(accuracies[name][0].n for name in (usual, debiased)) < 2:
            yield Finding("open", f"{text}. One split, so that the order may be chance.")
        elif (ours[0] < ours[1]) == (paper[0] < paper[1]):
            yield Finding("agrees", f"{text}: the same order.")
        else:
            yield Finding("differs", f"{text}: the other order.")

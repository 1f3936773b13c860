"""Finding: one sentence on how a number of ours stands to the paper's, and what comes of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from dessl_paper.report.results import Block, Results
from dessl_paper.report.titles import located
from dessl_paper.report.wording import listed

Outcome = Literal["agrees", "in part", "differs", "open", "fact"]
HEADINGS: dict[Outcome, str] = {
    "agrees": "Agrees with the paper",
    "in part": "Agrees in part",
    "differs": "Does not agree",
    "open": "Cannot be told from these runs",
    "fact": "Besides",
}


@dataclass(frozen=True)
class Finding:
    """A sentence and where it belongs.

    Attributes:
        outcome: ``"fact"`` where the paper has nothing to agree with.
        text: The sentence.
    """

    outcome: Outcome
    text: str


def placed(results: Results, block: Block, finding: Finding) -> Finding:
    """The finding with its data set before the sentence, where there are several."""
    return Finding(finding.outcome, located(results, block, finding.text))


def counted(findings: Sequence[Finding]) -> str:
    """One sentence on all of them.

    >>> counted([Finding("agrees", "a"), Finding("agrees", "b"), Finding("differs", "c")])
    'Of 3 comparisons with the paper, 2 agree and 1 does not agree.'
    >>> counted([Finding("fact", "a")])
    'The paper has no numbers to compare these with.'
    """
    said = {
        "agrees": ("agrees", "agree"),
        "in part": ("agrees in part", "agree in part"),
        "differs": ("does not agree", "do not agree"),
        "open": ("cannot be told", "cannot be told"),
    }
    counts = {key: sum(one.outcome == key for one in findings) for key in said}
    total = sum(counts.values())
    if not total:
        return "The paper has no numbers to compare these with."
    parts = [f"{n} {said[key][n > 1]}" for key, n in counts.items() if n]
    compared = "1 comparison" if total == 1 else f"{total} comparisons"
    return f"Of {compared} with the paper, {listed(parts)}."

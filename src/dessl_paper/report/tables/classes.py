"""Tables class by class: accuracies, and benefit ratios with their spread over the classes."""

from dessl.evaluation.metrics.vocabulary import NONE
from dessl.report.tables import Table
from dessl_paper.report.classes import (
    benefit_ratios,
    class_accuracies,
    class_names,
    spread,
)
from dessl_paper.report.paper import paper_classes
from dessl_paper.report.results import Block, Results
from dessl_paper.report.titles import data_title
from dessl_paper.report.wording import ours_text, written

RATIO = "benefit ratio"


def class_tables(results: Results, block: Block) -> list[Table]:
    """Accuracies of a block's classes, and benefit ratios where all labels were run too."""
    found = class_accuracies(results, block)
    if not found:
        return []
    names = class_names(block, len(next(iter(found.values()))))
    paper = {method: paper_classes(results, method) for method in found}
    rows = tuple(
        (
            name,
            *(
                text
                for method, row in found.items()
                for text in (ours_text("accuracy", row[k]), _at("accuracy", paper[method], k))
            ),
        )
        for k, name in enumerate(names)
    )
    caption = f"{data_title(results, block)}: accuracy of each class, %"
    accuracies = Table(caption, _headings(results, list(found)), rows)
    ratios = _ratios(results, block, benefit_ratios(found), names)
    return [table.without_empty_columns(NONE) for table in (accuracies, *ratios)]


def _ratios(
    results: Results, block: Block, ratios: dict[str, list[float]], names: tuple[str, ...]
) -> list[Table]:
    if not ratios:
        return []
    paper = {method: paper_classes(results, f"{method}_br") for method in ratios}
    rows = [
        (
            name,
            *(
                text
                for method, row in ratios.items()
                for text in (written(RATIO, row[k]), _at(RATIO, paper[method], k))
            ),
        )
        for k, name in enumerate(names)
    ]
    spreads = (
        written(RATIO, spread(row)) for method in ratios for row in (ratios[method], paper[method])
    )
    caption = f"{data_title(results, block)}: benefit ratio of each class"
    every = (*rows, ("standard deviation", *spreads))
    return [Table(caption, _headings(results, list(ratios)), every)]


def _headings(results: Results, methods: list[str]) -> tuple[str, ...]:
    titles = (text for method in methods for text in (results.methods[method], "paper's"))
    return ("class", *titles)


def _at(metric: str, row: list[float], place: int) -> str:
    return written(metric, row[place]) if place < len(row) else NONE

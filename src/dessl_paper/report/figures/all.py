"""The figures of an experiment, whatever its shape; ``figure`` is the one that the paper has."""

from collections.abc import Callable

from dessl_paper.report.figures.classes import classes_figure
from dessl_paper.report.figures.dots import dots_figure
from dessl_paper.report.figures.labels import labels_figure
from dessl_paper.report.figures.learning import learning_figure
from dessl_paper.report.figures.probe import curves_figure, lambda_figure
from dessl_paper.report.figures.sweep import sweep_figure
from dessl_paper.report.figures.toy import toy_figure
from dessl_paper.report.results import Results, Shape

Pictures = dict[str, bytes]


def figures_of(results: Results) -> dict[str, Pictures]:
    """Each figure's name with its PNG and SVG."""
    return MAKERS[results.shape](results)


def _sweep(results: Results) -> dict[str, Pictures]:
    blocks = results.blocks
    names = _numbered("figure", [f"{block.data}-{block.labels}" for block in blocks])
    return {name: sweep_figure(results, block) for name, block in zip(names, blocks, strict=True)}


def _methods(results: Results) -> dict[str, Pictures]:
    sets = list(dict.fromkeys(block.data for block in results.blocks))
    over_labels = len(results.blocks) > len(sets)
    found: dict[str, Pictures | None] = {}
    if over_labels:
        found |= {
            name: labels_figure(results, data)
            for name, data in zip(_numbered("figure", sets), sets, strict=True)
        }
    else:
        found["figure"] = dots_figure(results)
    if len(results.blocks) == 1:
        found["figure-learning"] = learning_figure(results, results.blocks[0])
    if not over_labels:
        found["figure-classes"] = classes_figure(results)
    return {name: pictures for name, pictures in found.items() if pictures}


def _probe(results: Results) -> dict[str, Pictures]:
    """The curves of each method's first split, or λ_opt over all of them."""
    found: list[Pictures | None] = []
    for block in results.blocks:
        for method in results.methods:
            runs = results.runs(block, method)
            found += [curves_figure(results, runs[0])] if runs else []
            found.append(lambda_figure(results, block, method))
    made = [pictures for pictures in found if pictures]
    names = _numbered("figure", [str(number + 1) for number in range(len(made))])
    return dict(zip(names, made, strict=True))


def _toy(results: Results) -> dict[str, Pictures]:
    names = _numbered("figure", [str(block.labels) for block in results.blocks])
    found = {
        name: toy_figure(results, block) for name, block in zip(names, results.blocks, strict=True)
    }
    return {name: pictures for name, pictures in found.items() if pictures}


def _numbered(stem: str, names: list[str]) -> list[str]:
    """The stem for the first, and the stem with a name for any other.

    >>> _numbered("figure", ["a", "b"])
    ['figure', 'figure-b']
    """
    return [stem if place == 0 else f"{stem}-{name}" for place, name in enumerate(names)]


MAKERS: dict[Shape, Callable[[Results], dict[str, Pictures]]] = {
    "sweep": _sweep,
    "methods": _methods,
    "probe": _probe,
    "toy": _toy,
}

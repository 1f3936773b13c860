"""The figures of an experiment, whatever its shape; ``figure`` is the one that the paper has."""

from dessl.report.reproduction.figures.classes import classes_figure
from dessl.report.reproduction.figures.dots import dots_figure
from dessl.report.reproduction.figures.labels import labels_figure
from dessl.report.reproduction.figures.learning import learning_figure
from dessl.report.reproduction.figures.sweep import sweep_figure
from dessl.report.reproduction.results import Results

Pictures = dict[str, bytes]


def figures_of(results: Results) -> dict[str, Pictures]:
    """Each figure's name with its PNG and SVG."""
    made = {"sweep": _sweep, "methods": _methods}
    return made[results.shape](results)


def _sweep(results: Results) -> dict[str, Pictures]:
    blocks = results.blocks
    names = _numbered("figure", [f"{block.data}-{block.labels}" for block in blocks])
    return {
        name: sweep_figure(results, block) for name, block in zip(names, blocks, strict=True)
    }


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
    names = [f"{block.data}-{block.labels}" for block in results.blocks]
    for name, block in zip(_numbered("figure-learning", names), results.blocks, strict=True):
        found[name] = learning_figure(results, block)
    if not over_labels:
        found["figure-classes"] = classes_figure(results)
    return {name: pictures for name, pictures in found.items() if pictures}


def _numbered(stem: str, names: list[str]) -> list[str]:
    """The stem for the first, and the stem with a name for any other.

    >>> _numbered("figure", ["a", "b"])
    ['figure', 'figure-b']
    """
    return [stem if place == 0 else f"{stem}-{name}" for place, name in enumerate(names)]

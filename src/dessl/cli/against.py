"""``dessl evaluate RUN DATA --against OTHER``: the differences of two models' metrics."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from rich.table import Table
from rich.text import Text

from dessl.cli.output import PlainConsole, show

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import Tensor

    from dessl.data import Part
    from dessl.evaluation.debiased.compare import ComparedName, ModelComparison
    from dessl.saved import SavedModel

COMPLETE_CASE = "complete-case"
DEFAULTS = ("accuracy", "cross_entropy", "brier", "wins")


def other_probabilities(
    run: Path, against: str, model: "SavedModel", read: "Callable[[SavedModel], Tensor]"
) -> "Tensor":
    """The other model's probabilities, with the classes in the order of ``model``'s.

    Args:
        run: Folder of the run to evaluate.
        against: Folder of the other run, or ``"complete-case"`` for this run's complete case.
        model: The model to evaluate.
        read: Returns a model's probabilities for the rows of DATA.
    """
    from dessl.cli.predict import run_model
    from dessl.data import DataError

    own = against == COMPLETE_CASE
    other = run_model(run if own else Path(against), complete_case=own)
    if set(other.class_names) != set(model.class_names):
        raise DataError.of(
            against,
            expected=f"a model with the classes {', '.join(model.class_names)}",
            got=f"a model with the classes {', '.join(other.class_names)}",
            do="Compare models with the same classes.",
        )
    return read(other)[:, [other.class_names.index(name) for name in model.class_names]]


def compared(
    p: "Tensor",
    other: "Tensor",
    rows: "Part",
    metrics: tuple[str, ...],
    options: "Callable[[str], Mapping[str, Any]]",
) -> "dict[str, ModelComparison]":
    """The metrics of the first model minus those of the other."""
    from dessl.evaluation import compare_models

    known = rows.labelled
    return {
        name: compare_models(
            cast("ComparedName", name),
            p[known], other[known], rows.y[known], p[~known], other[~known], **options(name),
        )
        for name in metrics
    }  # fmt: skip


def show_differences(
    differences: "Mapping[str, ModelComparison]", against: str, heading: "Callable[[str], str]"
) -> None:
    """A table of differences, with intervals and p-values.

    Args:
        differences: By metric.
        against: The other model, as the user named it.
        heading: Returns the words for a metric.
    """
    from dessl.evaluation.metrics.vocabulary import written
    from dessl.evaluation.verdict import short_p

    table = Table(title=Text(f"Difference: this model minus {against}"))
    for title in ("metric", "difference", "95 % interval", "p-value", ""):
        table.add_column(title, justify="left" if title in ("metric", "") else "right")
    for name, one in differences.items():
        low, middle, high = (
            written(name, value, signed=True) for value in (one.low, one.difference, one.high)
        )
        cells = (middle, f"{low} to {high}", short_p(one.p_value), _found(name, one))
        table.add_row(heading(name), *cells)
    PlainConsole().print(table)
    if "wins" in differences:
        show(
            "A model wins a row if it gives the row's label a higher probability than the other "
            "model, however slightly. This counts rows and does not measure quality: a less "
            "confident model can lose most rows although its Brier score is better."
        )


def _found(name: str, one: "ModelComparison") -> str:
    """What the interval shows, in words; wins are counted, not judged."""
    from dessl.evaluation.metrics.vocabulary import higher_is_better

    above, below = one.low > 0, one.high < 0
    if not (above or below):
        return "no clear difference"
    if name == "wins":
        return "wins more rows" if above else "wins fewer rows"
    return "better" if above == higher_is_better(name) else "worse"

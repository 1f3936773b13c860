"""All tests of whether labels are missing completely at random, corrected for their number."""

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from dessl.data import SemiData
from dessl.evaluation.statistics.multiple import holm
from dessl.safety.answers import FoldAnswers
from dessl.safety.class_test import class_test
from dessl.safety.columns import Columns, Sampled
from dessl.safety.two_samples import (
    LEAST_ROWS,
    ColumnShift,
    Floats,
    classifier_test,
    column_tests,
    output_tests,
)

SHOWN = 5  # columns


@dataclass(frozen=True)
class Missingness:
    """One test of whether labels are missing completely at random.

    Attributes:
        test: Its name.
        p_value: p-value of this test alone.
        corrected: p-value corrected for the number of tests (Holm).
        finding: What it found, in words.
    """

    test: str
    p_value: float
    corrected: float
    finding: str


def missingness(
    data: SemiData,
    sample: Sampled,
    columns: Columns,
    answers: FoldAnswers | None,
    y: Tensor,
    *,
    seed: int,
) -> dict[str, Any]:
    """Return all tests of MCAR as entries of an ``Audit``; none if there are too few rows.

    Args:
        data: The data with its labels.
        sample: Rows of it, from :func:`~dessl.safety.columns.sampled_rows`.
        columns: Their columns.
        answers: Out-of-fold predictions of these rows; None if no model can be trained.
        y: Classes of the labelled ones.
        seed: Seed of folds and permutations.
    """
    nothing: dict[str, Any] = {
        "tests": (), "columns": (), "auc": float("nan"), "class_propensity": (),
    }  # fmt: skip
    n_l, n_u = int(sample.labelled.sum()), int((~sample.labelled).sum())
    if min(n_l, n_u) < LEAST_ROWS:
        return nothing
    groups = sample.groups
    by = classifier_test(columns.values, sample.labelled, groups=groups, seed=seed)
    shifts = column_tests(
        columns.values.numpy(), sample.labelled, columns.names, groups=groups, seed=seed
    )
    shifts = tuple(sorted(shifts, key=lambda one: (one.p_value, -abs(one.auc - 0.5))))
    made = [
        ("labelled vs unlabelled rows", by.p_value,
         f"A classifier tells them apart with AUC {by.auc:.2f}; 0.5 is chance."),
        ("column by column", shifts[0].p_value, _column_words(shifts[0])),
    ]  # fmt: skip
    propensity: tuple[float, ...] = ()
    if answers is not None:
        outputs = output_tests(
            answers.log_p, sample.labelled, answers.folds, data.class_names,
            groups=groups, seed=seed,
        )  # fmt: skip
        worst = min(outputs, key=lambda one: one.p_value)
        made.append(("model outputs", worst.p_value, _column_words(worst)))
        if (classes := class_test(answers.log_p, y, sample.labelled)) is not None:
            scale = _scale(data, n_l, n_u)
            propensity = tuple(_rescaled(classes.propensity, scale).tolist())
            shown = [share for share in propensity if share == share]
            if groups is None:  # its likelihood takes rows as independent
                made.append(
                    ("labelling probability by class", classes.p_value,
                     f"Estimates range from {min(shown):.3g} to {max(shown):.3g}.")
                )  # fmt: skip
    corrected = holm([p for _, p, _ in made])
    tests = tuple(
        Missingness(name, p, float(c), words)
        for (name, p, words), c in zip(made, corrected, strict=True)
    )
    return {
        "tests": tests,
        "columns": shifts[:SHOWN],
        "auc": by.auc,
        "class_propensity": propensity,
    }


def _scale(data: SemiData, n_l: int, n_u: int) -> tuple[float, float]:
    """How many rows each sampled labelled and unlabelled row represents."""
    return data.n_labelled / n_l, data.n_unlabelled / n_u


def _rescaled(phi: Floats, scale: tuple[float, float]) -> Floats:
    """Propensities in the whole data, computed from those in a sample of its rows."""
    known, unknown = scale[0] * phi, scale[1] * (1 - phi)
    found: Floats = known / (known + unknown)
    return found


def _column_words(shift: ColumnShift) -> str:
    what = "differs most in spread" if shift.spread else "differs most"
    return f"{shift.name} {what}: AUC {shift.auc:.2f}."

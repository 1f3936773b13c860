"""A trial: one method and its complete-case twin on one data set, judged on rows held out of both.

Rows are held out with a label and without one, each by the same share, before anything is trained:
a network makes H small on the rows it was trained on, labelled or not, so that only fresh rows of
both kinds compare two models without bias.
"""

import warnings
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from dessl import _checks
from dessl.data import DataError, LabelDraw, SemiData
from dessl.data.labels import MISSING
from dessl.evaluation.metrics import predicted_logits
from dessl.recipes import Fitted, Recipe, fit

LEAST_LABELS = 10
LEAST_TEST = 3  # labelled rows, for an interval


@dataclass(frozen=True)
class HeldOut:
    """Rows that were held out: x (n, ...), and y (n,) with -1 for a missing label."""

    x: Tensor
    y: Tensor

    @property
    def labelled(self) -> Tensor:
        """Which rows have a label, bool (n,)."""
        return self.y != MISSING


@dataclass(frozen=True)
class Trial:
    """What was trained on what, and the logits of both models on the test rows, (n, classes)."""

    data: SemiData
    test: HeldOut
    fitted: Fitted
    logits: Tensor
    twin_logits: Tensor


def split(
    data: SemiData,
    *,
    test: HeldOut | None = None,
    share: float = 0.2,
    labels: int | None = None,
    seed: int = 0,
) -> tuple[SemiData, HeldOut]:
    """Return the data to train on and the test rows, drawn completely at random.

    Args:
        data: All of it, with every label there is.
        test: Test rows from elsewhere. The data's own test part is taken where there is one;
            otherwise rows are held out of the data.
        share: Of the labelled and of the unlabelled rows to hold out.
        labels: How many labels to keep, test rows included, hiding the others; None for all.
        seed: Of the draws.

    Raises:
        DataError: The labels are too few, or all of one class.

    >>> data = SemiData(torch.rand(100, 2), torch.arange(100) % 2)
    >>> train, test = split(data, labels=40, share=0.25)
    >>> train.n_labelled, train.n_unlabelled, int(test.labelled.sum()), len(test.y)
    (30, 45, 10, 25)
    """
    share = _checks.number("share", share, low=0, high=1, open_low=True, open_high=True)
    generator = torch.Generator().manual_seed(seed)
    known, unknown = _drawn(data, labels, generator)
    _check_labels(data, known)
    if test is None and data.test is not None:
        test = HeldOut(*data.test)
    if test is None:
        n_test, n_beside = max(LEAST_TEST, round(share * len(known))), round(share * len(unknown))
        y = torch.cat((data.y.cpu()[known[:n_test]], torch.full((n_beside,), MISSING)))
        test = HeldOut(data.x[torch.cat((known[:n_test], unknown[:n_beside]))], y)
        known, unknown = known[n_test:], unknown[n_beside:]
    if int(test.labelled.sum()) < LEAST_TEST:
        raise DataError.of(
            "the test rows",
            expected=f"at least {LEAST_TEST} with a label",
            got=f"{int(test.labelled.sum())}",
            do="Label some of them, or leave --test-file out.",
        )
    _check_classes(data, known)
    # A validation part that the data came with has labels beyond the budget: some of ours instead.
    n_validation = len(known) // 5 if data.validation is not None else 0
    parts = (known[n_validation:], known[:n_validation], unknown)
    return data.with_labels(LabelDraw(*(rows.sort().values for rows in parts))), test


def _drawn(data: SemiData, labels: int | None, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Rows whose label is kept and all others, each in a random order."""
    known = data.labelled_rows.cpu()
    known = known[torch.randperm(len(known), generator=generator)]
    if labels is not None:
        known = known[: _checks.whole_number("labels", labels, low=1, high=len(known))]
    other = torch.ones(len(data), dtype=torch.bool)
    other[known] = False
    unknown = other.nonzero().flatten()
    return known, unknown[torch.randperm(len(unknown), generator=generator)]


def _check_labels(data: SemiData, known: Tensor) -> None:
    name = data.name or "the data"
    if len(known) < LEAST_LABELS:
        raise DataError.of(
            name,
            expected=f"at least {LEAST_LABELS} labelled rows, to train on and to judge by",
            got=f"{len(known)} in {len(data)} rows",
            do="Label more rows.",
        )


def _check_classes(data: SemiData, known: Tensor) -> None:
    """Refuse labels to train on that are all of one class; warn of a class that has none."""
    trained = set(data.y.cpu()[known].tolist())
    if len(trained) < 2:
        raise DataError.of(
            data.name or "the data",
            expected="labels of two classes at least to train on",
            got=f"only {data.class_names[trained.pop()]!r}",
            do="Label rows of the other classes too.",
        )
    absent = [name for number, name in enumerate(data.class_names) if number not in trained]
    if absent:
        warnings.warn(
            f"no label of the class(es) {', '.join(absent)} is left to train on: the model cannot "
            "learn them. Label more of their rows.",
            UserWarning,
            stacklevel=3,
        )


def run_trial(
    data: SemiData,
    test: HeldOut,
    recipe: Recipe,
    *,
    out: Path | None = None,
    progress: bool = True,
) -> Trial:
    """Train a recipe and its complete-case twin, and look at the test rows once.

    Args:
        data: To train on.
        test: Rows held out of it, or from elsewhere.
        recipe: Of :func:`dessl.recipes.recipe_for`.
        out: Folder for checkpoints, from which the training is gone on with.
        progress: Whether to show progress bars, where there is a terminal.
    """
    fitted = fit(data, recipe, out=out, progress=progress)
    logits, twin = (
        predicted_logits(model, test.x.to(data.device), transform=lambda x: x).double().cpu()
        for model in (fitted.model, fitted.complete_case)
    )
    return Trial(data, test, fitted, logits, twin)

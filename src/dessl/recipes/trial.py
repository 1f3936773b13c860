"""A trial: a method and its complete-case twin on one data set, evaluated on held-out rows.

Rows are held out before training, the same share with and without labels: a network makes H small
on the rows it was trained on, labelled or not, so only fresh rows of both kinds give an unbiased
comparison of two models. Copies of one row are held out together.

Labelled rows are held out class by class, in proportion: each class by its share, rounded up or
down at random so that every row is held out with the same probability and means over the test rows
stay unbiased. A class with so few labels that none might be held out contributes one, so that every
class with two labels is among the test rows; that adds less than one row for each such class. A
class with one label is used for training, with a warning that it cannot be evaluated.
"""

import copy
import dataclasses
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from dessl import _checks
from dessl.data import DataError, LabelDraw, Part, SemiData
from dessl.data.errors import few
from dessl.data.labels import MISSING
from dessl.data.row_keys import copy_groups, row_digests, shared_rows, whole_groups
from dessl.recipes import Fitted, Recipe, fit
from dessl.recipes.held_out import FOLDS
from dessl.recipes.predictor import predicted_log_proba
from dessl.recipes.symmetries import with_symmetries
from dessl.risk import RISKS
from dessl.teachers.pooling import POOL_PARTS
from dessl.training.progress import whole_bar

LEAST_LABELS = 10
LEAST_TEST = 3  # labelled rows, for an interval
MOST_UNLABELLED, UNLABELLED_EACH = 10_000, 10  # held out in total, or per labelled row: enough


@dataclass(frozen=True)
class Trial:
    """The trained models, their data, the logits of both on the test rows, (n, classes), and π.

    ``propensity`` is that of the labelled test rows if held out of data with propensities.
    """

    data: SemiData
    test: Part
    fitted: Fitted
    logits: Tensor
    twin_logits: Tensor
    propensity: Tensor | None = None


class Division(NamedTuple):
    """Training rows, test rows, and π of the labelled test rows, (m,), up to a factor.

    ``propensity`` is None if the data has none, or if the test rows come from elsewhere.
    """

    train: SemiData
    test: Part
    propensity: Tensor | None


def split(
    data: SemiData,
    *,
    test: Part | None = None,
    share: float = 0.2,
    labels: int | None = None,
    seed: int = 0,
) -> Division:
    """Split data into training rows and test rows, completely at random.

    Args:
        data: The whole data, with all labels.
        test: Test rows from elsewhere. Default: the data's own test part, or else rows held out of
            the data.
        share: Share of the labelled and of the unlabelled rows to hold out.
        labels: Number of labels to keep, including test rows; the others are hidden. None keeps
            all.
        seed: Seed of the split.

    Raises:
        DataError: There are too few labels, or only of one class.

    >>> data = SemiData(torch.rand(100, 2), torch.arange(100) % 2)
    >>> train, test, _ = split(data, labels=40, share=0.25)
    >>> train.n_labelled, train.n_unlabelled, int(test.labelled.sum()), len(test.y)
    (30, 45, 10, 25)
    """
    share = _checks.number("share", share, low=0, high=1, open_low=True, open_high=True)
    generator = torch.Generator().manual_seed(seed)
    known, unknown = _drawn(data, labels, generator)
    _check_labels(data, known)
    data = _thinned(data, len(known))
    propensity: Tensor | None = None
    if test is not None:
        _check_shared(data, known, test)
    elif data.test is not None:
        test = data.test
    grouped = test is None or data.validation is not None
    groups = _groups(data, known, share) if grouped else torch.arange(len(data))
    if test is None:
        known_y = data.y.cpu()[known]
        test_l, test_u = _test_rows(known_y, known, unknown, groups, share, generator)
        y = torch.cat((known_y[test_l], torch.full((int(test_u.sum()),), MISSING)))
        test = Part(data.x[torch.cat((known[test_l], unknown[test_u]))], y)
        _check_held_out(data, known, test)
        if data.propensity is not None:
            propensity = data.propensity.cpu()[known[test_l]]
        known, unknown = known[~test_l], unknown[~test_u]
    else:
        _check_single(data, known)
    if int(test.labelled.sum()) < LEAST_TEST:
        raise DataError.of(
            "the test rows",
            expected=f"at least {LEAST_TEST} labelled rows",
            got=f"{int(test.labelled.sum())}",
            do="Label some of them, or omit --test-file.",
        )
    _check_classes(data, known)
    return Division(_with_labels(data, known, unknown, groups), test, propensity)


def _drawn(data: SemiData, labels: int | None, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Rows whose label is kept, and all others, in random order."""
    known = data.labelled_rows.cpu()
    known = known[torch.randperm(len(known), generator=generator)]
    if labels is not None:
        known = known[: _checks.whole_number("labels", labels, low=1, high=len(known))]
    other = torch.ones(len(data), dtype=torch.bool)
    other[known] = False
    unknown = other.nonzero().flatten()
    return known, unknown[torch.randperm(len(unknown), generator=generator)]


def _thinned(data: SemiData, labels: int) -> SemiData:
    """The data with its propensities adjusted for labels that were hidden at random."""
    if data.propensity is None or labels == data.n_labelled:
        return data
    thinned = copy.copy(data)
    thinned.propensity = data.propensity * (labels / data.n_labelled)
    return thinned


def _counts(n_labelled: int, n_unlabelled: int, share: float) -> tuple[int, int]:
    """Numbers of labelled and unlabelled rows to hold out, and the largest group of copies."""
    labelled = max(LEAST_TEST, round(share * n_labelled))
    most = max(MOST_UNLABELLED, UNLABELLED_EACH * labelled)
    return labelled, min(round(share * n_unlabelled), most)


def _groups(data: SemiData, known: Tensor, share: float) -> Tensor:
    """Group numbers (n,), the same for copies of one row, with only some labels known."""
    y = torch.full((len(data),), MISSING)
    y[known] = data.y.cpu()[known]
    labelled, unlabelled = _counts(len(known), len(data) - len(known), share)
    return copy_groups(data.row_digests(), y, labelled=labelled, unlabelled=unlabelled)


def _test_rows(
    y: Tensor,
    known: Tensor,
    unknown: Tensor,
    groups: Tensor,
    share: float,
    generator: torch.Generator,
) -> tuple[Tensor, Tensor]:
    """The labelled and the unlabelled rows to hold out; copies stay together."""
    n_test, n_unlabelled = _counts(len(known), len(unknown), share)
    labelled = torch.zeros(len(known), dtype=torch.bool)
    for number, n in enumerate(_class_counts(y, groups[known], n_test, generator)):
        own = y == number
        if n:
            labelled[own] = whole_groups(known[own], groups, n)
    unlabelled = torch.isin(groups[unknown], groups[known[labelled]])
    free = ~torch.isin(groups[unknown], groups[known])
    unlabelled[free] = whole_groups(unknown[free], groups, n_unlabelled - int(unlabelled.sum()))
    return labelled, unlabelled


def _class_counts(y: Tensor, groups: Tensor, n: int, generator: torch.Generator) -> list[int]:
    """The number of labels of each class to hold out, n in total or a few more.

    They are proportional, rounded at random with the right mean: cumulative shares plus one number
    in [0, 1), rounded down. A class with two or more groups of copies gives at least one label, and
    keeps one group.

    Args:
        y: The class of each labelled row, (m,).
        groups: The group of each labelled row, (m,).
        n: Number of labels to hold out.
        generator: Source of the random number.
    """
    counts = y.bincount().double()
    ends = (counts.cumsum(0) * n / len(y) + torch.rand((), generator=generator).double()).floor()
    wanted = torch.diff(ends, prepend=ends.new_zeros(1)).long().tolist()
    found = []
    for number, count in enumerate(wanted):
        _, sizes = torch.unique(groups[y == number], return_counts=True)
        most = int(sizes.sum() - sizes.max()) if len(sizes) > 1 else 0
        found.append(min(max(count, 1), most))
    return found


def _check_labels(data: SemiData, known: Tensor) -> None:
    if len(known) < LEAST_LABELS:
        raise DataError.of(
            data.name or "the data",
            expected=f"at least {LEAST_LABELS} labelled rows, for training and evaluation",
            got=f"{len(known)} in {len(data)} rows",
            do="Label more rows.",
        )


def _check_shared(data: SemiData, known: Tensor, test: Part) -> None:
    """Warn about test rows that are also labelled training rows."""
    tested = test.x[test.labelled], test.y[test.labelled]
    if shared := shared_rows(data.x[known], data.y[known], *tested):
        warnings.warn(
            f"{shared} of the {len(tested[1])} labelled test rows are also labelled training rows: "
            "the models know their labels, so these metrics are optimistic. Remove them from one "
            "of the two.",
            UserWarning,
            stacklevel=3,
        )


def _check_held_out(data: SemiData, known: Tensor, test: Part) -> None:
    """Warn about classes with labels, none of which could be held out."""
    counts = data.y.cpu()[known].bincount(minlength=data.n_classes)
    held_out = test.y[test.labelled].cpu().bincount(minlength=data.n_classes)
    alone = [
        name
        for name, count, n in zip(data.class_names, counts.tolist(), held_out.tolist(), strict=True)
        if count and not n
    ]
    if alone:
        warnings.warn(
            f"class(es) {few(alone)} have only one label each (or copies of one row), which is "
            "used for training: they cannot be evaluated. Label more of their rows.",
            UserWarning,
            stacklevel=3,
        )


def _check_single(data: SemiData, known: Tensor) -> None:
    """Warn about classes with a single label, if no rows are held out of the data."""
    counts = data.y.cpu()[known].bincount(minlength=data.n_classes).tolist()
    single = [name for name, count in zip(data.class_names, counts, strict=True) if count == 1]
    if single:
        warnings.warn(
            f"class(es) {few(single)} have a single training label, so no other label can show "
            "whether they are learnt. Label more of their rows.",
            UserWarning,
            stacklevel=3,
        )


def _check_classes(data: SemiData, known: Tensor) -> None:
    """Refuse training labels of one class only; warn about classes without any."""
    trained = set(data.y.cpu()[known].tolist())
    if len(trained) < 2:
        raise DataError.of(
            data.name or "the data",
            expected="training labels of at least two classes",
            got=f"only {data.class_names[trained.pop()]!r}",
            do="Label rows of the other classes too.",
        )
    absent = [name for number, name in enumerate(data.class_names) if number not in trained]
    if absent:
        warnings.warn(
            f"no training label is left of class(es) {few(absent)}: the model cannot learn them. "
            "Label more of their rows.",
            UserWarning,
            stacklevel=3,
        )


def _with_labels(data: SemiData, known: Tensor, unknown: Tensor, groups: Tensor) -> SemiData:
    """The data with these labels for training.

    The data's own validation part would exceed the budget of labels: if it has one, a fifth of the
    labels is used instead, in whole groups. The same share of the unlabelled rows is then left
    out, which keeps π.
    """
    watch = torch.zeros(len(known), dtype=torch.bool)
    if data.validation is not None:
        watch = whole_groups(known, groups, len(known) // FOLDS)
        if data.propensity is not None:
            unknown = unknown[int(len(unknown) * float(watch.double().mean())) :]
    parts = (known[~watch], known[watch], unknown)
    return data.with_labels(LabelDraw(*(rows.sort().values for rows in parts)))


def every_label(data: SemiData, *, labels: int | None = None, seed: int = 0) -> SemiData:
    """Return the data with all labels of :func:`split` for training.

    Args:
        data: The data that was split.
        labels: Same as in :func:`split`.
        seed: Same as in :func:`split`.

    >>> data = SemiData(torch.rand(100, 2), torch.arange(100) % 2)
    >>> train, test, _ = split(data, labels=40)
    >>> whole = every_label(data, labels=40)
    >>> whole.n_labelled, train.n_labelled + int(test.labelled.sum()), whole.n_unlabelled
    (40, 40, 60)
    """
    known, unknown = _drawn(data, labels, torch.Generator().manual_seed(seed))
    data = _thinned(data, len(known))
    grouped = data.validation is not None
    groups = _groups(data, known, 1 / FOLDS) if grouped else torch.arange(len(data))
    return _with_labels(data, known, unknown, groups)


def run_trial(
    data: SemiData,
    test: Part,
    recipe: Recipe,
    *,
    propensity: Tensor | None = None,
    out: Path | None = None,
    progress: bool = True,
) -> Trial:
    """Train a recipe and its complete-case twin, and predict the test rows once.

    Args:
        data: Training data.
        test: Rows held out of it, or from elsewhere.
        recipe: From :func:`dessl.recipes.recipe_for`.
        propensity: π of the labelled test rows from :func:`split`; estimates weight them by 1/π.
        out: Folder for checkpoints, used to resume training.
        progress: Whether to show a progress bar on a terminal.
    """
    fitted = _fitted(data, recipe, out, progress)
    x = test.x.to(data.device)
    logits = {  # the model may be its own twin: then one pass is enough
        model: predicted_log_proba(model, x) for model in {fitted.model, fitted.complete_case}
    }
    own, twin = logits[fitted.model], logits[fitted.complete_case]
    return Trial(data, test, fitted, own, twin, propensity)


def parts(recipe: Recipe) -> float:
    """Expected length of a fit, in networks: some may be skipped or stop early."""
    teachers = len(recipe.teachers) + 2 if recipe.teachers else 0  # one twice, then all together
    return recipe.networks * (2 if recipe.trains_unlabelled else 1) + POOL_PARTS * teachers


def refitted(
    trial: Trial,
    whole: SemiData,
    recipe: Recipe,
    *,
    complete_case: bool = False,
    out: Path | None = None,
    progress: bool = True,
) -> Fitted:
    """Retrain the winner of a trial on all labels, including those that evaluated it.

    The recipe is the same: networks with other folds of all labels held out, and a pool weighted on
    them. Decisions stay: the λ and symmetries of the trial, and no method that it dropped. No label
    is left to evaluate the result; the trial's metrics are for the model before.

    Args:
        trial: Result of :func:`run_trial`.
        whole: Result of :func:`every_label`.
        recipe: Recipe for ``whole``, with the options of the trial's recipe.
        complete_case: Whether the complete case won.
        out: Folder for checkpoints, used to resume training.
        progress: Whether to show progress bars on a terminal.
    """
    if RISKS[recipe.plan.risk].unlabelled:
        plan = dataclasses.replace(recipe.plan, lam=0.0 if complete_case else trial.fitted.lam)
        recipe = dataclasses.replace(recipe, lam=plan.lam, plan=plan)
    if trial.fitted.symmetries is not None:
        recipe = with_symmetries(recipe, trial.fitted.symmetries.safe)
    teachers = () if complete_case or not trial.fitted.pool else recipe.teachers
    recipe = dataclasses.replace(recipe, teachers=teachers, safe=False)  # as in the trial
    return _fitted(whole, recipe, out, progress)


def refit_failure(trial: Trial, found: Fitted) -> str:
    """Why a refit failed although the trial did not, in a sentence; "" if it did not fail."""
    before, after = trial.fitted.baseline, found.baseline
    failed = after and not after.trained and not (before and not before.trained)
    return after.account if after and failed else ""


def _fitted(data: SemiData, recipe: Recipe, out: Path | None, progress: bool) -> Fitted:
    keys = row_digests(data.x[data.labelled_rows].numpy(force=True))
    most, _ = _counts(data.n_labelled, 0, 1 / FOLDS)
    groups = copy_groups(keys, data.y[data.labelled_rows], labelled=most, unlabelled=0)
    with whole_bar(parts(recipe), shown=progress):
        return fit(data, recipe, groups=groups, out=out, progress=progress)

"""A trial: one method and its complete-case twin on one data set, judged on rows held out of both.

Rows are held out with a label and without one, each by the same share, before anything is trained:
a network makes H small on the rows it was trained on, labelled or not, so that only fresh rows of
both kinds compare two models without bias. Copies of one row are held out together.

Labelled rows are held out class by class, in proportion: each class by its share, rounded up or
down at random so that every row has the same probability to be held out, and means over the test
rows stay unbiased. A class of so few labels that none might be held out gives one, so that every
class with two labels is among the test rows; that is less than one row too many for each such
class. A class with one label is trained on, and a warning says that it cannot be judged.
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
from dessl.risk import RISKS
from dessl.teachers.pooling import POOL_PARTS
from dessl.training.progress import whole_bar

LEAST_LABELS = 10
LEAST_TEST = 3  # labelled rows, for an interval
# Unlabelled rows held out, at most: more cost a prediction each, and narrow no interval.
MOST_BESIDE, BESIDE_EACH = 10_000, 10  # in all, or for each labelled one


@dataclass(frozen=True)
class Trial:
    """What was trained on what, and the logits of both models on the test rows, (n, classes).

    ``propensity`` has π of the labelled test rows where they were held out of data with
    propensities.
    """

    data: SemiData
    test: Part
    fitted: Fitted
    logits: Tensor
    twin_logits: Tensor
    propensity: Tensor | None = None


class Division(NamedTuple):
    """Rows to train on, test rows, and π of the labelled test rows, (m,), up to a factor.

    ``propensity`` is None where the data has none, or the test rows are from elsewhere.
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
    """Divide data into rows to train on and test rows, drawn completely at random.

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
    if test is None or data.validation is not None:
        groups = _groups(data, known, share)
    if test is None:
        labelled, beside = _test_rows(data.y.cpu()[known], known, unknown, groups, share, generator)
        y = torch.cat((data.y.cpu()[known[labelled]], torch.full((int(beside.sum()),), MISSING)))
        test = Part(data.x[torch.cat((known[labelled], unknown[beside]))], y)
        _check_judged(data, known, test)
        if data.propensity is not None:
            propensity = data.propensity.cpu()[known[labelled]]
        known, unknown = known[~labelled], unknown[~beside]
    else:
        _check_single(data, known)
    if int(test.labelled.sum()) < LEAST_TEST:
        raise DataError.of(
            "the test rows",
            expected=f"at least {LEAST_TEST} with a label",
            got=f"{int(test.labelled.sum())}",
            do="Label some of them, or omit --test-file.",
        )
    _check_classes(data, known)
    # A validation part that the data came with has labels beyond the budget: some of ours instead.
    watch = torch.zeros(len(known), dtype=torch.bool)
    if data.validation is not None:
        watch = whole_groups(known, groups, len(known) // 5)
        unknown = _beside(data, unknown, watch)
    parts = (known[~watch], known[watch], unknown)
    train = data.with_labels(LabelDraw(*(rows.sort().values for rows in parts)))
    return Division(train, test, propensity)


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


def _thinned(data: SemiData, labels: int) -> SemiData:
    """The data with the propensities of labels of which only some are kept, at random."""
    if data.propensity is None or labels == data.n_labelled:
        return data
    thinned = copy.copy(data)
    thinned.propensity = data.propensity * (labels / data.n_labelled)
    return thinned


def _counts(n_labelled: int, n_unlabelled: int, share: float) -> tuple[int, int]:
    """How many rows with and without a label are held out, and may at most be copies of one."""
    judged = max(LEAST_TEST, round(share * n_labelled))
    return judged, min(round(share * n_unlabelled), max(MOST_BESIDE, BESIDE_EACH * judged))


def _groups(data: SemiData, known: Tensor, share: float) -> Tensor:
    """Numbers (n,), the same for copies of one row, where only some labels are known."""
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
    """Which of the rows with a label and which of the others to hold out; copies go together."""
    n_test, n_beside = _counts(len(known), len(unknown), share)
    labelled = torch.zeros(len(known), dtype=torch.bool)
    for number, n in enumerate(_class_counts(y, groups[known], n_test, generator)):
        own = y == number
        if n:
            labelled[own] = whole_groups(known[own], groups, n)
    beside = torch.isin(groups[unknown], groups[known[labelled]])
    free = ~torch.isin(groups[unknown], groups[known])
    beside[free] = whole_groups(unknown[free], groups, n_beside - int(beside.sum()))
    return labelled, beside


def _class_counts(y: Tensor, groups: Tensor, n: int, generator: torch.Generator) -> list[int]:
    """How many labels of each class to hold out, n in all or a few more.

    In proportion, rounded at random with the right mean: cumulative shares plus one number in
    [0, 1), rounded down. A class of two groups of copies or more gives one label at least, and
    keeps one group.

    Args:
        y: (m,) the class of each labelled row.
        groups: (m,) the group of each.
        n: Labels to hold out.
        generator: Of the number.
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
    name = data.name or "the data"
    if len(known) < LEAST_LABELS:
        raise DataError.of(
            name,
            expected=f"at least {LEAST_LABELS} labelled rows, to train on and to judge by",
            got=f"{len(known)} in {len(data)} rows",
            do="Label more rows.",
        )


def _check_shared(data: SemiData, known: Tensor, test: Part) -> None:
    """Warn of test rows that the models learn with their labels."""
    judged = test.x[test.labelled], test.y[test.labelled]
    if shared := shared_rows(data.x[known], data.y[known], *judged):
        warnings.warn(
            f"{shared} of the {len(judged[1])} labelled test rows are among the labelled rows to "
            "train on: the models know their labels, so these metrics are optimistic. Remove them "
            "from one of the two.",
            UserWarning,
            stacklevel=3,
        )


def _check_judged(data: SemiData, known: Tensor, test: Part) -> None:
    """Warn of classes that have labels, none of which could be held out."""
    counts = data.y.cpu()[known].bincount(minlength=data.n_classes)
    held_out = test.y[test.labelled].cpu().bincount(minlength=data.n_classes)
    alone = [
        name
        for name, count, n in zip(data.class_names, counts.tolist(), held_out.tolist(), strict=True)
        if count and not n
    ]
    if alone:
        warnings.warn(
            f"the class(es) {few(alone)} have one label each (or copies of one row), which is "
            "trained on: how well they are predicted cannot be judged. Label more of their rows.",
            UserWarning,
            stacklevel=3,
        )


def _check_single(data: SemiData, known: Tensor) -> None:
    """Warn of classes with a single label, where no rows are held out of the data."""
    counts = data.y.cpu()[known].bincount(minlength=data.n_classes).tolist()
    single = [name for name, count in zip(data.class_names, counts, strict=True) if count == 1]
    if single:
        warnings.warn(
            f"the class(es) {few(single)} have a single label to train on, so no other label can "
            "tell whether they are learnt. Label more of their rows.",
            UserWarning,
            stacklevel=3,
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
            f"no label of the class(es) {few(absent)} is left to train on: the model cannot "
            "learn them. Label more of their rows.",
            UserWarning,
            stacklevel=3,
        )


def _beside(data: SemiData, unknown: Tensor, watch: Tensor) -> Tensor:
    """Unlabelled rows, in a random order, less as large a share as is watched: so π stays."""
    if data.propensity is None:
        return unknown
    return unknown[int(len(unknown) * float(watch.double().mean())) :]


def every_label(data: SemiData, *, labels: int | None = None, seed: int = 0) -> SemiData:
    """Return the data with the labels that :func:`split` divided, all of them to train on.

    Args:
        data: What was split.
        labels: As in :func:`split`.
        seed: As in :func:`split`.

    >>> data = SemiData(torch.rand(100, 2), torch.arange(100) % 2)
    >>> train, test, _ = split(data, labels=40)
    >>> whole = every_label(data, labels=40)
    >>> whole.n_labelled, train.n_labelled + int(test.labelled.sum()), whole.n_unlabelled
    (40, 40, 60)
    """
    known, unknown = _drawn(data, labels, torch.Generator().manual_seed(seed))
    data = _thinned(data, len(known))
    watch = torch.zeros(len(known), dtype=torch.bool)
    if data.validation is not None:
        watch = whole_groups(known, _groups(data, known, 1 / FOLDS), len(known) // FOLDS)
        unknown = _beside(data, unknown, watch)
    parts = (known[~watch], known[watch], unknown)
    return data.with_labels(LabelDraw(*(rows.sort().values for rows in parts)))


def run_trial(
    data: SemiData,
    test: Part,
    recipe: Recipe,
    *,
    propensity: Tensor | None = None,
    out: Path | None = None,
    progress: bool = True,
) -> Trial:
    """Train a recipe and its complete-case twin, and look at the test rows once.

    Args:
        data: To train on.
        test: Rows held out of it, or from elsewhere.
        recipe: Of :func:`dessl.recipes.recipe_for`.
        propensity: π of the labelled test rows, by which estimates weigh them; of :func:`split`.
        out: Folder for checkpoints, from which training is resumed.
        progress: Whether to show a progress bar, where there is a terminal.
    """
    fitted = _fitted(data, recipe, out, progress)
    x = test.x.to(data.device)
    logits = {  # the model may be its own twin: then the rows are gone through once
        model: predicted_log_proba(model, x) for model in {fitted.model, fitted.complete_case}
    }
    own, twin = logits[fitted.model], logits[fitted.complete_case]
    return Trial(data, test, fitted, own, twin, propensity)


def parts(recipe: Recipe) -> float:
    """How long a fit is likely to be, in networks: some may be left out, or stop early."""
    teachers = len(recipe.teachers) + 2 if recipe.teachers else 0  # one twice, and on all labels
    return recipe.networks * (2 if recipe.trains_unlabelled else 1) + POOL_PARTS * teachers


def refitted(
    trial: Trial,
    whole: SemiData,
    recipe: Recipe,
    *,
    complete_case: bool = False,
    out: Path | None = None,
    progress: bool = True,
) -> Fitted | None:
    """Train what won a trial again on all labels, those that judged it included.

    It is the same recipe: networks with other folds of all labels held out, and a pool weighed on
    them. What was decided stays: the λ of the trial is kept, and no method that it left out comes
    back. Nothing is left to judge the result by; the trial's measurements are those of the model
    before. None where the complete case trained in the trial, but not here.

    Args:
        trial: Of :func:`run_trial`.
        whole: Of :func:`every_label`.
        recipe: For ``whole``, with the options of the trial's recipe.
        complete_case: Whether the complete case won.
        out: Folder for checkpoints, from which training is resumed.
        progress: Whether to show progress bars, where there is a terminal.
    """
    lam = 0.0 if complete_case else trial.fitted.lam
    if RISKS[recipe.plan.risk].unlabelled:
        plan = dataclasses.replace(recipe.plan, lam=lam)
        recipe = dataclasses.replace(recipe, lam=lam, plan=plan)
    if complete_case or not trial.fitted.pool:
        recipe = dataclasses.replace(recipe, teachers=())
    recipe = dataclasses.replace(recipe, safe=False)  # what was decided stays
    found = _fitted(whole, recipe, out, progress)
    before, after = trial.fitted.baseline, found.baseline
    worse = after is not None and not after.trained and not (before and not before.trained)
    return None if worse else found


def _fitted(data: SemiData, recipe: Recipe, out: Path | None, progress: bool) -> Fitted:
    x, y = data.x[data.labelled_rows], data.y[data.labelled_rows]
    most, _ = _counts(len(y), 0, 1 / FOLDS)
    keys = row_digests(x.numpy(force=True))
    groups = copy_groups(keys, y, labelled=most, unlabelled=0)
    with whole_bar(parts(recipe), shown=progress):
        return fit(data, recipe, groups=groups, out=out, progress=progress)

"""Training rows and test rows of one data set, drawn before anything is trained.

Rows are held out before training, the same share with and without labels: a network makes H small
on the rows it was trained on, labelled or not, so only fresh rows of both kinds give an unbiased
comparison of two models. Copies of one row are held out together, and so are rows of one group.

Labelled rows are held out class by class, in proportion: each class by its share, rounded up or
down at random so that every row is held out with the same probability and means over the test rows
stay unbiased. A class with so few labels that none might be held out contributes one, so that every
class with two labels is among the test rows; that adds less than one row for each such class. A
class with one label is used for training, with a warning that it cannot be evaluated.

Rows of one group are not independent: intervals need the groups of the test rows too
(:mod:`dessl.evaluation.debiased.groups`).
"""

import copy
import warnings
from typing import NamedTuple

import torch
from torch import Tensor

from dessl import _checks
from dessl._checks import quoted
from dessl.data import DataError, LabelDraw, Part, SemiData
from dessl.data.errors import few
from dessl.data.labels import MISSING
from dessl.data.row_keys import copy_groups, row_digests, shared_rows, whole_groups
from dessl.recipes.held_out import FOLDS

LEAST_LABELS = 10
LEAST_TEST = 3  # labelled rows, for an interval
MOST_UNLABELLED, UNLABELLED_EACH = 10_000, 10  # held out in total, or per labelled row: enough


class RowDesign(NamedTuple):
    """What the intervals of test rows depend on besides predictions and labels.

    Attributes:
        propensity: π of the labelled rows, (m,), up to a factor; None if all are equal.
        groups: Group numbers of all rows, (n,); None if each row is its own.
    """

    propensity: Tensor | None = None
    groups: Tensor | None = None


class Division(NamedTuple):
    """Training rows, test rows, and the design of test rows held out of the data."""

    train: SemiData
    test: Part
    design: RowDesign


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
        data: The whole data, with all labels. If it has groups, they are held out as a whole.
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
    _check_groups(data, known)
    data = _thinned(data, len(known))
    design = RowDesign()
    if test is not None:
        _check_shared(data, known, test)
    elif data.test is not None:
        test = data.test
    grouped = test is None or data.validation is not None
    groups = _groups(data, known, share) if grouped else torch.arange(len(data))
    if test is None:
        known_y = data.y.cpu()[known]
        test_l, test_u = _test_rows(known_y, known, unknown, groups, share, generator)
        tested = known[test_l]
        rows = torch.cat((tested, unknown[test_u]))
        y = torch.full((len(rows),), MISSING)
        y[: len(tested)] = known_y[test_l]
        test = Part(data.x[rows], y)
        _check_held_out(data, known, test)
        design = RowDesign(
            None if data.propensity is None else data.propensity.cpu()[tested],
            None if data.groups is None else data.groups.cpu()[rows],
        )
        known, unknown = known[~test_l], unknown[~test_u]
    else:
        _check_single(data, known)
    check_test(test, design.groups)
    _check_classes(data, known)
    return Division(_with_labels(data, known, unknown, groups), test, design)


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
    """Numbers of labelled and unlabelled rows to hold out; more equal rows are no copies."""
    labelled = max(LEAST_TEST, round(share * n_labelled))
    most = max(MOST_UNLABELLED, UNLABELLED_EACH * labelled)
    return labelled, min(round(share * n_unlabelled), most)


def _groups(data: SemiData, known: Tensor, share: float) -> Tensor:
    """Group numbers (n,): those of the data, or the same for copies, with some labels known."""
    if data.groups is not None:
        return data.groups.cpu()
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
    labelled, sizes = torch.zeros(len(known), dtype=torch.bool), y.bincount().tolist()
    wanted = _class_counts(y, groups[known], n_test, generator)
    for number in sorted(range(len(wanted)), key=sizes.__getitem__):  # a group may have several
        own = (y == number) & ~labelled
        n = wanted[number] - int(labelled[y == number].sum())
        if n > 0:
            labelled[own] = whole_groups(known[own], groups, n)
            labelled = torch.isin(groups[known], groups[known[labelled]])
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


def _check_groups(data: SemiData, known: Tensor) -> None:
    if data.groups is None:
        return
    n = len(torch.unique(data.groups.cpu()[known]))
    if n < LEAST_LABELS:
        raise DataError.of(
            data.name or "the data",
            expected=f"labels in at least {LEAST_LABELS} groups, some of which are held out",
            got=f"{n}",
            do="Label rows of more groups, or fit without groups.",
        )


def check_test(test: Part, groups: Tensor | None) -> None:
    """Refuse test rows with too few labels for an interval.

    Args:
        test: The test rows.
        groups: Their group numbers, (n,); None if each row is its own.
    """
    if (n := int(test.labelled.sum())) < LEAST_TEST:
        raise DataError.of(
            "the test rows",
            expected=f"at least {LEAST_TEST} labelled rows",
            got=f"{n}",
            do="Label some of them, or omit --test-file.",
        )
    if groups is None:
        return
    if (n := len(torch.unique(groups[test.labelled.cpu()]))) < LEAST_TEST:
        raise DataError.of(
            "the test rows",
            expected=f"labelled rows of at least {LEAST_TEST} groups",
            got=f"those of {n}",
            do="Label rows of more groups, or hold out a larger share (--hold-out).",
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
            f"{_classes(alone)} only one label{' each' * (len(alone) > 1)} (or copies of one row), "
            "which is used for training and not for evaluation. Label more such rows.",
            UserWarning,
            stacklevel=3,
        )


def _check_single(data: SemiData, known: Tensor) -> None:
    """Warn about classes with a single label, if no rows are held out of the data."""
    counts = data.y.cpu()[known].bincount(minlength=data.n_classes).tolist()
    single = [name for name, count in zip(data.class_names, counts, strict=True) if count == 1]
    if single:
        warnings.warn(
            f"{_classes(single)} only one training label{' each' * (len(single) > 1)}, so no other "
            "label can show what is learnt. Label more such rows.",
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
            f"{_classes(absent)} no training label left, and cannot be learnt. Label more such "
            "rows.",
            UserWarning,
            stacklevel=3,
        )


def _classes(names: list[str]) -> str:
    """The subject and verb of a sentence on what classes have.

    >>> _classes(["8"]), _classes(["a", "b"])
    ("class '8' has", "classes 'a', 'b' have")
    """
    shown = few([quoted(name) for name in names])
    return f"classes {shown} have" if len(names) > 1 else f"class {shown} has"


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


def label_groups(data: SemiData) -> Tensor:
    """Return a number for each labelled row, (n_labelled,), the same within a group or for copies.

    >>> data = SemiData(torch.tensor([[1.0], [2.0], [1.0], [4.0]]), [0, 1, 0, -1])
    >>> label_groups(data).tolist()
    [0, 1, 0]
    """
    rows = data.labelled_rows
    if data.groups is not None:
        return data.groups[rows]
    y = data.y[rows]
    most, _ = _counts(len(y), 0, 1 / FOLDS)
    keys = row_digests(data.x[rows].numpy(force=True))
    return copy_groups(keys, y, labelled=most, unlabelled=0)

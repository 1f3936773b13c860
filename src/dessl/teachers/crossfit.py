"""Cross-fitting: each labelled row is predicted by a teacher that did not see its label.

A held-out row stays among the unlabelled rows: its features may be used, its label may not. Its
label may not select the step of the network that predicts it either. A network trained without a
fold and stopped at the fold's least loss is optimistic on the fold's rows: on overlapping classes
with six rows in a fold, .32 nats where new rows had .58 (means of three draws). So each row's step
is chosen by the fold's other rows (:func:`selected_by_others`).
"""

import copy
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any

import torch
from torch import Tensor

from dessl.teachers.base import OwnFolds, Saveable, Teacher
from dessl.teachers.graph import Graph, labelled_rows, settings_out_of_fold
from dessl.teachers.rows import SomeRows
from dessl.training.threads import one_thread

FOLDS = 5
AT_ONCE = 2  # folds fitted at the same time


def stratified_folds(y: Tensor, *, folds: int = FOLDS, seed: int = 0) -> Tensor:
    """Return the fold of each label, (n,): classes are spread evenly, sizes differ by at most one.

    >>> stratified_folds(torch.tensor([0, 1] * 10)).bincount().tolist()
    [4, 4, 4, 4, 4]
    """
    generator = torch.Generator().manual_seed(seed)
    order = torch.randperm(len(y), generator=generator)
    order = order[y.cpu()[order].argsort(stable=True)]
    numbers = torch.empty(len(y), dtype=torch.int64)
    numbers[order] = torch.arange(len(y)) % folds
    return numbers


def first_of_groups(groups: Tensor) -> Tensor:
    """Return the first row of each group, for numbers (n,).

    >>> first_of_groups(torch.tensor([5, 3, 5, 3, 9])).tolist()
    [1, 0, 4]
    """
    present, number = torch.unique(groups, return_inverse=True)
    rows = torch.arange(len(groups), device=groups.device)
    first = torch.full_like(present, len(groups), dtype=torch.long)
    return first.scatter_reduce(0, number, rows, "amin")


def rows_for(teacher: Teacher, x_l: Tensor, x_u: Tensor | SomeRows) -> Tensor:
    """Return unlabelled rows in the form a teacher needs; none if it does not use them.

    Some teachers take rows that are not yet gathered; the others need a copy.
    """
    if getattr(teacher, "ignores_x_u", False):
        return x_l[:0]
    if isinstance(x_u, SomeRows) and not getattr(teacher, "takes_some_rows", False):
        return x_u.gathered().cpu()
    return x_u  # type: ignore[return-value]  # SomeRows only for teachers that take them


def out_of_fold(
    teacher: Teacher,
    x_l: Tensor,
    y_l: Tensor,
    x_u: Tensor | SomeRows,
    folds: Tensor,
    n_classes: int,
    weights: Tensor | None = None,
) -> Tensor:
    """Return log-probabilities (n_l, n_classes), float64, of labelled rows.

    The teacher itself is not changed. Rows of fold −1 are never held out and get NaN.

    Args:
        teacher: A teacher whose ``predict_log_proba`` has shape (n, n_classes).
        x_l: (n_l, d).
        y_l: (n_l,) class numbers.
        x_u: (n_u, d), where n_u may be 0; or rows that are not yet gathered.
        folds: Fold numbers (n_l,) from 0; −1 for rows that are always trained on.
        n_classes: Number of classes.
        weights: How much each label counts, (n_l,); None if all count the same.

    >>> from dessl.teachers.linear import Linear
    >>> x = torch.arange(8.0)[:, None]
    >>> y, folds = (x[:, 0] > 3).long(), torch.tensor([0, 1, 1, 0, 0, 1, 1, 0])
    >>> out_of_fold(Linear(1.0), x, y, x[:0], folds, 2).argmax(1).tolist()
    [0, 0, 0, 0, 1, 1, 1, 1]
    """
    _check_folds(folds, y_l)
    others = rows_for(teacher, x_l, x_u)
    if isinstance(teacher, OwnFolds):
        return teacher.out_of_fold(x_l, y_l, others, folds, n_classes, **weighted(weights))
    found = torch.full((len(y_l), n_classes), torch.nan, dtype=torch.float64)
    ignores = getattr(teacher, "ignores_x_u", False)

    def predict_fold(fold: int) -> None:
        held = folds == fold
        # Rows that a teacher does not use are not copied: there may be a million.
        unlabelled = others if ignores else torch.cat([others, x_l[held]])
        counts = weighted(None if weights is None else weights[~held])
        own = copy.deepcopy(teacher).fit(x_l[~held], y_l[~held], unlabelled, n_classes, **counts)
        found[held] = _checked(
            own.predict_log_proba(x_l[held]), teacher, int(held.sum()), n_classes
        )

    # A classifier of the user may not be safe to fit in two threads.
    at_once = AT_ONCE if isinstance(teacher, Saveable) else 1
    with one_thread(when=at_once > 1), ThreadPoolExecutor(at_once, "dessl-folds") as pool:
        jobs = [
            pool.submit(copy_context().run, predict_fold, fold)
            for fold in torch.unique(folds[folds >= 0]).tolist()
        ]
        for job in jobs:
            job.result()
    return found


def weighted(weights: Tensor | None) -> dict[str, Any]:
    """Return the argument ``weights`` for a teacher; none if all labels count the same."""
    return {} if weights is None else {"weights": weights}


def each_out_of_fold(
    teachers: Sequence[Teacher],
    x_l: Tensor,
    y_l: Tensor,
    x_u: Tensor | SomeRows,
    folds: Tensor,
    n_classes: int,
    weights: Tensor | None = None,
) -> dict[str, Tensor]:
    """Return the out-of-fold log-probabilities of several teachers, by their names.

    Graphs that share their edges are diffused together, which costs as much as the slowest one.
    """
    graphs = [teacher for teacher in teachers if isinstance(teacher, Graph)]
    if len(graphs) < 2 or len({id(graph.shared) for graph in graphs}) > 1:
        return {t.name: out_of_fold(t, x_l, y_l, x_u, folds, n_classes, weights) for t in teachers}
    _check_folds(folds, y_l)
    alphas = sorted({graph.alpha for graph in graphs})
    smoothings = sorted({graph.smoothing for graph in graphs})
    rows = labelled_rows(x_l, y_l, x_u, n_classes, weights)
    edges = graphs[0].shared.of(x_l, x_u)
    together = iter(settings_out_of_fold(edges, rows, folds, alphas, smoothings))
    by_setting = {(alpha, s): next(together) for alpha in alphas for s in smoothings}
    return {
        t.name: by_setting[t.alpha, t.smoothing]
        if isinstance(t, Graph)
        else out_of_fold(t, x_l, y_l, x_u, folds, n_classes, weights)
        for t in teachers
    }


def _check_folds(folds: Tensor, y_l: Tensor) -> None:
    if folds.shape != y_l.shape:
        raise ValueError(
            f"folds must have one number for each of the {len(y_l)} labelled rows; got shape "
            f"{tuple(folds.shape)}."
        )
    if not bool((folds >= 0).any()):
        raise ValueError(
            "folds must hold some labels out; got −1 for all. With so few labels, fit the teacher "
            "on all of them, without evaluating it."
        )


def _checked(log_p: Tensor, teacher: Teacher, n: int, n_classes: int) -> Tensor:
    if log_p.shape != (n, n_classes):
        raise ValueError(
            f"teacher {teacher.name!r} must return log-probabilities of shape ({n}, {n_classes}); "
            f"got {tuple(log_p.shape)}."
        )
    if not bool(torch.isfinite(log_p).all()):
        raise ValueError(
            f"teacher {teacher.name!r} must return finite log-probabilities; got NaN or infinite "
            "ones. Mix its probabilities with the class shares before the logarithm."
        )
    return log_p.double()


def selected_by_others(
    logits: Tensor, y: Tensor, groups: Tensor | None = None, weights: Tensor | None = None
) -> Tensor:
    """Return log-probabilities (n, classes), float64, each at the step selected by other rows.

    Args:
        logits: Logits (evaluations, n, classes) of a fold's rows, from the network that held them
            out.
        y: Their class numbers (n,).
        groups: Group numbers (n,); rows of one group, such as copies of one row, do not select for
            each other. By default each row is its own group.
        weights: How much each row's loss counts, (n,); None if all count the same.

    >>> logits = torch.tensor([[[2.0, 0.0], [2.0, 0.0]], [[0.0, 2.0], [0.0, 2.0]]])
    >>> selected_by_others(logits, torch.tensor([0, 1])).argmax(1).tolist()  # each by the other
    [1, 0]
    """
    if logits.ndim != 3 or logits.shape[1] != len(y) or not len(logits):
        raise ValueError(
            f"logits must have shape (evaluations, {len(y)}, classes); got {tuple(logits.shape)}."
        )
    log_p = logits.double().log_softmax(-1)
    losses = -log_p.gather(2, y.expand(len(log_p), -1)[:, :, None])[:, :, 0]
    if weights is not None:
        losses = losses * weights
    _, group = torch.unique(torch.arange(len(y)) if groups is None else groups, return_inverse=True)
    if int(group.max()) == 0:  # no other row to select the step: use the last one
        return log_p[-1]
    own = losses.new_zeros(len(losses), int(group.max()) + 1).index_add(1, group, losses)[:, group]
    others = losses.sum(1, keepdim=True) - own
    return log_p[others.argmin(0), torch.arange(len(y))]

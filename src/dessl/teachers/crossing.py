"""Cross-fit the teachers of a pool: one kind after another, at once or while networks train.

What a teacher predicts out of fold does not depend on the networks. So a second core can compute it
meanwhile, with the same result: teachers draw from generators of their own.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial

from torch import Tensor

from dessl.augment.symmetries import NO_SYMMETRIES, Symmetries
from dessl.data import SemiData
from dessl.teachers.base import Teacher
from dessl.teachers.crossfit import each_out_of_fold
from dessl.teachers.evaluated import EvaluatedRows, Predict, evaluated_rows
from dessl.teachers.families import DEFAULT, named_families
from dessl.teachers.patches import Patches, learnt_patches, suit_patches
from dessl.teachers.rows import as_columns
from dessl.teachers.space import Space
from dessl.training.progress import doing

POOL_PARTS = 0.5  # time of one kind of teacher in units of a network's, for a progress bar

Scores = Mapping[str, Mapping[str, Tensor]]  # family → candidate → log-probabilities
Job = Callable[[], dict[str, Tensor]]
Later = Callable[[Job], Job]  # from a computation to its result, for when it is needed


@contextmanager
def in_background() -> Iterator[Later]:
    """Compute jobs in a thread, in order; those not begun by the end of the block are dropped.

    >>> with in_background() as later:
    ...     later(dict)()
    {}
    """
    pool = ThreadPoolExecutor(1, "dessl-teachers")
    try:
        yield lambda job: pool.submit(copy_context().run, job).result
    finally:
        pool.shutdown(cancel_futures=True)


def when_needed(job: Job) -> Job:
    """Compute a job when its result is asked for."""
    return job


@dataclass(frozen=True)
class Crossing:
    """The teachers of a pool, and their predictions of rows whose labels they did not see.

    Attributes:
        columns: Function from rows of the data to the teachers' columns (n, d).
        rows: The rows to predict, without an anchor.
        families: The candidates of each teacher, not fitted.
        jobs: Computes the log-probabilities of all rows by each candidate, for each family.
        alone: The same from labelled rows alone, for families that use unlabelled rows.
    """

    columns: Predict
    rows: EvaluatedRows
    families: Mapping[str, Sequence[Teacher]]
    jobs: Mapping[str, Job]
    alone: Mapping[str, Job]

    @classmethod
    def of(
        cls,
        data: SemiData,
        folds: Tensor,
        *,
        teachers: Sequence[object] = DEFAULT,
        columns: Predict | None = None,
        groups: Tensor | None = None,
        symmetries: Symmetries = NO_SYMMETRIES,
        seed: int = 0,
        later: Later = when_needed,
    ) -> "Crossing":
        """Gather the rows and the teachers; see :func:`dessl.teachers.pooled` for the arguments.

        Args:
            data: Labelled and unlabelled rows.
            folds: The fold of each label.
            teachers: The teachers to try.
            columns: Their columns.
            groups: Numbers of labels that count as one.
            symmetries: Of images.
            seed: Seed of the trees and of the draw of unlabelled rows.
            later: Says when each family is computed: when needed, or :func:`in_background`.
        """
        if columns is None:
            columns = _columns_for(data, teachers, seed, symmetries)
        rows = evaluated_rows(data, folds, groups, columns, seed)
        if isinstance(columns, Patches):
            space, rows = Space.unchanged(rows.x.shape[1]), rows.gathered()
        else:
            space = Space.of(rows.x, rows.x_u)
        families = named_families(teachers, space, seed)
        known = (rows.folds, rows.n_classes, rows.weights)
        jobs = {
            family: later(partial(each_out_of_fold, its, rows.x, rows.y, rows.x_u, *known))
            for family, its in families.items()
        }
        alone = {
            family: later(partial(each_out_of_fold, its, rows.x, rows.y, rows.x[:0], *known))
            for family, its in families.items()
            if len(rows.x_u) and any(getattr(one, "uses_unlabelled", True) for one in its)
        }
        return cls(columns, rows, families, jobs, alone)

    def scores(self, evaluated: Tensor) -> Scores:
        """Out-of-fold log-probabilities of the evaluated rows, by family and candidate."""
        return _found(self.jobs, evaluated)

    def without_unlabelled(self, scores: Scores, evaluated: Tensor) -> Scores:
        """The same from labelled rows alone, recomputed only for those that use unlabelled rows."""
        return {**scores, **_found(self.alone, evaluated)} if self.alone else scores


def _found(jobs: Mapping[str, Job], evaluated: Tensor) -> Scores:
    found = {}
    for family, job in jobs.items():
        with doing(f"pool, {family}", POOL_PARTS):
            found[family] = {name: log_p[evaluated] for name, log_p in job().items()}
    return found


def _columns_for(
    data: SemiData, teachers: Sequence[object], seed: int, symmetries: Symmetries
) -> Predict:
    """Patches of images, if the teachers are ours; the flattened rows otherwise."""
    if not suit_patches(data, teachers):
        return as_columns
    with doing("pool, patches", POOL_PARTS):
        return learnt_patches(data, seed, symmetries)

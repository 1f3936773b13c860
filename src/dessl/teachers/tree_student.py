"""A tree student: trees that learn from gold labels and corrected answers, for tables.

Networks need many rows for a law of rules; trees do not. For each fold k, extremely randomised
trees grow on the unlabelled rows with their corrected answers q̃_k and on the gold rows of the other
folds with their labels, and predict the gold rows of fold k: cross-fitted as the networks are
(:mod:`dessl.teachers.cross_corrected`). New rows are predicted by the trees of all folds.
"""

from collections.abc import Sequence

import torch

from dessl.teachers.fold_networks import Lesson
from dessl.teachers.rows import as_columns
from dessl.teachers.school import School
from dessl.teachers.trees import Trees

NAME = "tree student"
TREES = 25  # of a fold; new rows are predicted by those of all five
LEAST_LEAF, MOST_LEAVES = 5, 1_000  # a saved forest does not grow with the rows
TRIED = 64  # columns tried at a split
GOLD_WEIGHT = 3.0  # of a gold row, against an unlabelled row
MOST_ROWS = 20_000  # unlabelled rows that trees learn from: their time grows with them


def tree_students(school: School, lessons: Sequence[Lesson]) -> tuple[Trees, ...]:
    """Grow the trees of each fold.

    Args:
        school: The rows, split by their use.
        lessons: What the student of each fold learns from, as in :meth:`School.lessons`.
    """
    gold, rows = school.networks.gold, school.pool_rows[:MOST_ROWS]  # in an order drawn by seed
    x_rest, x_gold = as_columns(school.x[rows]), as_columns(school.x[school.gold_rows])
    labels = torch.eye(gold.n_classes)[gold.y]
    leaf = max(LEAST_LEAF, -(-len(rows) // MOST_LEAVES))
    found = []
    for fold, lesson in enumerate(lessons):
        if lesson.targets is None:
            raise ValueError("a tree student needs a lesson with answers to unlabelled rows.")
        own = lesson.labelled
        x = torch.cat([x_rest, x_gold[own]])
        targets = torch.cat([lesson.targets[: len(rows)], labels[own]])
        weights = torch.cat([torch.ones(len(rows)), torch.full((len(own),), GOLD_WEIGHT)])
        trees = Trees(TREES, leaf, tried=TRIED, seed=school.seed + 300 + fold)
        found.append(trees.fit_targets(x, targets, weights))
    return tuple(found)

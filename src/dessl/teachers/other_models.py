"""Other models without answers, those of the default pool: graph, linear, trees and so on.

They learn from gold labels and unlabelled rows, and are pooled with the networks whether or not
there is a teacher: otherwise a teacher would be credited with what a linear model gains without it.
Of each family, the best setting out of fold is used; for the evaluation of a fold, the best one
outside it.
"""

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from dessl.data import SemiData
from dessl.teachers.base import Teacher
from dessl.teachers.crossfit import each_out_of_fold, rows_for
from dessl.teachers.families import named_families
from dessl.teachers.graph import Graph, forget_graphs
from dessl.teachers.pool import best_of
from dessl.teachers.rows import SomeRows, as_columns
from dessl.teachers.space import Space


@dataclass(frozen=True)
class OtherModels:
    """Families of models with the out-of-fold predictions of gold rows by every setting."""

    x: Tensor  # all rows of the data
    gold: Tensor  # numbers of its gold rows
    y: Tensor
    unlabelled: Tensor  # numbers of the unlabelled rows that the models see
    folds: Tensor
    n_classes: int
    families: Mapping[str, Mapping[str, Teacher]]
    scores: Mapping[str, Mapping[str, Tensor]]  # log-probabilities (n_gold, classes)
    x_gold: Tensor
    x_unlabelled: SomeRows

    @classmethod
    def of(
        cls,
        data: SemiData,
        unlabelled: Tensor,
        folds: Tensor,
        space: Space,
        *,
        models: Sequence[object],
        seed: int,
    ) -> Self:
        """Cross-fit all settings of the models on the folds of the gold rows.

        Args:
            data: A table with gold labels.
            unlabelled: Numbers of the unlabelled rows to use.
            folds: The fold of each gold row, (n_gold,).
            space: The space in which distances and slopes are measured.
            models: Names in ``dessl.teachers.KINDS``, teachers, or scikit-learn classifiers.
            seed: Seed of the trees.
        """
        gold = data.labelled_rows
        x, y = as_columns(data.x[gold]), data.y[gold]
        x_u = SomeRows(data.x, unlabelled, as_columns)
        families = named_families(models, space, seed, len(y))
        scores = {
            family: each_out_of_fold(each, x, y, x_u, folds, data.n_classes)
            for family, each in families.items()
        }
        by_name = {family: {one.name: one for one in each} for family, each in families.items()}
        parts = (data.x, gold, y, unlabelled, folds, data.n_classes, by_name, scores, x, x_u)
        return cls(*parts)

    def __len__(self) -> int:
        return len(self.families)

    def best(self, rows: Tensor | None = None) -> tuple[str, ...]:
        """Names of the best setting of each family, by some gold rows or by all of them."""
        some = torch.arange(len(self.y)) if rows is None else rows
        return tuple(
            best_of({name: log_p[some] for name, log_p in each.items()}, self.y[some])
            for each in self.scores.values()
        )

    def out_of_fold(self, names: Iterable[str]) -> Tensor:
        """Log-probabilities (members, n_gold, classes) of gold rows, each out of fold."""
        every = {name: log_p for each in self.scores.values() for name, log_p in each.items()}
        empty = torch.zeros(0, len(self.y), self.n_classes, dtype=torch.float64)
        return torch.cat([empty, *(every[name][None] for name in names)])

    def without_fold(self, names: Sequence[str], fold: int, rows: Tensor) -> Tensor:
        """Log-probabilities (members, n, classes) of other rows of the data, without one fold."""
        found = torch.zeros(len(names), len(rows), self.n_classes, dtype=torch.float64)
        if len(rows):
            x = as_columns(self.x[rows])
            for number, name in enumerate(names):
                found[number] = self._fitted_without(name, fold).predict_log_proba(x)
        return found

    def fitted(self, names: Iterable[str]) -> dict[str, Teacher]:
        """Models fitted to all gold rows; releases what the settings of a graph shared."""
        x, x_u = self.x_gold, self.x_unlabelled
        wanted = {name: self._setting(name) for name in names}
        found = {
            name: one.fit(x, self.y, rows_for(one, x, x_u), self.n_classes)
            for name, one in wanted.items()
        }
        forget_graphs(one for each in self.families.values() for one in each.values())
        return found

    def _setting(self, name: str) -> Teacher:
        return next(each[name] for each in self.families.values() if name in each)

    def _fitted_without(self, name: str, fold: int) -> Teacher:
        """A setting fitted without the labels of one fold, whose rows count as unlabelled."""
        one, held, x = self._setting(name), self.folds == fold, self.x_gold
        if isinstance(one, Graph):  # the graph of all rows is the same for every fold
            return copy.copy(one).fit(x, self.y, self.x_unlabelled, self.n_classes, held=held)
        others = SomeRows(self.x, torch.cat([self.unlabelled, self.gold[held]]), as_columns)
        new = copy.deepcopy(one)
        return new.fit(x[~held], self.y[~held], rows_for(new, x, others), self.n_classes)

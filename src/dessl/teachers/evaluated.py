"""The rows that teachers are trained and evaluated on, with what the anchor predicts for them."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor

from dessl.data import SemiData
from dessl.teachers.rows import SomeRows

MOST_UNLABELLED = 200_000  # seen by teachers: no clear gain from more in benchmarks/graph_rows.py

Predict = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class EvaluatedRows:
    """Labelled rows, and which of them are used for training and for evaluation.

    Attributes:
        x: Columns (n, d) of the labelled rows, and of the validation part if there is one.
        y: Their classes (n,).
        x_u: Columns of the unlabelled rows.
        n_classes: Number of classes.
        folds: The fold of each row; −1 for rows that were never held out.
        anchor: The anchor's log-probabilities (n, classes), NaN for rows that no network held out.
        groups: Numbers (n,); rows with the same one count as one label.
        trained: Whether the final members are trained on a row.
        weights: 1/π of each label, if there are propensities.
        grouped: Whether the data have groups; without them, only copies count as one label.
    """

    x: Tensor
    y: Tensor
    x_u: Tensor | SomeRows
    n_classes: int
    folds: Tensor
    anchor: Tensor
    groups: Tensor
    trained: Tensor
    weights: Tensor | None
    grouped: bool = False

    @property
    def evaluated(self) -> Tensor:
        """Which rows, (n,), the members are evaluated on."""
        return (self.folds >= 0) & torch.isfinite(self.anchor).all(1)

    def gathered(self) -> Self:
        """Return the same with the unlabelled rows' columns in memory, computed once."""
        if isinstance(self.x_u, Tensor):
            return self
        return replace(self, x_u=torch.cat([block.cpu() for block in self.x_u.blocks()]))

    def counts(self, some: Tensor) -> Tensor | None:
        """The weights of some rows; None if all count the same."""
        return None if self.weights is None else self.weights[some]

    def labels(self, some: Tensor) -> float:
        """How many labels some rows are worth: copies count once, unequal weights for less."""
        _, group = torch.unique(self.groups[some], return_inverse=True)
        if self.weights is None:
            return int(group.max()) + 1
        sums = torch.zeros(int(group.max()) + 1, dtype=torch.float64)
        sums.index_add_(0, group, self.weights[some] / group.bincount()[group])
        return float(sums.sum() ** 2 / sums.square().sum())


def evaluated_rows(
    data: SemiData,
    folds: Tensor,
    anchor: Tensor,
    groups: Tensor | None,
    columns: Predict,
    seed: int,
) -> EvaluatedRows:
    """Gather what a pool is fitted to; see :func:`dessl.teachers.pooled` for the arguments."""
    x, y = columns(data.x[data.labelled_rows]).cpu(), data.y[data.labelled_rows].cpu()
    x_u: Tensor | SomeRows = x[:0]
    if len(data.unlabelled_rows):  # rows on disk are not loaded at once
        x_u = SomeRows(data.x, _seen(data.unlabelled_rows, seed), columns)
    groups = torch.arange(len(y)) if groups is None else groups.cpu()
    anchor, folds = anchor.detach().double().cpu(), folds.cpu()
    trained = torch.ones(len(y), dtype=torch.bool)
    weights = label_weights(data)
    if (held := data.validation) is not None:
        n = len(held.y)
        x, y = torch.cat([x, columns(held.x).cpu()]), torch.cat([y, held.y.cpu()])
        nothing = torch.full((len(trained), data.n_classes), torch.nan, dtype=torch.float64)
        anchor = torch.cat([nothing, anchor])
        folds = torch.cat([torch.full((len(trained),), -1), torch.zeros(n, dtype=torch.long)])
        groups = torch.cat([groups, groups.max() + 1 + torch.arange(n)])
        trained = torch.cat([trained, torch.zeros(n, dtype=torch.bool)])
        if weights is not None:  # a validation part is a sample of all rows
            weights = torch.cat([weights, torch.ones(n, dtype=torch.float64)])
    if anchor.shape != (len(y), data.n_classes) or folds.shape != y.shape:
        raise ValueError(
            f"folds and anchor_oof must have one row for each held-out label: shapes ({len(y)},) "
            f"and ({len(y)}, {data.n_classes}); got {tuple(folds.shape)} and "
            f"{tuple(anchor.shape)}."
        )
    grouped = data.groups is not None
    return EvaluatedRows(
        x, y, x_u, data.n_classes, folds, anchor, groups, trained, weights, grouped
    )


def label_weights(data: SemiData) -> Tensor | None:
    """Return 1/π of each label, (n_labelled,), float64 on the CPU; None without propensities."""
    if data.propensity is None:
        return None
    return 1 / data.propensity[data.labelled_rows].double().cpu()


def _seen(numbers: Tensor, seed: int) -> Tensor:
    """The numbers of the unlabelled rows that teachers see, in order."""
    if len(numbers) <= MOST_UNLABELLED:
        return numbers
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randperm(len(numbers), generator=generator)[:MOST_UNLABELLED]
    return numbers[drawn.sort().values.to(numbers.device)]

"""Rows that belong together: an estimate moves by whole groups, not by rows.

Rows of one group, such as a patient's, are not independent. With c_i the amount by which row i
moves an estimate (:mod:`dessl.evaluation.debiased.design`) and C_g = Σ_{i ∈ g} c_i, labelled and
unlabelled rows together,

    V(θ̂) = Σ_g C_g²,

whatever the correlation within groups, if groups are independent of each other. Bounds are then
solved with the moments of C_g in place of those of c_i. Where the variance of unseen labels
matters, row i counts with the weight

    b_i = a_i + ρ (A_g − a_i),    A_g = Σ_{i ∈ g} a_i,

where ρ is the correlation of the losses of two rows of one group. 1/Σ a_i b_i is the number of
independent labels with the same precision: m for ρ = 0, and the number of groups for ρ = 1 if all
have the same size. If all losses are equal nothing is known about ρ, and it counts as 1.
"""

import warnings
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dessl._checks import ArrayLike

FEWEST_GROUPS = 3  # with labelled rows, for an interval
LEAST_GROUPS = 5  # effective number of labelled groups; with fewer, coverage was not measured


class NarrowIntervalWarning(UserWarning):
    """Errors that no label has shown are likely, so that an interval is too narrow."""


class Groups(NamedTuple):
    """The groups of labelled and then unlabelled rows.

    Attributes:
        number: Group of each row, (m + n_u,); groups with labelled rows come first.
        labelled: Number of groups with labelled rows.
        every: Number of all groups.
    """

    number: Tensor
    labelled: int
    every: int

    def totals(self, values: Tensor) -> Tensor:
        """Sums over each group, (every,), of values of all rows; (labelled,) of m values."""
        alone = len(values) < len(self.number)
        size = self.labelled if alone else self.every
        return values.new_zeros(size).index_add_(0, self.number[: len(values)], values)

    def effective(self, weights: Tensor) -> float:
        """Kish's number of equally weighted groups, for weights of rows: (Σ A)²/Σ A²."""
        totals = self.totals(weights)
        return float(totals.sum() ** 2 / totals.square().sum())

    def shared_weights(self, weights: Tensor, off: Tensor) -> Tensor:
        """Return the weights b of the labelled rows, (m,).

        Args:
            weights: Weights a of the labelled rows, (m,), summing to one.
            off: Their losses minus the mean, (m,).
        """
        whole = self.totals(weights)[self.number[: len(weights)]]
        return weights + self.correlation(weights, off) * (whole - weights)

    def correlation(self, weights: Tensor, off: Tensor) -> float:
        """Return the correlation ρ of the losses of two rows of one group, in [0, 1].

        Args:
            weights: Weights a of the labelled rows, (m,).
            off: Their losses minus the mean, (m,).
        """
        whole = self.totals(weights)[self.number[: len(weights)]]
        moved = weights * off
        apart = float((moved * off) @ (whole - weights))  # the same if pairs were equal
        together = float(self.totals(moved).square().sum() - moved.square().sum())
        return min(1.0, max(0.0, together / apart)) if apart > 0 else 1.0


def groups_of(
    labelled: int,
    unlabelled: int,
    groups: "ArrayLike | None",
    groups_unlabelled: "ArrayLike | None",
) -> Groups | None:
    """Check groups and number them; None if there are none, or if each row is its own.

    >>> groups_of(4, 2, ["b", "a", "b", "d"], ["c", "a"])
    Groups(number=tensor([1, 0, 1, 2, 3, 0]), labelled=3, every=4)
    """
    if groups is None:
        if groups_unlabelled is not None:
            raise ValueError("groups_unlabelled needs groups, those of the labelled rows.")
        return None
    parts = [_checked("groups", groups, labelled)]
    if groups_unlabelled is not None:
        parts.append(_checked("groups_unlabelled", groups_unlabelled, unlabelled))
    elif unlabelled:
        raise ValueError(
            "unlabelled rows may belong to the groups of labelled ones: pass groups_unlabelled, "
            f"the groups of the {unlabelled} unlabelled rows, or omit these rows."
        )
    if len({part.dtype.kind in "US" for part in parts}) > 1:
        raise ValueError(
            "groups and groups_unlabelled must both be text or both be numbers, so that equal "
            f"groups can be found; got {parts[0].dtype} and {parts[1].dtype}."
        )
    _, index = np.unique(np.concatenate(parts), return_inverse=True)
    index = index.reshape(-1)
    own = np.unique(index[:labelled])
    order = np.concatenate([own, np.setdiff1d(index, own)])
    if len(order) == len(index):
        return None
    if len(own) < FEWEST_GROUPS:
        raise ValueError(
            f"an interval needs labelled rows of at least {FEWEST_GROUPS} groups; got those of "
            f"{len(own)}. Label rows of more groups."
        )
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    return Groups(torch.from_numpy(place[index]), len(own), len(order))


def _checked(name: str, groups: "ArrayLike", rows: int) -> NDArray[Any]:
    array = groups.numpy(force=True) if isinstance(groups, Tensor) else np.asarray(groups)
    if array.shape != (rows,):
        raise ValueError(
            f"{name} must have one entry for each of the {rows} rows; got shape {array.shape}."
        )
    missing = array != array if array.dtype.kind != "O" else [_is_gap(value) for value in array]
    if n := int(np.sum(missing)):
        raise ValueError(
            f"{name} has {n} missing values; every row needs a group. Give each row without one a "
            "value of its own."
        )
    return array.astype(str) if array.dtype.kind == "O" else array


def _is_gap(value: Any) -> bool:
    return value is None or value != value


def warn_of_few_groups(groups: Groups, weights: Tensor) -> None:
    """Warn if the labels are of so few groups that their variance is hardly known."""
    effective = groups.effective(weights)
    if round(effective, 6) >= LEAST_GROUPS:  # equal sizes give a whole number, up to rounding
        return
    uneven = f", as uncertain as {effective:.0f} of equal size"
    uneven = uneven if round(effective) < groups.labelled else ""
    warnings.warn(
        f"the labelled rows are of {groups.labelled} groups{uneven}. From fewer than "
        f"{LEAST_GROUPS} it is hardly known how much groups differ, so that intervals may be too "
        "narrow. Label rows of more groups.",
        NarrowIntervalWarning,
        stacklevel=5,
    )

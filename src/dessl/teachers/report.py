"""PoolReport: the weight of each member of a pool, and the gain from the unlabelled rows.

All scores are on labels that the members were not fitted on, and the pool's on labels that its
weights, settings and exponents were not fitted on either. The setting and the exponent of a member
alone are chosen on the labels of its score, which is therefore slightly optimistic.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

import torch
from torch import Tensor

from dessl._entries import Measured
from dessl._html import card
from dessl.evaluation.metrics.vocabulary import ROUNDING, metric_text, with_error
from dessl.evaluation.verdict import of_groups
from dessl.teachers.pool import ANCHOR

CLEAR = 1.96  # standard errors


@dataclass(frozen=True)
class Gain:
    """A decrease of the cross-entropy, in nats: positive is better.

    Attributes:
        mean: Mean over held-out labels.
        standard_error: Standard error of the mean; infinite with one label.
    """

    mean: float
    standard_error: Measured

    @classmethod
    def of(
        cls,
        before: Tensor,
        after: Tensor,
        groups: Tensor | None = None,
        weights: Tensor | None = None,
    ) -> Self:
        """Compare losses (rows,) on the same rows; rows of one group count as one label.

        With weights (rows,), the mean is weighted.

        >>> str(Gain.of(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0.5, 2.0, 2.0])))
        '+0.50 ± 0.29'
        """
        fall = (before - after).double()
        counts = torch.ones_like(fall) if weights is None else weights.double() / weights.mean()
        mean = float((counts * fall).mean())
        sums = counts * (fall - mean)
        if groups is not None:
            _, number = torch.unique(groups, return_inverse=True)
            sums = sums.new_zeros(int(number.max()) + 1).index_add(0, number, sums)
        n = len(sums)
        error = float(sums.square().sum() * n / (n - 1)) ** 0.5 / len(fall) if n > 1 else math.inf
        return cls(mean, error)

    @property
    def clear(self) -> bool:
        """Whether it differs from 0 at the 5 % level, and by more than rounding."""
        return abs(self.mean) > max(CLEAR * self.standard_error, ROUNDING)

    @property
    def change(self) -> str:
        """The gain as a change of the cross-entropy: negative is better.

        >>> Gain(0.5, 0.289).change
        '−0.50 ± 0.29'
        """
        return with_error("cross_entropy", 0.0 - self.mean, self.standard_error)

    def __str__(self) -> str:
        return with_error("cross_entropy", self.mean, self.standard_error)


@dataclass(frozen=True)
class Member:
    """One candidate of the pool.

    Attributes:
        name: Name with its settings.
        weight: Weight in the pool, including its exponent; 0 if not used.
        score: Out-of-fold cross-entropy of the member alone, calibrated on the same labels.
        gain: Gain of the member alone over the anchor.
        uses_unlabelled: Whether it uses unlabelled rows.
    """

    name: str
    weight: float
    score: float
    gain: Gain
    uses_unlabelled: bool

    @property
    def shown_name(self) -> str:
        """The name as shown; that of the anchor says what it is."""
        return "networks" if self.name == ANCHOR else self.name


@dataclass(frozen=True)
class PoolReport:
    """The members of the pool and its gain, on held-out labels.

    Attributes:
        n: Number of held-out labels.
        members: The members, the anchor first.
        anchor: Cross-entropy of the anchor.
        without_unlabelled: Cross-entropy of the pool of members that use labelled rows only.
        pooled: Cross-entropy of the pool.
        ensembling: Gain from pooling without unlabelled rows.
        unlabelled: Additional gain from the unlabelled rows.
        total: Total gain.
        n_groups: Number of groups of these labels, which count as units; None without groups.
    """

    n: int
    members: tuple[Member, ...]
    anchor: float
    without_unlabelled: float
    pooled: float
    ensembling: Gain
    unlabelled: Gain
    total: Gain
    n_groups: int | None = None

    def __str__(self) -> str:
        """A table of the members and a line for each gain."""
        width = max(len(member.shown_name) for member in self.members)
        lines = [f"{'member':{width}}  weight  cross-entropy  gain over the networks"]
        lines += [
            f"{m.shown_name:{width}}  {m.weight:6.2f}  {m.score:13.3f}  {m.gain}"
            for m in self.members
        ]
        return "\n".join([*lines, self.verdict])

    def _repr_html_(self) -> str:
        headings = ("member", "weight", metric_text("cross_entropy"), "gain over the networks")
        rows = [(m.shown_name, f"{m.weight:.2f}", f"{m.score:.3f}", m.gain) for m in self.members]
        return card("Pool", table=[headings, *rows], note=self.verdict)

    @property
    def verdict(self) -> str:
        """The gains from ensembling and from unlabelled rows, in two sentences."""
        found = (
            f"On {self.n} held-out labels{of_groups(self.n_groups)}, the cross-entropy of the pool "
            f"is {self.pooled:.3f}, that of the networks alone {self.anchor:.3f} (lower is better)."
        )
        others = self.ensembling.change
        if self.unlabelled == Gain(0.0, 0.0):
            return (
                f"{found} Other predictors trained on the labelled rows changed it by {others} "
                "(± standard error); unlabelled rows were not used."
            )
        return (
            f"{found} The unlabelled rows changed it by {self.unlabelled.change}, and other "
            f"predictors trained on the labelled rows by {others} (± standard error)."
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the report as JSON can represent it."""
        return asdict(self)

    @classmethod
    def from_dict(cls, entries: Mapping[str, Any]) -> Self:
        """Rebuild from the result of :meth:`as_dict`."""
        gains = {name: Gain(**entries[name]) for name in ("ensembling", "unlabelled", "total")}
        members = tuple(
            Member(**{**member, "gain": Gain(**member["gain"])}) for member in entries["members"]
        )
        return cls(**{**entries, **gains, "members": members})

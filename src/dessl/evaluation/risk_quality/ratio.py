"""V(λ)/V(0) of the debiased estimate, measured over splits and by theorem 3.1.

    V(λ) = V(a + λb) = V(a) + 2λ Cov(a, b) + λ² V(b),   a = mean_L L,   b = mean_U H − mean_L H

Three traces over the splits give the empirical curve, and three over the rows the theoretical one,
for any number of parameters: nothing else of a gradient is needed.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from dessl import _checks
from dessl._checks import ArrayLike
from dessl.evaluation.risk_quality.splits import SplitMeans
from dessl.theory import optimal_lambda_from_moments, risk_variance
from dessl.theory.centre import centred


class VarianceRatio(NamedTuple):
    """Variance of the debiased estimate over the complete case's at each λ; arrays are (lams,).

    Attributes:
        lams: The λ.
        empirical: Ratio of the variances over splits.
        theory: The same ratio by theorem 3.1 for a finite population.
        lam: λ_opt of the whole set.
        least: The theoretical ratio at λ_opt.
    """

    lams: Tensor
    empirical: Tensor
    theory: Tensor
    lam: float
    least: float


class Traces(NamedTuple):
    """Centred sums of squares of the first quantity, of the second, and of their products."""

    first: float
    second: float
    product: float


class Spread(NamedTuple):
    """The spread of L and H, or of their gradients, over the rows and over splits.

    Attributes:
        rows: Spread of L and H of each row.
        splits: Spread of mean_L L and mean_U H − mean_L H of each split.
        n_labelled: Labelled rows per split.
        n_unlabelled: Unlabelled rows per split.

    >>> rows = Traces(first=2.0, second=1.0, product=1.0)
    >>> spread = Spread(rows, Traces(4.0, 2.0, -2.0), n_labelled=1, n_unlabelled=3)
    >>> spread.lam, spread.over([0.0, 0.75]).theory
    (0.75, tensor([1.0000, 0.5000], dtype=torch.float64))
    """

    rows: Traces
    splits: Traces
    n_labelled: int
    n_unlabelled: int

    @property
    def lam(self) -> float:
        """λ_opt of the whole set."""
        _, v_h, cov = self._moments()
        return optimal_lambda_from_moments(v_h, cov, self.n_labelled, self.n_unlabelled)

    @property
    def correlation(self) -> float:
        """ρ(L, H) over the rows, with inner products for gradients; 0 if H is constant."""
        scale = (self.rows.first * self.rows.second) ** 0.5
        return self.rows.product / scale if scale else 0.0

    def over(self, lams: ArrayLike) -> VarianceRatio:
        """Both ratios at each λ."""
        lams_ = _checks.float64("lams", lams, ndim=1)
        if not self.rows.first > 0:
            raise ValueError("L (or its gradient) must vary over the rows; it is the same for all.")
        a, b, product = self.splits
        empirical = 1 + (2 * lams_ * product + lams_.square() * b) / a
        at_zero, at_best = self._variance(lams_.new_tensor([0.0, self.lam])).tolist()
        theory = self._variance(lams_) / at_zero
        return VarianceRatio(lams_, empirical, theory, self.lam, at_best / at_zero)

    def _variance(self, lams: Tensor) -> Tensor:
        moments = self._moments()
        return risk_variance(
            *moments, self.n_labelled, self.n_unlabelled, lams, population="finite"
        )

    def _moments(self) -> tuple[float, float, float]:
        v_loss, v_h, cov = (
            value / (self.n_labelled + self.n_unlabelled - 1) for value in self.rows
        )
        return v_loss, v_h, cov


def split_traces(drawn: SplitMeans) -> Traces:
    """Traces over splits, from all their means.

    >>> means = torch.tensor([[1.0], [3.0]])
    >>> split_traces(SplitMeans(means, h_labelled=means, h_unlabelled=0 * means))
    Traces(first=2.0, second=2.0, product=-2.0)
    """
    a, b = drawn.loss, drawn.h_unlabelled - drawn.h_labelled
    return centred_traces(a, b)


def centred_traces(first: Tensor, second: Tensor) -> Traces:
    """Traces of two tensors (n, p) over their n rows."""
    first, second = centred(first), centred(second)
    pairs = ((first, first), (second, second), (first, second))
    return Traces(*(float(torch.sum(a * b)) for a, b in pairs))

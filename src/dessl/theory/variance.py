"""The variance of the debiased risk as a function of λ (theorem 3.1 and its variants).

    V(λ) = α V(L) + λ² β V(H) − 2λ γ Cov(L, H)

The three coefficients depend only on the numbers of rows, so that every form of the estimator is
one line of a table. In the main form α = γ = 1/n_l and β = n/(n_l n_u).
"""

import math
from typing import Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from dessl import _checks
from dessl._checks import ArrayLike
from dessl.risk import On
from dessl.theory.centre import centred, precision_of, settled

Population = Literal["infinite", "finite"]
Lambda = TypeVar("Lambda", float, Tensor, NDArray[np.float64])


class Coefficients(NamedTuple):
    """The factors α, β, γ of V(λ) = α V(L) + λ² β V(H) − 2λ γ Cov(L, H)."""

    loss: float
    h: float
    covariance: float

    @property
    def optimal_multiple(self) -> float:
        """λ_opt as a multiple of the regression slope Cov(L, H)/V(H)."""
        return self.covariance / self.h if self.h else 0.0


def coefficients(
    n_labelled: int,
    n_unlabelled: int,
    *,
    on: On = "unlabelled",
    subset: tuple[int, int] | None = None,
    population: Population = "infinite",
) -> Coefficients:
    """Return the coefficients of the variance for one form of the debiased risk.

    Args:
        n_labelled: n_l, at least 1.
        n_unlabelled: n_u, at least 1.
        on: ``"unlabelled"`` or ``"all"``, as in :func:`dessl.debiased_risk`.
        subset: (l, u) for debiasing on l labelled and u unlabelled rows instead of all labelled
            ones; only with ``on="unlabelled"``.
        population: ``"infinite"``: rows are i.i.d. draws. ``"finite"``: the n rows are the whole
            population, and only the choice of the labelled rows is random; moments are then
            those of the n rows, with divisor n − 1.

    >>> coefficients(4, 12)
    Coefficients(loss=0.25, h=0.3333333333333333, covariance=0.25)
    """
    n_l = _checks.whole_number("n_labelled", n_labelled, low=1)
    n_u = _checks.whole_number("n_unlabelled", n_unlabelled, low=1)
    _checks.one_of("on", on, ("unlabelled", "all"))
    _checks.one_of("population", population, ("infinite", "finite"))
    n = n_l + n_u
    # Every form weights L by 1/n_l on labelled rows and H by weights that sum to zero. Drawing the
    # labelled rows from a fixed population centres the weights, which changes only those of L: the
    # sum of their squares becomes 1/n_l − 1/n.
    loss = n_u / (n * n_l) if population == "finite" else 1 / n_l
    if subset is not None:
        return _subset_coefficients(loss, n_l, n_u, on, subset)
    if on == "all":
        return Coefficients(loss, n_u / (n * n_l), n_u / (n * n_l))
    return Coefficients(loss, n / (n_l * n_u), 1 / n_l)


def _subset_coefficients(
    loss: float, n_l: int, n_u: int, on: On, subset: tuple[int, int]
) -> Coefficients:
    if on != "unlabelled":
        raise ValueError("subset requires on='unlabelled'; got on='all'. Omit one of them.")
    if not isinstance(subset, tuple | list) or len(subset) != 2:
        raise TypeError(
            "subset must be a pair (l, u), the labelled and the unlabelled rows to debias on; got "
            f"{_checks.quoted(subset)}. For labelled rows alone, pass (l, 0)."
        )
    labelled = _checks.whole_number("subset[0]", subset[0], low=0, high=n_l)
    unlabelled = _checks.whole_number("subset[1]", subset[1], low=0, high=n_u)
    size = labelled + unlabelled
    _checks.whole_number("the size of the subset", size, low=1)
    return Coefficients(loss, (n_u - unlabelled + labelled) / (n_u * size), labelled / (n_l * size))


def risk_variance(
    variance_loss: float,
    variance_h: float,
    covariance: float,
    n_labelled: int,
    n_unlabelled: int,
    lam: Lambda,
    *,
    on: On = "unlabelled",
    subset: tuple[int, int] | None = None,
    population: Population = "infinite",
) -> Lambda:
    """Return the variance of the debiased risk at λ, given which rows are labelled.

    Args:
        variance_loss: V(L).
        variance_h: V(H).
        covariance: Cov(L, H).
        n_labelled: n_l.
        n_unlabelled: n_u.
        lam: λ, a number, or an array or tensor of several.
        on: See :func:`coefficients`.
        subset: See :func:`coefficients`.
        population: See :func:`coefficients`.

    >>> risk_variance(2.0, 3.0, 1.5, 4, 12, lam=0.375)
    0.359375
    """
    _check_moments(variance_loss, variance_h, covariance)
    if isinstance(lam, str | list | tuple):
        raise TypeError(f"lam must be a number, an array or a tensor; got {type(lam).__name__}.")
    c = coefficients(n_labelled, n_unlabelled, on=on, subset=subset, population=population)
    quadratic = lam * lam * (c.h * variance_h)
    variance = quadratic - lam * (2 * c.covariance * covariance) + c.loss * variance_loss
    return (variance + abs(variance)) / 2  # rounding may make it negative


def optimal_lambda_from_moments(
    variance_h: float,
    covariance: float,
    n_labelled: int,
    n_unlabelled: int,
    *,
    on: On = "unlabelled",
    subset: tuple[int, int] | None = None,
) -> float:
    """Return the λ that minimises the variance, for known V(H) and Cov(L, H).

    It is (n_u/n) b in the main form and b in the all-data form, with b = Cov(L, H)/V(H), also for
    a finite population. A constant H has no best λ; the function then returns 0.

    >>> optimal_lambda_from_moments(3.0, 1.5, 4, 12)
    0.375
    """
    _checks.number("variance_h", variance_h, low=0.0)
    _checks.number("covariance", covariance)
    c = coefficients(n_labelled, n_unlabelled, on=on, subset=subset)
    return c.optimal_multiple * covariance / variance_h if variance_h else 0.0


def variance_ratio(
    correlation: float, n_labelled: int, n_unlabelled: int, *, population: Population = "infinite"
) -> float:
    """Return V(λ_opt)/V(0) = 1 − (n_u/n) ρ²; 1 − ρ² over the labellings of a finite population.

    >>> variance_ratio(0.5, 4, 12)
    0.8125
    """
    rho = _checks.number("correlation", correlation, low=-1.0, high=1.0)
    c = coefficients(n_labelled, n_unlabelled, population=population)
    return max(0.0, 1 - c.covariance**2 / (c.h * c.loss) * rho**2)


def correlation(loss: ArrayLike, h_labelled: ArrayLike) -> float:
    """Return Pearson's correlation of L and H over the labelled rows; 0 if either is constant.

    "Constant" means up to rounding: sums over classes in another order differ in the last digits.

    >>> round(correlation([1.0, 2.0, 4.0], [0.5, 1.0, 2.0]), 6)
    1.0
    """
    loss_ = _checks.float64("loss", loss, ndim=1)
    h_ = _checks.float64("h_labelled", h_labelled, ndim=1)
    _checks.same_length("loss", loss_, "h_labelled", h_)
    loss_ = centred(settled(loss_, precision_of(loss)))
    h_ = centred(settled(h_, precision_of(h_labelled)))
    if not loss_.any() or not h_.any():
        return 0.0
    # Scaled to one: the H of a very confident model, 1e-200 and less, has squares that underflow.
    loss_, h_ = (rows / rows.abs().max() for rows in (loss_, h_))
    return max(-1.0, min(1.0, float(loss_ @ h_) / float(loss_.norm() * h_.norm())))


def _check_moments(variance_loss: float, variance_h: float, covariance: float) -> None:
    _checks.number("variance_loss", variance_loss, low=0.0)
    _checks.number("variance_h", variance_h, low=0.0)
    _checks.number("covariance", covariance)
    limit = math.sqrt(variance_loss * variance_h)
    if abs(covariance) > limit * (1 + 1e-9):
        raise ValueError(
            f"|covariance| must be at most sqrt(variance_loss * variance_h) = {limit:g}; "
            f"got {covariance:g}. Compute all three from the same rows with the same divisor."
        )

"""λ of a debiased student: what a teacher's answers add to the complete case.

The gradient of a row's loss in the logits is p − e_y with its label and p − q with an answer. At
the complete case p, out of fold, λ is the slope of one on the other,

    β = argmin Σ_i | (e_y − p)_i − Σ_m β_m (q_m − p)_i |²,
    λ = n_u / (n_l + n_u) · lower confidence bound of β.

A slope of e_y − ē on q − q̄ would credit the teacher with what the labels already taught. With the
lower confidence bound, a teacher whose value gold rows cannot show does no harm.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from dessl import _checks

CONFIDENCE = 0.95
LEAST_SQUARE = 1e-12  # mean square of q − p in a row: less is rounding


class RelativeSlope(NamedTuple):
    """The slopes of several teachers, (teachers,) each.

    Attributes:
        slope: β of the teachers that are kept, fitted jointly; 0 for one that is dropped, except
            the last one if all are.
        standard_error: Standard error of β, robust to heteroscedasticity; infinite if unknown.
        lam: λ for :func:`dessl.debiased_risk`, from the lower bounds; 0 for a teacher that is
            dropped, and their sum is at most 1.
    """

    slope: Tensor
    standard_error: Tensor
    lam: Tensor


def relative_slope(
    probabilities: Tensor,
    answers: Tensor,
    y: Tensor,
    *,
    n_unlabelled: int,
    confidence: float = CONFIDENCE,
) -> RelativeSlope:
    """Return λ of each teacher from its relative slope.

    Teachers whose lower bound is not above 0 are dropped one by one, the lowest first, and the
    others are fitted again.

    Args:
        probabilities: Out-of-fold probabilities p of the complete case on gold rows, (n, classes).
        answers: Probabilities q of each teacher on the same rows, (teachers, n, classes), made
            without these rows' labels.
        y: Gold labels, (n,).
        n_unlabelled: Number of rows in the unlabelled mean.
        confidence: Confidence level of the one-sided lower bounds.

    >>> g = torch.Generator().manual_seed(0)
    >>> y = torch.randint(2, (200,), generator=g)
    >>> good = torch.eye(2)[y] * 0.6 + 0.2
    >>> noise = good[torch.randperm(200, generator=g)]
    >>> p, both = torch.full((200, 2), 0.5), torch.stack([good, noise])
    >>> found = relative_slope(p, both, y, n_unlabelled=1800)
    >>> [round(lam, 2) for lam in found.lam.tolist()]
    [0.9, 0.0]
    """
    p, q, r = _checked(probabilities, answers, y)
    _checks.whole_number("n_unlabelled", n_unlabelled, low=1)
    _checks.number("confidence", confidence, low=0.5, high=1, open_high=True)
    z = float(torch.special.ndtri(torch.tensor(confidence, dtype=torch.float64)))
    d, teachers = q - p, len(q)
    slope, error = torch.zeros(teachers).double(), torch.full((teachers,), torch.inf).double()
    # A teacher that agrees with the complete case has no slope of its own.
    says = (d.square().sum((1, 2)) > LEAST_SQUARE * len(y)) & (len(y) > teachers)
    kept = says.nonzero().flatten().tolist()
    while kept:
        slope[kept], error[kept] = _fitted(r, d[kept])
        lower = slope[kept] - z * error[kept]
        if bool((lower > 0).all()):
            break
        least = kept.pop(int(lower.argmin()))
        if kept:
            slope[least] = 0.0
    lam = torch.zeros(teachers).double()
    if kept:
        lam[kept] = slope[kept] - z * error[kept]
    share = n_unlabelled / (len(y) + n_unlabelled)
    return RelativeSlope(slope, error, share * lam / lam.sum().clamp(min=1.0))


def _checked(probabilities: Tensor, answers: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    p, q = probabilities.double().cpu(), answers.double().cpu()
    if p.ndim != 2 or q.ndim != 3 or q.shape[1:] != p.shape or y.shape != p.shape[:1]:
        raise ValueError(
            "probabilities must have shape (n, classes), answers (teachers, n, classes) and y (n,);"
            f" got {tuple(p.shape)}, {tuple(q.shape)} and {tuple(y.shape)}."
        )
    return p, q, torch.nn.functional.one_hot(y.cpu().long(), p.shape[1]).double() - p


def _fitted(r: Tensor, d: Tensor) -> tuple[Tensor, Tensor]:
    """Return the least-squares slopes of r (n, c) on d (m, n, c), and their sandwich errors."""
    teachers, n = len(d), len(r)
    moments = torch.einsum("anc,bnc->ab", d, d)
    inverse = torch.linalg.pinv(moments, hermitian=True)  # teachers that agree share one slope
    slope = inverse @ torch.einsum("anc,nc->a", d, r)
    scores = torch.einsum("anc,nc->na", d, r - torch.einsum("a,anc->nc", slope, d))
    covariance = inverse @ (scores.T @ scores) @ inverse * n / (n - teachers)
    return slope, covariance.diagonal().clamp(min=0).sqrt()

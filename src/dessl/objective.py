"""Computes a risk from the scores of a joint forward pass and the labels."""

from collections.abc import Callable
from typing import TypeAlias

from torch import Tensor

from dessl.functional import cross_entropy
from dessl.risk import Bound, On, Risk, check_options, risk_named
from dessl.surrogates.base import Scores

RiskKind: TypeAlias = str
"""A key of :data:`dessl.risk.RISKS`."""

Loss: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""Maps logits (n, classes) and labels (n,) to the loss of each row, (n,)."""


def objective(
    scores: Scores,
    y: Tensor,
    lam: float | Tensor = 1.0,
    *,
    risk: RiskKind = "debiased",
    on: On = "unlabelled",
    bound: Bound | None = None,
    loss: Loss = cross_entropy,
    weights_labelled: Tensor | None = None,
    weights_unlabelled: Tensor | None = None,
    propensity: Tensor | None = None,
) -> Risk:
    """Return the risk of a batch whose first rows are the labelled ones.

    Args:
        scores: H (n,) and logits (views, n, classes) of the labelled rows, then the unlabelled.
        y: Labels of the first n_l rows, shape (n_l,), or (n_l, classes) for soft labels with
            ``loss=cross_entropy_to``. All rows after them are unlabelled.
        lam: λ, a number or a tensor of shape ().
        risk: A key of ``dessl.risk.RISKS``. ``"complete_case"``: labelled rows alone. ``"ssl"``:
            the standard, biased risk. ``"debiased"``: the paper's. ``"inverse_propensity"``:
            debiased for labels that are not missing completely at random.
        on: As in :func:`dessl.debiased_risk`; only with ``risk="debiased"``.
        bound: As in :func:`dessl.debiased_risk`; only with ``risk="debiased"``.
        loss: L of logits (n_l, classes) and y, (n_l,) values; averaged over the views.
        weights_labelled: One weight for each labelled row, shape (n_l,).
        weights_unlabelled: One weight for each unlabelled row, shape (n_u,).
        propensity: π of each labelled row, shape (n_l,); required with
            ``risk="inverse_propensity"``, and only allowed there.

    >>> import torch
    >>> scores = Scores(h=torch.tensor([0.2, 0.4, 0.6]), logits=torch.zeros(1, 3, 2))
    >>> objective(scores, torch.tensor([1]), lam=0.5).value
    tensor(0.8431)
    """
    kind = risk_named(risk)
    if kind.needs_propensity and propensity is None:
        raise ValueError(
            f"risk={risk!r} needs propensity, the probability that each labelled row got its label."
        )
    given = {
        "on": None if on == "unlabelled" else on,
        "bound": bound,
        "propensity": propensity,
        "weights_labelled": weights_labelled,
    }
    check_options(risk, **given)
    n_labelled = _labelled_rows(scores, y)
    labelled = scores.logits[:, :n_labelled]
    losses = sum(_floats(loss(view, y)) for view in labelled) / len(labelled)
    given["weights_unlabelled"] = weights_unlabelled if kind.unlabelled else None
    options = {name: value for name, value in given.items() if value is not None}
    return kind.function(losses, scores.h[:n_labelled], scores.h[n_labelled:], lam, **options)


def _floats(losses: object) -> Tensor:
    """Refuse an L that is no tensor of floats: a mean of 0/1 errors would look like a loss."""
    if not isinstance(losses, Tensor) or not losses.is_floating_point():
        got = losses.dtype if isinstance(losses, Tensor) else type(losses).__name__
        raise TypeError(
            f"loss must return a tensor of floats, with one value for each labelled row; got {got}."
        )
    return losses


def _labelled_rows(scores: Scores, y: Tensor) -> int:
    if not isinstance(scores, Scores):
        raise TypeError(
            f"scores must be what a surrogate returns, Scores(h, logits); got "
            f"{type(scores).__name__}. For your own H, pass Scores(h=h, logits=logits[None])."
        )
    views = scores.logits.shape
    if len(views) != 3 or views[0] == 0 or scores.h.shape != views[1:2]:
        raise ValueError(
            "scores must hold h (n,) and logits (views, n, classes) of the same rows; "
            f"got {tuple(scores.h.shape)} and {tuple(views)}."
        )
    if not isinstance(y, Tensor) or y.ndim not in (1, 2) or not 1 <= len(y) <= len(scores.h):
        got = f"shape {tuple(y.shape)}" if isinstance(y, Tensor) else type(y).__name__
        raise ValueError(
            "y must be a tensor with the labels of the first rows, at least one and at most "
            f"{len(scores.h)}; got {got}."
        )
    return len(y)

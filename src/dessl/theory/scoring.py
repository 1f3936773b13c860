"""The scoring rule that a debiased risk optimises (calibration theorem of the appendix)."""

import torch
from torch import Tensor

from dessl import _checks
from dessl.risk import On


def scoring_rule(
    loss: Tensor,
    h: Tensor,
    labelled: Tensor,
    lam: float | Tensor = 1.0,
    *,
    on: On = "unlabelled",
) -> Tensor:
    """Return the score S' of each row; minus its mean is the debiased risk.

    S' = −( (rn/n_l) L + λ n ((1−r)/n_u − r/n_l) H ) in the main form and
    S' = −( (rn/n_l) L + λ (1 − rn/n_l) H ) in the all-data form. If −L is a proper scoring rule and
    labels are missing completely at random, S' is proper as well.

    Args:
        loss: L of each row, shape (n,). The entries of unlabelled rows are ignored.
        h: H of each row, shape (n,).
        labelled: r, which rows have a label, a boolean tensor (n,).
        lam: λ, a number or a tensor of shape ().
        on: ``"unlabelled"`` or ``"all"``, as in :func:`dessl.debiased_risk`.

    >>> labelled = torch.tensor([True, False, False])
    >>> scoring_rule(torch.tensor([2.0, 0.0, 0.0]), torch.ones(3), labelled).mean()
    tensor(-2.)
    """
    _checks.one_of("on", on, ("unlabelled", "all"))
    lam = _checks.scalar("lam", lam)
    h = _checks.per_sample("h", h)
    for name, value in (("labelled", labelled), ("loss", loss)):
        if not isinstance(value, Tensor) or value.shape != h.shape:
            got = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
            raise ValueError(f"{name} must be a tensor of h's shape {tuple(h.shape)}; got {got}.")
    if labelled.dtype != torch.bool:
        raise TypeError(f"labelled must be a boolean tensor; got {labelled.dtype}.")
    known = _checks.per_sample("loss", torch.where(labelled, loss, 0))
    n, n_labelled = len(h), labelled.sum(dtype=h.dtype)  # whole numbers would divide in float32
    _checks.between("the number of labelled rows", n_labelled, 1)
    weight = labelled * (n / n_labelled)
    if on == "all":
        return -(weight * known + lam * (1 - weight) * h)
    _checks.between("the number of unlabelled rows", n - n_labelled, 1)
    other = ~labelled * (n / (n - n_labelled))
    return -(weight * known + lam * (other - weight) * h)

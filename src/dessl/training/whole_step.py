"""Micro-batches and ranks: the part of a step's risk that one of its batches contributes.

A step whose rows come in batches b, one after another or on several ranks, minimises

    R = Σ_b [ (n_l^b/n_l) (mean_b L − λ mean_b H)  +  (n_u^b/n_u) λ mean_b H ]

with the counts of the whole step. The plain average of the batches' risks is R only if all
batches have equally many labelled and unlabelled rows. On N ranks, each part counts N times,
because DistributedDataParallel and FSDP average the gradients of the ranks.
"""

from collections.abc import Callable

import torch
from torch import Tensor, distributed

from dessl import _checks
from dessl.functional import cross_entropy
from dessl.objective import RiskKind, objective
from dessl.risk import RISKS, On, Risk, risk_named
from dessl.surrogates.base import Scores
from dessl.training.ranks import lost_ranks, ranks


class WholeStep:
    """The counts of one optimiser step, for the means over all its batches on all ranks.

    Call :meth:`objective` for each batch and ``backward`` its value; the gradients add up to those
    of :func:`dessl.objective` on all rows at once. Under DistributedDataParallel leave the
    gradients of all batches but the last unsynchronised (``model.no_sync()``), as usual.

    Args:
        n_labelled: Labelled rows of the step on this rank, over all batches: their number, or the
            sum of their weights.
        n_unlabelled: Unlabelled rows, counted in the same way; 0 for the complete case.
        device: Device of the ranks' communication; by default the current GPU or the CPU.

    >>> h, logits, y = torch.rand(6), torch.randn(1, 6, 3), torch.tensor([2, 0, 1])
    >>> one, two = Scores(h[:2], logits[:, :2]), Scores(h[2:], logits[:, 2:])
    >>> whole = WholeStep(n_labelled=3, n_unlabelled=3)
    >>> parts = whole.objective(one, y[:1], 0.5).value + whole.objective(two, y[1:], 0.5).value
    >>> order = [0, 2, 3, 1, 4, 5]  # labelled rows first
    >>> torch.allclose(parts, objective(Scores(h[order], logits[:, order]), y, 0.5).value)
    True
    """

    def __init__(
        self,
        n_labelled: float | Tensor,
        n_unlabelled: float | Tensor,
        *,
        device: torch.device | None = None,
    ) -> None:
        self.n_labelled = _amount("n_labelled", n_labelled)
        self.n_unlabelled = _amount("n_unlabelled", n_unlabelled)
        if ranks() > 1:
            self.n_labelled, self.n_unlabelled = _summed(
                self.n_labelled, self.n_unlabelled, device or _usual_device()
            )

    def objective(
        self,
        scores: Scores,
        y: Tensor,
        lam: float | Tensor = 1.0,
        *,
        risk: RiskKind = "debiased",
        on: On = "unlabelled",
        loss: Callable[[Tensor, Tensor], Tensor] = cross_entropy,
        weights_labelled: Tensor | None = None,
        weights_unlabelled: Tensor | None = None,
        propensity: Tensor | None = None,
    ) -> Risk:
        """Return a batch's part of the step's risk; same arguments as :func:`dessl.objective`.

        All four values add up over the batches of a rank, and their mean over the ranks is the
        whole step's. ``bound="nonnegative"`` is not supported, because it is not a sum over
        batches.

        A step counted by weights needs the same weights here.
        """
        comparable = isinstance(scores, Scores) and isinstance(
            y, Tensor
        )  # objective refuses others
        if risk_named(risk).unlabelled and comparable and y.shape[:1] == scores.h.shape[:1]:
            raise ValueError(
                f"a batch of a step needs labelled and unlabelled rows; got {len(y)} labelled rows "
                "alone. Do not skip it, since the step counts its rows: divide the rows of a step "
                "so that each batch has some of both kinds."
            )
        part = objective(
            scores,
            y,
            lam,
            risk=risk,
            on=on,
            loss=loss,
            weights_labelled=weights_labelled,
            weights_unlabelled=weights_unlabelled,
            propensity=propensity,
        )
        n_l = _count(len(y), weights_labelled)
        n_u = _count(len(scores.h) - len(y), weights_unlabelled)
        of_labelled = _share(n_l, self.n_labelled, part.loss)
        of_added = of_labelled
        if RISKS[risk].on_all or on == "all":  # a mean over labelled and unlabelled rows together
            of_added = _share(n_l + n_u, self.n_labelled + self.n_unlabelled, part.loss)
        elif RISKS[risk].unlabelled:
            of_added = _share(n_u, self.n_unlabelled, part.loss)
        if RISKS[risk].on_all:  # the inverse-propensity form divides all its sums by n
            of_labelled = of_added
        mean_loss, h_labelled = of_labelled * part.loss, of_labelled * part.h_labelled
        h_added = of_added * part.h_unlabelled
        value = mean_loss + lam * (h_added - h_labelled)
        return Risk(value, mean_loss, h_labelled, h_added)


def _amount(name: str, value: float | Tensor) -> float | Tensor:
    if isinstance(value, Tensor):
        if value.ndim:
            raise ValueError(
                f"{name} must be a number or a tensor of shape (); got {tuple(value.shape)}. Pass "
                "the number of rows, or the sum of their weights."
            )
        return value
    return _checks.number(name, value, low=0, open_high=True)


def _usual_device() -> torch.device:
    """Device on which the ranks' backend communicates."""
    on_gpu = distributed.get_backend() == "nccl"
    return torch.device("cuda", torch.cuda.current_device()) if on_gpu else torch.device("cpu")


def _summed(
    labelled: float | Tensor, unlabelled: float | Tensor, device: torch.device
) -> tuple[Tensor, Tensor]:
    counts = [torch.as_tensor(count, dtype=torch.float64) for count in (labelled, unlabelled)]
    both = torch.stack([count.to(device) for count in counts])
    with lost_ranks():
        distributed.all_reduce(both)
    return both[0], both[1]


def _count(rows: int, weights: Tensor | None) -> float | Tensor:
    return rows if weights is None else _checks.summable(weights).sum()


def _share(part: float | Tensor, whole: float | Tensor, like: Tensor) -> float | Tensor:
    """Return this batch's share of the step, scaled for the ranks' mean of gradients."""
    uncounted = not isinstance(whole, Tensor) and not isinstance(part, Tensor) and part > whole
    if uncounted or (not isinstance(whole, Tensor) and whole == 0):
        raise ValueError(
            f"the step was counted as {whole:g} rows of a kind of which this batch has {part:g}. "
            "Pass WholeStep the rows of all batches: n_labelled and n_unlabelled."
        )
    share = ranks() * part / whole
    return share.to(like) if isinstance(share, Tensor) else share

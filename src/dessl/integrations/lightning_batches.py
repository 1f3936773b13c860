"""The batches that a training step in Lightning takes, and what they say of its risk.

Imported by ``lightning``.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, distributed

from dessl.risk import RISKS, Risk, check_options
from dessl.training.plan import TrainPlan
from dessl.training.ranks import lost_ranks, ranks

TWO_LOADERS = (
    'a batch must be {"labelled": (x, ids, y), "unlabelled": (x, ids)}; got '
    "{got}. Train on a SemiDataModule, or on a CombinedLoader of two such loaders."
)
PARTS = {  # and one more with propensities
    "labelled": ("(x, ids, y), with propensities (x, ids, y, π)", 3),
    "unlabelled": ("(x, ids), or (x, ids, weights)", 2),
}


class Labelled(NamedTuple):
    """Labelled rows: x (n, ...), ids (n,), y (n,) and, if given, their propensities (n,)."""

    x: Tensor
    ids: Tensor
    y: Tensor
    propensity: Tensor | None = None


class Unlabelled(NamedTuple):
    """Other rows: x, ids and, if given, how many rows each represents, per labelled row."""

    x: Tensor
    ids: Tensor
    weights: Tensor | None = None


def two_parts(batch: Any, risk: str) -> tuple[Labelled, Unlabelled]:
    """Return both parts of a batch; refuse other batches.

    The complete case has no unlabelled rows: they must not even affect BatchNorm.

    Args:
        batch: What the loaders yield, by name.
        risk: A key of ``dessl.risk.RISKS``.

    >>> import torch
    >>> x, ids, y = torch.zeros(4, 2), torch.arange(4), torch.tensor([0, 1])
    >>> batch = {"labelled": [x[:2], ids[:2], y], "unlabelled": [x[2:], ids[2:]]}
    >>> labelled, unlabelled = two_parts(batch, "debiased")
    >>> labelled.y, unlabelled.ids
    (tensor([0, 1]), tensor([2, 3]))
    """
    needed = ("labelled", "unlabelled") if RISKS[risk].unlabelled else ("labelled",)
    if not isinstance(batch, dict) or not set(needed) <= batch.keys():
        got = sorted(batch) if isinstance(batch, dict) else type(batch).__name__
        raise TypeError(TWO_LOADERS.replace("{got}", str(got)))
    for name in needed:
        _check_part(name, batch[name])
    labelled = Labelled(*batch["labelled"])
    if RISKS[risk].unlabelled:
        return labelled, Unlabelled(*batch["unlabelled"])
    return labelled, Unlabelled(labelled.x[:0], labelled.ids[:0])


def risk_options(
    labelled: Labelled, others: Unlabelled, plan: TrainPlan, represents: float | None
) -> dict[str, Any]:
    """Return the options of a batch's risk: its inverse-propensity form if the batch has π.

    Args:
        labelled: The labelled part of a batch.
        others: The unlabelled part.
        plan: The settings of the risk.
        represents: Weight of each unlabelled row, if its loader yields none.
    """
    if RISKS[plan.risk].takes_back and labelled.propensity is not None:
        check_options("inverse_propensity", bound=plan.bound)
        given = {"propensity": labelled.propensity, "weights_unlabelled": others.weights}
        return {"risk": "inverse_propensity", "on": plan.on, **given}
    if plan.on != "all":
        return {"risk": plan.risk}
    weights = others.weights
    if weights is None and represents is not None:
        weights = torch.full((len(others.x),), represents, device=others.x.device)
    if weights is None:
        raise TypeError(
            "on='all' counts the rows of the data, not of a batch: let the unlabelled loader yield "
            "(x, ids, weights), with the number of rows that each represents, relative to a "
            "labelled one."
        )
    return {"risk": plan.risk, "on": plan.on, "weights_unlabelled": weights}


def mean_of_ranks(risk: Risk) -> Tensor:
    """Return the whole step's values, shape (4,), from each process's part."""
    values = torch.stack(risk).detach()
    if ranks() > 1:
        with lost_ranks():
            distributed.all_reduce(values)
        values /= ranks()
    return values


def nonnegative(risk: Risk, over_all: Risk, lam: float) -> Risk:
    """Return λ mean H + max(0, mean_L (L − λH)), with the maximum of the rows of all processes.

    Args:
        risk: The parts of this process's rows.
        over_all: The parts of all rows.
        lam: λ.
    """
    kept = (over_all.loss >= lam * over_all.h_labelled).to(risk.loss)
    return risk._replace(value=lam * risk.h_unlabelled + kept * (risk.loss - lam * risk.h_labelled))


def _check_part(name: str, part: object) -> None:
    if part is None:
        raise TypeError(
            f"a batch has no {name} rows: that loader ended before the other. Combine them with "
            'CombinedLoader(loaders, "max_size_cycle"), which begins the shorter one again, or '
            '"min_size", which ends an epoch with it.'
        )
    form, least = PARTS[name]
    tensors = isinstance(part, Sequence) and all(isinstance(one, Tensor) for one in part)
    if not tensors or len(part) not in (least, least + 1):  # type: ignore[arg-type]
        got = type(part).__name__
        if isinstance(part, Sequence):
            got += f" of {', '.join(type(one).__name__ for one in part) or 'nothing'}"
        raise TypeError(
            f"the {name} loader must yield {form}; got {got}. ids are the rows' numbers in all of "
            f"the data, for terms that remember rows: let its data set return them."
        )

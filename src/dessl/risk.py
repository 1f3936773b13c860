"""The debiased risk, the standard SSL risk and the complete case.

    R(θ) = mean_L L  +  λ · ( mean_U H  −  mean_L H )
           complete case    what SSL adds  what debiasing takes back

L and H have one value per sample; only this file averages over samples. Each mean is
over its own rows *before* any masking: a masked row counts as a zero and stays in the denominator.
Half precision cannot represent sums over many rows: inputs become float32, and so do the results.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from dessl import _checks

On = Literal["unlabelled", "all"]
Bound = Literal["nonnegative"]

_REDUCED = "Pass reduction='none' to your loss."


class Risk(NamedTuple):
    """A risk and its three parts, each a tensor of shape ().

    Unless ``bound`` is given, ``value == loss + lam * (h_unlabelled - h_labelled)``; a part that
    the risk does not contain is zero.

    Attributes:
        value: What to minimise.
        loss: Mean of L over the labelled rows.
        h_labelled: Mean of H that debiasing subtracts.
        h_unlabelled: Mean of H that semi-supervised learning adds.
    """

    value: Tensor
    loss: Tensor
    h_labelled: Tensor
    h_unlabelled: Tensor


def complete_case_risk(loss: Tensor, *, weights: Tensor | None = None) -> Risk:
    """Return the mean of L over the labelled rows, which supervised learning minimises.

    Args:
        loss: L of each labelled row, shape (n_l,).
        weights: One non-negative weight for each labelled row, shape (n_l,).

    >>> complete_case_risk(torch.tensor([1.0, 2.0, 4.0, 3.0])).value
    tensor(2.5000)
    """
    mean_loss = _mean("loss", loss, weights, "weights", hint=_REDUCED)
    nothing = torch.zeros_like(mean_loss)
    return Risk(mean_loss, mean_loss, nothing, nothing)


def ssl_risk(
    loss: Tensor,
    h_unlabelled: Tensor,
    lam: float | Tensor = 1.0,
    *,
    weights_labelled: Tensor | None = None,
    weights_unlabelled: Tensor | None = None,
) -> Risk:
    """Return the standard, biased semi-supervised risk: mean_L L + λ mean_U H.

    Its expectation is R(θ) + λ E[H], so it is off by λ E[H] however much data there is.

    Args:
        loss: L of each labelled row, shape (n_l,).
        h_unlabelled: H of each unlabelled row, shape (n_u,).
        lam: λ, a number or a tensor of shape ().
        weights_labelled: One non-negative weight for each labelled row, shape (n_l,).
        weights_unlabelled: One non-negative weight for each unlabelled row, shape (n_u,).

    >>> ssl_risk(torch.tensor([1.0, 3.0]), torch.tensor([0.5, 1.5]), lam=0.5).value
    tensor(2.5000)
    """
    lam = _checks.scalar("lam", lam)
    mean_loss = _mean("loss", loss, weights_labelled, "weights_labelled", hint=_REDUCED)
    mean_h = _mean("h_unlabelled", h_unlabelled, weights_unlabelled, "weights_unlabelled")
    _checks.same_device(loss=loss, h_unlabelled=h_unlabelled)
    return Risk(mean_loss + lam * mean_h, mean_loss, torch.zeros_like(mean_h), mean_h)


def debiased_risk(
    loss: Tensor,
    h_labelled: Tensor,
    h_unlabelled: Tensor,
    lam: float | Tensor = 1.0,
    *,
    on: On = "unlabelled",
    bound: Bound | None = None,
    weights_labelled: Tensor | None = None,
    weights_unlabelled: Tensor | None = None,
) -> Risk:
    """Return the debiased risk, an unbiased estimate of R(θ) for every λ when labels are MCAR.

    Args:
        loss: L of each labelled row, shape (n_l,).
        h_labelled: H of the same rows, shape (n_l,), from the same function as ``h_unlabelled``.
        h_unlabelled: H of each unlabelled row, shape (n_u,).
        lam: λ, a number or a tensor of shape ().
        on: The rows that H is added on. ``"unlabelled"``: mean_U H − mean_L H. ``"all"``: the mean
            over labelled and unlabelled rows together, minus mean_L H, which is (n_u/n) times the
            main form. If an unlabelled *batch* was drawn from all rows, labelled ones included, its
            plain mean already is the mean over all data: keep ``"unlabelled"``. For other batches,
            weight each unlabelled row by the number of rows that it represents, relative to a
            labelled one.
        bound: ``"nonnegative"`` gives λ mean H + max(0, mean_L (L − λH)). For λ ≥ 0 and H ≥ 0 it is
            never below zero; it is pessimistic: its expectation is at least R(θ).
        weights_labelled: One non-negative weight for each labelled row, shape (n_l,), used for both
            L and H. Means are Σwa/Σw, so that a weight of 2 is a row that occurs twice.
        weights_unlabelled: One non-negative weight for each unlabelled row, shape (n_u,).

    >>> loss = torch.tensor([1.0, 2.0, 4.0, 3.0])
    >>> h_labelled = torch.tensor([0.5, 1.5, 2.5, 2.0])
    >>> h_unlabelled = torch.tensor([1.0, 2.0, 3.0, 1.0, 2.0, 2.5, 0.5, 1.5])
    >>> debiased_risk(loss, h_labelled, h_unlabelled, lam=0.5).value
    tensor(2.5312)
    """
    _checks.one_of("on", on, ("unlabelled", "all"))
    _checks.one_of("bound", bound, (None, "nonnegative"))
    lam = _checks.scalar("lam", lam)
    mean_loss = _mean("loss", loss, weights_labelled, "weights_labelled", hint=_REDUCED)
    mean_labelled = _mean("h_labelled", h_labelled, weights_labelled, "weights_labelled")
    mean_added = _mean("h_unlabelled", h_unlabelled, weights_unlabelled, "weights_unlabelled")
    _checks.same_length("loss", loss, "h_labelled", h_labelled)
    _checks.same_device(loss=loss, h_labelled=h_labelled, h_unlabelled=h_unlabelled)
    if on == "all":
        n_l, n_u = _count(loss, weights_labelled), _count(h_unlabelled, weights_unlabelled)
        mean_added = mean_labelled + n_u / (n_l + n_u) * (mean_added - mean_labelled)
    value = mean_loss + lam * (mean_added - mean_labelled)
    if bound == "nonnegative":
        value = lam * mean_added + torch.clamp(mean_loss - lam * mean_labelled, min=0)
    return Risk(value, mean_loss, mean_labelled, mean_added)


def subset_debiased_risk(
    loss: Tensor,
    h_labelled: Tensor,
    h_unlabelled: Tensor,
    lam: float | Tensor = 1.0,
    *,
    in_labelled: Tensor,
    in_unlabelled: Tensor,
) -> Risk:
    """Return the risk debiased on a subset A of the rows: mean_L L + λ (mean_U H − mean_A H).

    Unbiased for any A drawn independently of the data. Taking all labelled rows and no unlabelled
    one gives :func:`debiased_risk`, which has the least variance (``dessl.theory.risk_variance``).

    Args:
        loss: L of each labelled row, shape (n_l,).
        h_labelled: H of the same rows, shape (n_l,).
        h_unlabelled: H of each unlabelled row, shape (n_u,).
        lam: λ, a number or a tensor of shape ().
        in_labelled: Which labelled rows are in A, a boolean tensor (n_l,).
        in_unlabelled: Which unlabelled rows are in A, a boolean tensor (n_u,).

    >>> loss, h_labelled, h_unlabelled = torch.tensor([[1.0, 3.0], [1.0, 2.0], [0.0, 4.0]])
    >>> first = torch.tensor([True, False])
    >>> subset_debiased_risk(
    ...     loss, h_labelled, h_unlabelled, in_labelled=first, in_unlabelled=first
    ... ).value
    tensor(3.5000)
    """
    lam = _checks.scalar("lam", lam)
    mean_loss = _mean("loss", loss, None, "", hint=_REDUCED)
    mean_unlabelled = _mean("h_unlabelled", h_unlabelled, None, "")
    h_labelled = _checks.per_sample("h_labelled", h_labelled)
    _checks.same_length("loss", loss, "h_labelled", h_labelled)
    chosen_labelled = _chosen("in_labelled", in_labelled, h_labelled)
    chosen_unlabelled = _chosen("in_unlabelled", in_unlabelled, h_unlabelled)
    size = chosen_labelled.sum() + chosen_unlabelled.sum()
    _checks.between("the size of the subset", size, 1, advice="Set at least one entry to True.")
    total = (chosen_labelled * h_labelled).sum() + (chosen_unlabelled * h_unlabelled).sum()
    value = mean_loss + lam * (mean_unlabelled - total / size)
    return Risk(value, mean_loss, total / size, mean_unlabelled)


def inverse_propensity_risk(
    loss: Tensor,
    h_labelled: Tensor,
    h_unlabelled: Tensor,
    lam: float | Tensor = 1.0,
    *,
    propensity: Tensor,
    normalise: bool = False,
    weights_unlabelled: Tensor | None = None,
) -> Risk:
    """Return the debiased risk for labels that are *not* missing completely at random.

    (1/n) Σ_i [ (r_i/π_i)(L_i − λH_i) + λH_i ], with π_i the probability that row i has a label.
    λ = 0 gives the Horvitz–Thompson estimate. Written out over L and U it is
    (1/n) Σ_L L/π + (λ/n) [Σ_U H − Σ_L ((1−π)/π) H]: the weights of the two forms agree row by row.

    Args:
        loss: L of each labelled row, shape (n_l,).
        h_labelled: H of the same rows, shape (n_l,).
        h_unlabelled: H of each unlabelled row, shape (n_u,).
        lam: λ, a number or a tensor of shape ().
        propensity: π of each labelled row, shape (n_l,), in (0, 1].
        normalise: Divide by Σ_L 1/π rather than by n (Hájek): slightly biased, with smaller
            variance, and for a constant π the all-data form of :func:`debiased_risk`.
        weights_unlabelled: One weight for each unlabelled row, shape (n_u,): the number of rows
            that it represents, relative to a labelled one. For batches whose shares differ from
            those of the data; n is then n_l plus the sum of the weights.

    >>> loss, propensity = torch.tensor([1.0, 2.0]), torch.tensor([0.5, 0.25])
    >>> inverse_propensity_risk(loss, loss, torch.ones(3), lam=0, propensity=propensity).value
    tensor(2.)
    """
    lam = _checks.scalar("lam", lam)
    loss = _checks.per_sample("loss", loss, hint=_REDUCED)
    h_labelled = _checks.per_sample("h_labelled", h_labelled)
    h_unlabelled = _checks.per_sample("h_unlabelled", h_unlabelled)
    propensity = _checks.per_sample("propensity", propensity)
    _checks.same_length("loss", loss, "h_labelled", h_labelled)
    _checks.same_length("propensity", propensity, "loss", loss)
    advice = "It is the probability that this labelled row got its label."
    _checks.between("propensity", propensity, 0, 1, open_low=True, advice=advice)
    mean_all = torch.cat([h_labelled, h_unlabelled]).mean()
    n: float | Tensor = len(loss) + len(h_unlabelled)
    if weights_unlabelled is not None:
        added = _mean("h_unlabelled", h_unlabelled, weights_unlabelled, "weights_unlabelled")
        n_u = _count(h_unlabelled, weights_unlabelled)
        n = len(loss) + n_u
        mean_all = (h_labelled.sum() + n_u * added) / n
    weights = 1 / propensity
    weights = weights / (weights.sum() if normalise else n)
    mean_loss, mean_labelled = (weights * loss).sum(), (weights * h_labelled).sum()
    return Risk(mean_loss + lam * (mean_all - mean_labelled), mean_loss, mean_labelled, mean_all)


@dataclass(frozen=True)
class RiskEntry:
    """A risk by name, with the properties that training, recipes and reports need.

    Args:
        function: Maps L, H on labelled rows, H on unlabelled rows and λ to the risk, with options
            by name: ``on``, ``bound``, ``propensity``, ``weights_labelled``,
            ``weights_unlabelled``.
        title: The method's name, with ``{}`` as placeholder for the surrogate's.
        unlabelled: Whether it uses unlabelled rows, and so H and λ.
        takes_back: Whether it subtracts H on labelled rows: then it may be unbounded below.
        on_all: Whether it adds H on labelled and unlabelled rows together, so that the numbers of
            rows matter.
    """

    function: Callable[..., Risk]
    title: str
    unlabelled: bool = True
    takes_back: bool = False
    on_all: bool = False
    options: frozenset[str] = field(init=False)  # the names that ``function`` takes

    def __post_init__(self) -> None:
        taken = frozenset(inspect.signature(self.function).parameters)
        object.__setattr__(self, "options", taken)  # once: a step is too short to look it up

    @property
    def needs_propensity(self) -> bool:
        """Whether each labelled row needs the probability that it got its label."""
        return "propensity" in self.options

    def titled(self, surrogate: str) -> str:
        """Return a method's name.

        >>> [kind.titled("FixMatch") for kind in RISKS.values()]
        ['complete case', 'FixMatch', 'DeFixMatch', 'IPW-DeFixMatch']
        """
        return self.title.format(surrogate)


def _complete_case(
    loss: Tensor,
    h_labelled: Tensor,  # noqa: ARG001 (every risk is called alike)
    h_unlabelled: Tensor,  # noqa: ARG001
    lam: float | Tensor = 1.0,  # noqa: ARG001
    *,
    weights_labelled: Tensor | None = None,
) -> Risk:
    return complete_case_risk(loss, weights=weights_labelled)


def _ssl(
    loss: Tensor,
    h_labelled: Tensor,  # noqa: ARG001
    h_unlabelled: Tensor,
    lam: float | Tensor = 1.0,
    *,
    weights_labelled: Tensor | None = None,
    weights_unlabelled: Tensor | None = None,
) -> Risk:
    return ssl_risk(
        loss,
        h_unlabelled,
        lam,
        weights_labelled=weights_labelled,
        weights_unlabelled=weights_unlabelled,
    )


RISKS: dict[str, RiskEntry] = {
    "complete_case": RiskEntry(_complete_case, "complete case", unlabelled=False),
    "ssl": RiskEntry(_ssl, "{}"),
    "debiased": RiskEntry(debiased_risk, "De{}", takes_back=True),
    "inverse_propensity": RiskEntry(
        inverse_propensity_risk, "IPW-De{}", takes_back=True, on_all=True
    ),
}
"""Every risk that a model can be trained with; add an entry to add a risk."""

COMPLETE_CASE = "complete_case"
"""The risk that every other one is compared with."""


def risk_named(name: object, *, propensity: bool = True) -> RiskEntry:
    """Return an entry of ``RISKS``; reject an unknown name.

    Args:
        name: A key of ``RISKS``.
        propensity: Whether risks that need propensities can be used.

    >>> risk_named("debiased").takes_back
    True
    """
    names = tuple(key for key, kind in RISKS.items() if propensity or not kind.needs_propensity)
    _checks.one_of("risk", name, names)
    return RISKS[str(name)]


def check_options(name: str, **options: object) -> None:
    """Reject options that belong to another risk; None means that an option is not given.

    >>> check_options("ssl", on=None, bound="nonnegative")
    Traceback (most recent call last):
    ValueError: bound requires risk='debiased'; got risk='ssl'. Omit it.
    """
    for option, value in options.items():
        if value is not None and option not in RISKS[name].options:
            having = " or ".join(repr(key) for key, kind in RISKS.items() if option in kind.options)
            raise ValueError(f"{option} requires risk={having}; got risk={name!r}. Omit it.")


def _mean(name: str, values: Tensor, weights: Tensor | None, named: str, hint: str = "") -> Tensor:
    """Average over samples, Σwa/Σw."""
    values = _checks.per_sample(name, values, hint=hint)
    if weights is None:
        return values.mean()
    weights = _checks.per_sample(named, weights)
    _checks.same_length(named, weights, name, values)
    _checks.between(named, weights, 0, advice="A weight says how often its row counts.")
    total = weights.sum()
    advice = "At least one weight must be above zero; if the sum overflows, scale all weights down."
    largest = torch.finfo(total.dtype).max
    _checks.between(f"the sum of {named}", total, 0, largest, open_low=True, advice=advice)
    return (values * (weights / total)).sum()


def _count(rows: Tensor, weights: Tensor | None) -> float | Tensor:
    return len(rows) if weights is None else _checks.summable(weights).sum()


def _chosen(name: str, mask: Tensor, values: Tensor) -> Tensor:
    """Convert a boolean mask over the rows of ``values`` to zeros and ones of its dtype."""
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        got = mask.dtype if isinstance(mask, Tensor) else type(mask).__name__
        raise TypeError(f"{name} must be a boolean tensor, one entry for each row; got {got}.")
    chosen = _checks.per_sample(name, mask.to(values.dtype))
    _checks.same_length(name, chosen, "its rows of H", values)
    return chosen

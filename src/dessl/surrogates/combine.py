"""Weighted sums of unlabelled terms: H = Σ_m w_m H_m."""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from dessl import _checks
from dessl.functional import log_probabilities
from dessl.surrogates.base import Model, Rows, Scores, Surrogate
from dessl.surrogates.function import surrogate_from


class Combine(Surrogate):
    """A sum of surrogates, each with its own views, draws and state.

    Each term makes its own passes, with the draws and state it would have alone. L is computed on
    the views of all terms, each with the same weight: with FixMatch's two views and one of the
    entropy, L is the mean over three passes. If the terms could share one pass, a specialised term
    such as :class:`~dessl.surrogates.vat.VATEntropy` is cheaper. After a step each term gets its
    own logits, and the sum as H. If some terms return the single logit of a one-logit model and
    others, such as :class:`~dessl.surrogates.smooth.Smooth`, two columns, the single logit is
    converted to the log-probabilities of the two classes.

    V views in all give a term m with v_m of them a share v_m/V of L, so the debiased risk is
    bounded below up to min_m b_m·(v_m/V)/w_m, where b_m is the term's own bound: infinite if every
    b_m is. v_m is known after the first pass; before it, all terms are assumed to have the same
    number of views. :func:`dessl.train` therefore compares λ with the bound after its first step.

    With an online λ (``TrainPlan(online=True)``), each term gets a λ_m of its own: the largest is
    the λ of the step, and ``shares`` holds all of them relative to it until the run ends.

    Args:
        surrogates: The terms, or functions h(logits) or h(model, x).
        weights: w_m ≥ 0, one for each term; all 1 when not given.

    >>> from dessl.surrogates.entropy import Entropy
    >>> rows = Rows(torch.tensor([[1.0, 0.0, -1.0]]), torch.tensor([0]))
    >>> scores = Combine([Entropy(), Entropy()], weights=[1.0, 0.5])(lambda x: x, rows)
    >>> scores.h, scores.logits.shape
    (tensor([1.2486]), torch.Size([2, 1, 3]))
    """

    def __init__(
        self,
        surrogates: Sequence[Surrogate | Callable[..., Tensor]],
        *,
        weights: Sequence[float] | Tensor | None = None,
    ) -> None:
        super().__init__()
        if isinstance(surrogates, str):
            raise TypeError(
                f"surrogates must be a list; got {surrogates!r}. Pass "
                f"[as_surrogate({surrogates!r})]."
            )
        if isinstance(surrogates, Surrogate) or not isinstance(surrogates, Sequence):
            raise TypeError(
                f"surrogates must be a list; got {type(surrogates).__name__}. Pass [surrogate]."
            )
        if not surrogates:
            raise ValueError("surrogates must have at least one surrogate; got none.")
        self.surrogates = nn.ModuleList(surrogate_from(term) for term in surrogates)
        given = [1.0] * len(surrogates) if weights is None else weights
        given = _checks.numbers_of("weights", given, advice="Pass one weight for each surrogate.")
        if len(given) != len(surrogates):
            raise ValueError(
                f"weights must hold one weight for each surrogate; got {len(given)} for "
                f"{len(surrogates)} surrogates."
            )
        self.weights = tuple(_checks.number("weights", weight, low=0.0) for weight in given)
        self._views = (1,) * len(surrogates)
        self.shares: Tensor
        self.register_buffer("shares", torch.ones(len(surrogates)), persistent=False)

    @property
    def bounded_up_to(self) -> float:  # type: ignore[override]
        """The largest λ for which the debiased risk of the sum is bounded below."""
        return min(self.separate_bounds)

    @property
    def separate_bounds(self) -> tuple[float, ...]:
        """The largest λ_m of each term; infinite if its weight is 0."""
        total = sum(self._views)
        return tuple(
            term.bounded_up_to * views / (total * weight) if weight > 0 else math.inf
            for term, views, weight in zip(self.terms, self._views, self.weights, strict=True)
        )

    def set_shares(self, shares: Sequence[float]) -> None:
        """Multiply each term by a share of λ; in place, so that a captured step uses it too."""
        self.shares.copy_(torch.tensor(shares))

    @property
    def bound_is_stated(self) -> bool:
        """Whether the bound of every term with a positive weight was set."""
        weighted = zip(self.terms, self.weights, strict=True)
        return all(term.bound_is_stated for term, weight in weighted if weight > 0)

    @property
    def terms(self) -> list[Surrogate]:
        """The surrogates, in order."""
        return [term for term in self.surrogates if isinstance(term, Surrogate)]

    def prepare(self, model: nn.Module, n_rows: int, n_classes: int) -> None:
        """Prepare every term."""
        for term in self.terms:
            term.prepare(model, n_rows, n_classes)

    def forward(self, model: Model, rows: Rows) -> Scores:
        """Return the weighted sums (n,) and all terms' logits (views, n, classes)."""
        return self._summed([term(model, rows) for term in self.terms])

    def separate_scores(self, model: Model, rows: Rows) -> list[Scores]:
        """Return the scores of each term, H times its weight but not its share."""
        scores = [term(model, rows) for term in self.terms]
        return [Scores(w * s.h, s.logits) for w, s in zip(self.weights, scores, strict=True)]

    def step_scores(self, model: Model, rows: Rows, n_labelled: int) -> Scores:
        """Return the weighted sums and all logits for a step."""
        return self._summed([term.step_scores(model, rows, n_labelled) for term in self.terms])

    def needs_own_run(self) -> str:
        """Return the terms' reasons: the sum itself has no state."""
        if type(self) is not Combine:  # a subclass may have
            return super().needs_own_run()
        return next(filter(None, (term.needs_own_run() for term in self.terms)), "")

    def _summed(self, scores: Sequence[Scores]) -> Scores:
        self._views = tuple(len(part.logits) for part in scores)
        weighted = zip(self.weights, self.shares, scores, strict=True)
        h = torch.stack([w * share * part.h for w, share, part in weighted]).sum(0)
        logits = [part.logits for part in scores]
        widths = [part.shape[-1] for part in logits]
        if min(widths) < max(widths):
            logits = [log_probabilities(p) if p.shape[-1] == 1 else p for p in logits]
        return Scores(h, torch.cat(logits))

    def after_step(self, model: nn.Module, rows: Rows, scores: Scores) -> None:
        """Update every term, each with its own logits."""
        parts = torch.split(scores.logits, list(self._views))
        for term, logits in zip(self.terms, parts, strict=True):
            term.after_step(model, rows, Scores(scores.h, logits))

"""Fitted: a trained recipe, what held-out labels said of it, and its account in words."""

import dataclasses
import math
from dataclasses import dataclass

from dessl._html import card
from dessl.evaluation.metrics.vocabulary import interval_text, with_error
from dessl.evaluation.verdict import OUTCOMES, Comparison, Verdict, no_verdict, not_used, verdict
from dessl.recipes.baseline import Baseline
from dessl.recipes.held_out import HeldOutCheck, loss_comparison
from dessl.recipes.predictor import PooledPredictor, Predictor
from dessl.recipes.recipe import Recipe
from dessl.recipes.symmetries import SymmetryProbe
from dessl.risk import RISKS
from dessl.teachers import PoolReport
from dessl.teachers.pooling import FEWEST_LABELS
from dessl.theory import LambdaEstimate
from dessl.training import TrainResult

POOL_CONFIDENCE = 0.999  # to drop a pool: at 95 %, benchmarks/gains_safe.py has only false alarms


@dataclass(frozen=True)
class Fitted:
    """A trained recipe and its complete-case twin.

    Attributes:
        model: Maps raw rows to log-probabilities: the pool of networks and teachers, or the
            networks alone. The twin itself if there is no pool and λ is 0.
        complete_case: The same networks trained on the labelled rows alone; if the data has
            propensities, each label is weighted by 1/π.
        lam: The λ of the networks of ``model``; 0 if they are the complete case.
        estimate: λ estimated on held-out labels; None if not requested, or if labels are too few.
        check: Both models on held-out labels; None unless both were trained with labels held out.
        results: Training results of the networks of ``model``.
        complete_results: Training results of the networks of ``complete_case``.
        recipe: The recipe that was trained.
        baseline: Whether the complete case trained; None if labels are too few to tell.
        symmetries: Result of the probe of flips and turns; None without one.
        refused: A pool that was dropped because held-out labels show it to be worse.
        tried: What did not help, if ``recipe`` is the ``otherwise`` of its recipe.
        rows: Number of rows of the data; None if unknown.
    """

    model: Predictor | PooledPredictor
    complete_case: Predictor
    lam: float
    estimate: LambdaEstimate | None
    check: HeldOutCheck | None
    results: tuple[TrainResult, ...]
    complete_results: tuple[TrainResult, ...]
    recipe: Recipe
    baseline: Baseline | None = None
    symmetries: SymmetryProbe | None = None
    refused: PoolReport | None = None
    tried: "Fitted | None" = None
    rows: int | None = None

    @property
    def pool(self) -> PoolReport | None:
        """The weight and the gain of each member of the pool; None without a pool."""
        return self.model.pool.report if isinstance(self.model, PooledPredictor) else None

    @property
    def used_unlabelled(self) -> bool:
        """Whether ``model`` was trained with the unlabelled rows."""
        members = self.pool.members if self.pool else ()
        return self.lam > 0 or any(one.uses_unlabelled and one.weight for one in members)

    @property
    def verdict(self) -> Verdict:
        """The verdict on ``model`` against the complete case, from labels held out in training."""
        if self.baseline and not self.baseline.trained:
            return no_verdict(self.baseline.failure, self.baseline.account)
        if self.model is self.complete_case:
            return not_used(self.account)
        compared = None if self.check is None else self.check.compared
        if isinstance(self.model, PooledPredictor) and not self.lam:
            compared = self.model.pool.compared  # its anchor is the complete case
        if compared is None:
            return Verdict("cannot tell yet", f"{OUTCOMES['cannot tell yet']}: {self.account}")
        found = verdict(compared, labelled=compared.n, rows=self.rows)
        return dataclasses.replace(found, sentence=f"{found.sentence} {self.account}")

    def _repr_html_(self) -> str:
        networks = f"{len(self.results)} of {max(one.steps for one in self.results)} steps at most"
        entries = {"networks": networks, "λ": f"{self.lam:.3g}"}
        pool = "" if self.pool is None else self.pool._repr_html_()
        return card("Fitted", entries) + self.verdict._repr_html_() + pool

    @property
    def account(self) -> str:
        """How unlabelled rows and symmetries were used and why, in a few sentences."""
        symmetries = "" if self.symmetries is None else f" {self.symmetries.summary}"
        tried = "" if self.tried is None else f"{self.tried._tried_account} "
        return f"{tried}{self._use_account}{symmetries}"

    @property
    def _tried_account(self) -> str:
        """Why something else was fitted after this one."""
        name = RISKS[self.recipe.plan.risk].titled(type(self.recipe.surrogate).__name__)
        if self.check is None:
            return f"Without held-out labels to check it, {name} was not tried."
        change = with_error("cross_entropy", self.check.difference, self.check.standard_error)
        return (
            f"{name} was tried first. It changed the cross-entropy on {self.check.n} held-out "
            f"labels by {change} (± standard error), which is not a clear gain, so small networks "
            "and teachers were trained instead, as on a CPU."
        )

    @property
    def _use_account(self) -> str:
        uses = self.recipe.trains_unlabelled
        if self.pool:
            return f"{self._networks_account} {self.pool.verdict}" if uses else self.pool.verdict
        if self.refused:
            left = _left_out("pool", pool_comparison(self.refused), "networks alone")
            return f"{self._networks_account} {left}" if uses else left
        if self.recipe.teachers and not uses:
            return (
                f"No pool was made: fewer than {FEWEST_LABELS} labels could be held out to weight "
                "the teachers."
            )
        if RISKS[self.recipe.plan.risk].unlabelled:
            return f"{self.recipe.no_pool} {self._networks_account}".lstrip()
        return self.recipe.no_pool or "No method that uses unlabelled rows was requested."

    @property
    def _networks_account(self) -> str:
        if self.recipe.lam == 0:
            return "The networks were trained without unlabelled rows, because λ = 0."
        if self.recipe.lam == "auto" and largest_lam(self.recipe) == 0:
            return (
                "The debiased risk of this surrogate is not bounded below for any λ > 0, so the "
                "networks were trained without unlabelled rows."
            )
        kept = f"The networks were trained with λ = {self.lam:.3g}"
        if not self.lam:
            kept = "The networks were trained without unlabelled rows"
        if self.check is None:
            return f"{kept}; no labels were held out to check them."
        if self.recipe.lam != "auto" and not self.lam:
            return _left_out(f"λ of {self.recipe.lam:g}", self.check.comparison, "complete case")
        if self.recipe.lam != "auto":
            return f"{kept}."
        rule = "a decrease" if self.lam else "not a decrease"
        change = with_error("cross_entropy", self.check.difference, self.check.standard_error)
        return (
            f"{kept}: using them changed the cross-entropy on {self.check.n} held-out labels by "
            f"{change} (± standard error), {rule} of more than one standard error."
        )


def pool_comparison(report: PoolReport) -> Comparison:
    """The pool compared with its networks."""
    gain = report.total
    return loss_comparison("the pool", -gain.mean, gain.standard_error, report.n, POOL_CONFIDENCE)


def _left_out(what: str, compared: Comparison, kept: str) -> str:
    """Explain why something worse was dropped."""
    low, high = interval_text("cross_entropy", compared.low, compared.high, 0.0)
    return (
        f"The {what} was dropped in favour of the {kept}: it raised the cross-entropy on "
        f"{compared.n} held-out labels by {low} to {high} "
        f"({100 * compared.confidence:g} % interval). Pass safe=False (--no-safe) to keep it."
    )


def largest_lam(recipe: Recipe) -> float:
    """The largest λ for which the risk is bounded below; standard SSL subtracts nothing."""
    risk = RISKS[recipe.plan.risk]
    return recipe.surrogate.bounded_up_to if risk.takes_back else math.inf

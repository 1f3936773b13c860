"""The facts of a trial, evaluated on its test rows: metrics, comparisons, verdict."""

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from dessl.data import SemiData
from dessl.data.labels import MISSING
from dessl.evaluation import compare_models, estimate_metric, metrics_from_logits
from dessl.evaluation.debiased.proxies import MetricName
from dessl.evaluation.metrics.vocabulary import METRICS
from dessl.evaluation.verdict import (
    MARGIN,
    OVER_GROUPS,
    OVER_ROWS,
    Comparison,
    Verdict,
    no_verdict,
    not_used,
    verdict,
)
from dessl.recipes import Recipe
from dessl.recipes.architecture import Architecture
from dessl.recipes.split import RowDesign
from dessl.recipes.trial import NO_DESIGN, Trial
from dessl.results.facts import DataFacts, Estimate, MethodFacts, ModelFacts, RunFacts, agreeing
from dessl.results.machine import machine_facts
from dessl.results.record import Record, thinned
from dessl.risk import COMPLETE_CASE, RISKS
from dessl.training import TrainResult

FEW_LABELS = 200  # with fewer, a capped cross-entropy may depend on a few large losses
TWIN = RISKS[COMPLETE_CASE].titled("")  # the name that tables give to the complete case
POOL = "pool"  # the name that they give to networks and teachers together
PRIMARY: MetricName = "brier"  # proper and bounded: few labels are enough for its interval


@dataclass(frozen=True)
class EvaluationRows:
    """Rows to compare two models on.

    Attributes:
        y: (n,) class numbers, −1 for unlabelled rows, which make the estimates more precise.
        twin: Logits (n, classes) of the complete case.
        ours: Logits (n, classes) of the other model.
        design: Propensities of the labelled rows and groups of all, if there are any.
        check_shift: Whether to test that unlabelled rows look like labelled ones.
        base: Name of the complete case, or of what takes its place.
    """

    y: Tensor
    twin: Tensor
    ours: Tensor
    design: RowDesign = NO_DESIGN
    check_shift: bool = True
    base: str = TWIN

    @property
    def labelled(self) -> Tensor:
        """Which rows are labelled, (n,)."""
        return self.y != MISSING

    @property
    def how(self) -> dict[str, Any]:
        """Options of estimates and comparisons."""
        groups = self.design.groups
        found = {"propensity": self.design.propensity, "check_shift": self.check_shift}
        if groups is None:
            return found
        known = self.labelled
        return {**found, "groups": groups[known], "groups_unlabelled": groups[~known]}

    @property
    def metrics(self) -> list[MetricName]:
        """Metrics to compare; the cross-entropy only with many labels, and if it is finite."""
        found: list[MetricName] = ["accuracy", PRIMARY]
        if int(self.labelled.sum()) < FEW_LABELS:
            return found
        # It may be infinite if a probability is zero.
        finite = all(bool((logits.softmax(1) > 0).all()) for logits in (self.ours, self.twin))
        return [*found, "cross_entropy"] if finite else found

    def comparisons(self, name: str) -> Iterator[Comparison]:
        """Compare the other model, by its name, with the complete case."""
        known, how = self.labelled, self.how
        ours, twins = self.ours.softmax(1), self.twin.softmax(1)
        for metric in self.metrics:
            found = compare_models(
                metric, ours[known], twins[known], self.y[known], ours[~known], twins[~known],
                **how,
            )  # fmt: skip
            yield Comparison(
                metric, name, self.base, found.difference, found.low, found.high, found.p_value,
                found.confidence, OVER_GROUPS if found.n_groups else OVER_ROWS, found.n_labelled,
                n_groups=found.n_groups,
            )  # fmt: skip

    def estimates(self, names: Sequence[str]) -> Iterator[Estimate]:
        """Each model's metrics, with intervals.

        Their difference is not that of the comparison: each of the three is debiased with its own
        λ. All are unbiased, and the comparison is more precise: see :func:`agreeing`.

        Args:
            names: Names of the complete case and of the other model, if there is one.
        """
        known, how, metrics = self.labelled, self.how, self.metrics
        for name in names:
            p = (self.twin if name == self.base else self.ours).softmax(1)
            for metric in metrics:
                found = estimate_metric(metric, p[known], self.y[known], p[~known], **how)
                value = min(max(found.value, 0.0), METRICS[metric].highest)
                yield Estimate(
                    name, metric, value, min(value, found.low), max(value, found.high),
                    found.confidence, found.n_labelled, found.n_unlabelled, found.n_groups,
                )  # fmt: skip


def trial_facts(
    trial: Trial,
    *,
    surrogate: str,
    command: str,
    seconds: float,
    settings: dict[str, Any] | None = None,
    warnings: tuple[str, ...] = (),
    margin: float = MARGIN,
    share: float = 1.0,
) -> RunFacts:
    """Return all that the report of a trial shows.

    Args:
        trial: Result of :func:`dessl.recipes.trial.run_trial`.
        surrogate: Name of the surrogate in ``dessl.SURROGATES``.
        command: The command line of the run.
        seconds: Time taken.
        settings: Other settings, by name.
        warnings: Warnings shown during the run.
        margin: Smallest difference in Brier score that matters.
        share: Share of new labels that would be held out for evaluation.
    """
    fitted, test = trial.fitted, trial.test
    tested = EvaluationRows(test.y.cpu(), trial.twin_logits, trial.logits, trial.design)
    plan = fitted.recipe.plan
    term = "none" if fitted.pool and not RISKS[plan.risk].unlabelled else surrogate
    methods = [MethodFacts(TWIN, COMPLETE_CASE, term, 0.0)]
    known, y = test.labelled, test.y[test.labelled].cpu()
    rows = (y, trial.data, plan.seed)
    runs = [record_of(methods[0], trial.twin_logits[known], *rows, fitted.complete_results[0])]
    comparisons: tuple[Comparison, ...] = ()
    if fitted.model is not fitted.complete_case:
        name = RISKS[plan.risk].titled(type(fitted.recipe.surrogate).__name__)
        name, risk = (POOL, "pool") if fitted.pool else (name, plan.risk)
        methods.append(MethodFacts(name, risk, term, fitted.lam))
        runs.append(record_of(methods[1], trial.logits[known], *rows, fitted.results[0]))
        comparisons = tuple(tested.comparisons(name))
    n_test = len(y)
    found = _verdict(trial, comparisons, margin, share)
    kept = methods[0 if found.outcome == "not used" else -1].name
    return RunFacts(
        title=f"{trial.data.name}: does unlabelled data help?",
        command=command,
        data=DataFacts.of(trial.data, test=n_test, test_unlabelled=len(test.y) - n_test),
        methods=tuple(methods),
        runs=tuple(runs),
        comparisons=comparisons,
        verdict=found,
        model=ModelFacts(kept, trial.data.n_labelled, refitted=False),
        settings={
            "network": _network(fitted.recipe),
            "networks": len(fitted.results),
            "teachers": [getattr(one, "name", one) for one in fitted.recipe.teachers],
            "surrogate": term,
            "margin": margin,
            **(settings or {}),
            **plan.as_dict(),
            "lam": fitted.lam,
            **({"symmetries": str(fitted.symmetries)} if fitted.symmetries else {}),
        },
        made_with=machine_facts(),
        seconds=round(seconds, 2),
        estimates=agreeing(tuple(tested.estimates([one.name for one in methods])), comparisons),
        pool=fitted.pool,
        baseline=fitted.baseline,
        warnings=warnings,
    )


def _network(recipe: Recipe) -> str:
    """The network by name, with its options."""
    model = recipe.model
    if not isinstance(model, Architecture):
        return getattr(model, "__name__", type(model).__name__)
    options = ", ".join(f"{name} = {value}" for name, value in model.options.items())
    return f"{model.name} ({options})" if options else model.name


def record_of(
    method: MethodFacts,
    logits: Tensor,
    y: Tensor,
    data: SemiData,
    seed: int,
    first: TrainResult | None = None,
) -> Record:
    """Return the record of one model on labelled rows, with the history of its first network.

    A pool has no history: its networks belong to another method, and its teachers have no steps.
    """
    training = {}
    if first is not None:
        training = {"selected_step": first.step, "steps": first.steps, "mode": first.mode}
    return Record(
        experiment="fit",
        profile="",
        key=f"{method.risk}-lam{method.lam:.4g}-seed{seed}",
        data=data.name,
        labels=data.n_labelled,
        method=method.name,
        title=method.name,
        risk=method.risk,
        lam=method.lam,
        seed=seed,
        settings={},
        metrics=metrics_from_logits(logits, y).as_dict(),
        training=training,
        made_with={},
        history=[] if first is None or method.risk == "pool" else thinned(first.history),
    )


def _verdict(
    trial: Trial, comparisons: tuple[Comparison, ...], margin: float, share: float
) -> Verdict:
    """The verdict on the test rows, and how the unlabelled rows were used in training.

    If the test rows show that the model is worse, the complete case is used instead, unless the
    recipe is not ``safe``.
    """
    fitted, whole = trial.fitted, not trial.data.n_unlabelled
    baseline = fitted.baseline
    account = f"{'All rows are labelled. ' if whole else ''}{fitted.account}"
    if baseline and not baseline.trained:
        return no_verdict(baseline.failure, baseline.account)
    if baseline and baseline.failures:
        account = f"{account} {baseline.account}"
    if not comparisons:
        return not_used(account)
    (primary,) = (one for one in comparisons if one.metric == PRIMARY)
    rows = None
    if share < 1:  # test rows and their labels are a share of the data, which still has them
        rows = len(trial.data) + trial.data.n_stored
    labelled = trial.data.n_labelled + primary.n
    found = verdict(primary, margin=margin, share=share, labelled=labelled, rows=rows)
    if found.outcome == "worse" and fitted.recipe.safe:
        change = primary.change()
        instead = not_used(f"{change[0].upper()}{change[1:]}. {account}")
        return dataclasses.replace(instead, margin=margin)
    return dataclasses.replace(found, sentence=f"{found.sentence} {account}")

"""A trial's facts: both models on the test rows, their comparison, and the verdict."""

from collections.abc import Iterator, Sequence
from typing import Any

from torch import Tensor

from dessl.evaluation import compare_models, estimate_metric, metrics_from_logits
from dessl.evaluation.debiased.estimate import FEW_LABELS
from dessl.evaluation.debiased.proxies import MetricName
from dessl.recipes.trial import Trial
from dessl.results.comparisons import OVER_ROWS, Comparison
from dessl.results.facts import DataFacts, Estimate, MethodFacts, RunFacts
from dessl.results.machine import machine_facts
from dessl.results.record import Record, thinned
from dessl.results.verdict import Outcome, Verdict, verdict
from dessl.risk import COMPLETE_CASE, RISKS
from dessl.training import TrainResult

TWIN = RISKS[COMPLETE_CASE].titled("")  # the name that tables give to the complete case
POOL = "pool"
PRIMARY: MetricName = "brier"  # proper and bounded: few labels are enough for its interval


def trial_facts(
    trial: Trial,
    *,
    surrogate: str,
    command: str,
    seconds: float,
    settings: dict[str, Any] | None = None,
    warnings: tuple[str, ...] = (),
) -> RunFacts:
    """Return everything that the report of a trial shows.

    Args:
        trial: Of :func:`dessl.recipes.trial.run_trial`.
        surrogate: Its name in ``dessl.SURROGATES``.
        command: The command line that made it.
        seconds: Time taken.
        settings: Other settings, by name.
        warnings: Shown on the way.
    """
    fitted, test = trial.fitted, trial.test
    plan = fitted.recipe.plan
    term = "none" if fitted.pool and not RISKS[plan.risk].unlabelled else surrogate
    methods = [MethodFacts(TWIN, COMPLETE_CASE, term, 0.0)]
    runs = [_record(trial, methods[0], trial.twin_logits, fitted.complete_results)]
    comparisons: tuple[Comparison, ...] = ()
    if fitted.model is not fitted.complete_case:
        name = RISKS[plan.risk].titled(type(fitted.recipe.surrogate).__name__)
        name, risk = (POOL, "pool") if fitted.pool else (name, plan.risk)
        methods.append(MethodFacts(name, risk, term, fitted.lam))
        runs.append(_record(trial, methods[1], trial.logits, fitted.results))
        comparisons = tuple(_comparisons(trial, name))
    n_test = int(test.labelled.sum())
    return RunFacts(
        title=f"{trial.data.name}: does unlabelled data help?",
        command=command,
        data=DataFacts.of(trial.data, test=n_test, test_unlabelled=len(test.y) - n_test),
        methods=tuple(methods),
        runs=tuple(runs),
        comparisons=comparisons,
        verdict=_verdict(trial, comparisons),
        settings={
            "networks": len(fitted.results),
            "teachers": [getattr(one, "name", one) for one in fitted.recipe.teachers],
            "surrogate": term,
            **(settings or {}),
            **plan.as_dict(),
            "lam": fitted.lam,
        },
        made_with=machine_facts(),
        seconds=round(seconds, 2),
        estimates=tuple(_estimates(trial, methods)),
        pool=fitted.pool,
        warnings=warnings,
    )


def _record(
    trial: Trial, method: MethodFacts, logits: Tensor, results: Sequence[TrainResult]
) -> Record:
    """One model on the labelled test rows; the history is its first network's.

    A pool has none: its networks are another method's, and its teachers have no steps.
    """
    test, seed, first = trial.test, trial.fitted.recipe.plan.seed, results[0]
    metrics = metrics_from_logits(logits[test.labelled], test.y[test.labelled].cpu())
    return Record(
        experiment="fit",
        profile="",
        key=f"{method.risk}-lam{method.lam:.4g}-seed{seed}",
        data=trial.data.name,
        labels=trial.data.n_labelled,
        method=method.name,
        title=method.name,
        risk=method.risk,
        lam=method.lam,
        seed=seed,
        settings={},
        metrics=metrics.as_dict(),
        training={"selected_step": first.step, "steps": first.steps, "mode": first.mode},
        made_with={},
        history=[] if method.risk == "pool" else thinned(first.history),
    )


def _compared(trial: Trial) -> Iterator[MetricName]:
    yield "accuracy"
    yield PRIMARY
    both = (trial.logits, trial.twin_logits)
    if int(trial.test.labelled.sum()) < FEW_LABELS:
        return
    # Where a probability is zero it may be infinite.
    if all(bool((logits.softmax(1) > 0).all()) for logits in both):
        yield "cross_entropy"


def _comparisons(trial: Trial, name: str) -> Iterator[Comparison]:
    known = trial.test.labelled
    ours, twins = trial.logits.softmax(1), trial.twin_logits.softmax(1)
    for metric in _compared(trial):
        found = compare_models(
            metric, ours[known], twins[known], trial.test.y[known], ours[~known], twins[~known]
        )
        yield Comparison(
            metric, name, TWIN, found.difference, found.low, found.high, found.p_value,
            found.confidence, OVER_ROWS, found.n_labelled,
        )  # fmt: skip


def _estimates(trial: Trial, methods: Sequence[MethodFacts]) -> Iterator[Estimate]:
    known = trial.test.labelled
    if bool(known.all()):
        return
    metrics = tuple(_compared(trial))
    for method in methods:
        logits = trial.twin_logits if method.name == TWIN else trial.logits
        p = logits.softmax(1)
        for metric in metrics:
            found = estimate_metric(metric, p[known], trial.test.y[known], p[~known])
            yield Estimate(
                method.name, metric, found.value, found.low, found.high, found.confidence,
                found.n_labelled, found.n_unlabelled,
            )  # fmt: skip


def _verdict(trial: Trial, comparisons: tuple[Comparison, ...]) -> Verdict:
    for one in comparisons:
        if one.metric == PRIMARY:
            return _with_pool(one, trial)
    if not trial.data.n_unlabelled:
        return Verdict(
            "no clear difference",
            "Every row has a label: only the complete case was trained, as there are no unlabelled "
            "rows to learn from.",
        )
    check = trial.fitted.check
    outcome: Outcome = "hurt" if check and check.clearly_hurt else "no clear difference"
    return Verdict(outcome, f"The complete case was kept. {trial.fitted.verdict}")


def _with_pool(comparison: Comparison, trial: Trial) -> Verdict:
    """The verdict of the main comparison; of a pool, with what the unlabelled rows brought."""
    fitted, labels = trial.fitted, trial.data.n_labelled
    if fitted.pool is None:
        return verdict(comparison, labels)
    found = verdict(comparison, labels, "The pool")
    whole = "" if trial.data.n_unlabelled else "Every row has a label. "
    return Verdict(found.outcome, f"{whole}{found.sentence} {fitted.verdict}")

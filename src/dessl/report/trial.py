"""A trial's facts: both models on the test rows, their comparison, and the verdict."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

from torch import Tensor

from dessl.data import Part
from dessl.evaluation import compare_models, estimate_metric, metrics_from_logits
from dessl.evaluation.debiased.estimate import FEW_LABELS
from dessl.evaluation.debiased.proxies import MetricName
from dessl.recipes.trial import Trial
from dessl.report.data import data_facts
from dessl.report.facts import (
    Comparison,
    Estimate,
    MethodFacts,
    Outcome,
    RunFacts,
    RunResult,
    Verdict,
)
from dessl.report.verdict import verdict
from dessl.results.machine import machine_facts
from dessl.training import TrainResult

TWIN = "complete case"
PRIMARY: MetricName = "brier"  # proper, and bounded: few labels are enough for its interval
TEST = "debiased, paired over rows"
PREFIX = {"debiased": "De", "ssl": "", "complete_case": ""}


def method_name(surrogate: str, risk: str) -> str:
    """Return the name that papers give to a surrogate with a risk.

    >>> method_name("PseudoLabel", "debiased"), method_name("PseudoLabel", "ssl")
    ('DePseudoLabel', 'PseudoLabel')
    """
    return TWIN if risk == "complete_case" else PREFIX[risk] + surrogate


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
        seconds: That it took.
        settings: What else was set, by name.
        warnings: What was warned of.
    """
    fitted, test = trial.fitted, trial.test
    plan = fitted.recipe.plan
    name = method_name(type(fitted.recipe.surrogate).__name__, plan.risk)
    methods = [MethodFacts(TWIN, "complete_case", surrogate, 0.0)]
    runs = [_run(TWIN, trial.twin_logits, test, fitted.complete_results, plan.seed)]
    comparisons: tuple[Comparison, ...] = ()
    if fitted.used_unlabelled:
        methods.append(MethodFacts(name, plan.risk, surrogate, fitted.lam))
        runs.append(_run(name, trial.logits, test, fitted.results, plan.seed))
        comparisons = tuple(_comparisons(trial, name))
    n_test = int(test.labelled.sum())
    return RunFacts(
        title=f"{trial.data.name}: does unlabelled data help?",
        command=command,
        data=data_facts(trial.data, test=n_test, test_unlabelled=len(test.y) - n_test),
        methods=tuple(methods),
        runs=tuple(runs),
        comparisons=comparisons,
        verdict=_verdict(trial, comparisons),
        settings={
            "networks": len(fitted.results),
            **(settings or {}),
            **plan.as_dict(),
            "lam": fitted.lam,
        },
        made_with=machine_facts(),
        seconds=round(seconds, 2),
        estimates=tuple(_estimates(trial, methods)),
        warnings=warnings,
    )


def _run(
    method: str, logits: Tensor, test: Part, results: Sequence[TrainResult], seed: int
) -> RunResult:
    """One model on the labelled test rows; the history is its first network's."""
    metrics = metrics_from_logits(logits[test.labelled], test.y[test.labelled].cpu())
    first = results[0]
    history = [asdict(event) for event in first.history]
    return RunResult(method, seed, metrics.as_dict(), first.step, first.steps, history)


def _compared(trial: Trial) -> Iterator[MetricName]:
    yield "accuracy"
    yield PRIMARY
    both = (trial.logits, trial.twin_logits)
    if int(trial.test.labelled.sum()) < FEW_LABELS:
        return
    if all(bool((logits.softmax(1) > 0).all()) for logits in both):  # where it may be infinite, not
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
            found.confidence, TEST, found.n_labelled,
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
            return verdict(one, trial.data.n_labelled)
    if not trial.data.n_unlabelled:
        return Verdict(
            "cannot tell",
            "Every row has a label: the complete case was trained, and there was nothing "
            "unlabelled to learn from.",
        )
    check = trial.fitted.check
    outcome: Outcome = "hurt" if check and check.clearly_hurt else "cannot tell"
    return Verdict(outcome, f"The complete case was kept. {trial.fitted.verdict}")

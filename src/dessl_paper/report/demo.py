"""The demonstration's facts."""

from dataclasses import asdict, replace
from typing import Any

from dessl.results.comparisons import method_comparisons
from dessl.results.facts import DataFacts, MethodFacts, RunFacts
from dessl.results.machine import machine_facts
from dessl.results.verdict import verdict
from dessl_paper.demo import ALL_LABELS, METHODS, DemoResult

PRIMARY = ("DePseudoLabel", "cross_entropy")  # what the verdict is about, chosen beforehand


def demo_facts(
    result: DemoResult, *, command: str, seconds: float, warnings: tuple[str, ...] = ()
) -> RunFacts:
    """Return everything that the demonstration's report shows.

    Args:
        result: Of :func:`dessl_paper.demo.run_demo`.
        command: The command line that made it.
        seconds: That it took.
        warnings: What was warned of.
    """
    plan, data = result.plan, result.data
    comparisons = method_comparisons(result.runs, list(METHODS))
    main = next(one for one in comparisons if (one.method, one.metric) == PRIMARY)
    return RunFacts(
        title=f"Digits with {plan.labels} labels: does unlabelled data help?",
        command=command,
        data=DataFacts.of(data, test=len(data.test.y) if data.test else 0),
        methods=_methods(plan.lam),
        runs=result.runs,
        comparisons=comparisons,
        sweep=tuple(
            replace(run, metrics=_numbers(run.metrics), history=[]) for run in result.sweep
        ),
        verdict=verdict(main, plan.labels),
        settings={"demonstration": asdict(plan), "training": plan.training.as_dict()},
        made_with=machine_facts(),
        seconds=round(seconds, 2),
        warnings=warnings,
    )


def _methods(lam: float) -> tuple[MethodFacts, ...]:
    risks: dict[str, str] = {**METHODS, ALL_LABELS: "supervised"}
    return tuple(
        MethodFacts(name, risk, "pseudo_label", lam if risk in ("ssl", "debiased") else 0.0)
        for name, risk in risks.items()
    )


def _numbers(metrics: dict[str, Any]) -> dict[str, Any]:
    """Metrics that are one number: a sweep is drawn from those, and shows no class or bin."""
    return {name: value for name, value in metrics.items() if isinstance(value, float)}

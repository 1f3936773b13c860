"""The facts of a student of teachers' answers, evaluated on gold rows, out of fold."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from dessl.data import SemiData
from dessl.data.labels import MISSING
from dessl.evaluation.debiased.proxies import MetricName
from dessl.evaluation.verdict import MARGIN, OUTCOMES, Comparison, Outcome, Verdict, verdict
from dessl.results.facts import DataFacts, Estimate, MethodFacts, ModelFacts, RunFacts
from dessl.results.machine import machine_facts
from dessl.results.trial import PRIMARY, EvaluationRows, record_of
from dessl.teachers import Taught, TaughtReport
from dessl.teachers.choice import Interval
from dessl.teachers.taught import Evaluated

STUDENT, WITH_ANSWERS = "student", "student with answers"
WITHOUT = "without answers"  # the model that a student is compared with
REJECTED = f"{STUDENT} (not used)"
BRIER: dict[Outcome, str] = {
    "better": "the answers help",
    "no practical difference": "the answers make no practical difference",
    "worse": "the answers do harm",
    "cannot tell yet": "it is not yet clear whether the answers help",
}


def taught_facts(
    taught: Taught,
    data: SemiData,
    *,
    command: str,
    seconds: float,
    settings: dict[str, Any] | None = None,
    warnings: tuple[str, ...] = (),
    seed: int = 0,
) -> RunFacts:
    """Return all that the report of a run with teachers shows.

    All gold labels are used for training and, out of fold, for evaluation. The best model without
    answers takes the place of the complete case of other runs.

    Args:
        taught: A student just trained, which still has its evaluation rows.
        data: The data it was trained on.
        command: The command line of the run.
        seconds: Time taken.
        settings: Settings of the run, by name.
        warnings: Warnings shown during the run.
        seed: Seed of the run.
    """
    if taught.evaluated is None:
        raise ValueError("a loaded student has no rows to evaluate it on. Train it again.")
    tested, report = _taught_rows(taught.evaluated, taught.report), taught.report
    methods = (
        MethodFacts(WITHOUT, "taught", "none", 0.0),
        *(MethodFacts(name, "taught", "none", 0.0) for name in tested),
    )
    y, without = taught.evaluated.y, taught.evaluated.without
    known = y != MISSING
    logits = (without, *(rows.ours for rows in tested.values()))
    runs = tuple(
        record_of(method, its[known], y[known], data, seed)
        for method, its in zip(methods, logits, strict=True)
    )
    comparisons = {name: tuple(rows.comparisons(name)) for name, rows in tested.items()}
    estimates = dict.fromkeys(
        _averaged(one, report)
        for name, rows in tested.items()
        for one in rows.estimates([WITHOUT, name])
    )
    alone = STUDENT if report.student.kept else WITHOUT
    n_gold = int(known.sum())
    model = ModelFacts(alone, n_gold, refitted=False)
    if WITH_ANSWERS in tested:
        model = ModelFacts(WITH_ANSWERS, n_gold, refitted=False, alone=alone)
    return RunFacts(
        title=f"{data.name}: do the teachers' answers help?",
        command=command,
        data=DataFacts.of(data, test=n_gold, test_unlabelled=len(y) - n_gold),
        methods=methods,
        runs=runs,
        comparisons=tuple(one for some in comparisons.values() for one in some),
        verdict=_taught_verdict(report, comparisons),
        model=model,
        settings={**taught.setting.as_dict(), "seed": seed, **(settings or {})},
        made_with=machine_facts(),
        seconds=round(seconds, 2),
        estimates=tuple(estimates),
        warnings=warnings,
        taught=report,
    )


def _averaged(one: Estimate, report: TaughtReport) -> Estimate:
    """An accuracy as that of the mean over the folds, as in the report of a student.

    The model without answers is given the gain of what was kept, which is about the same.
    """
    if one.metric != "accuracy":
        return one
    moved = Interval(one.value, one.low, one.high).shifted(averaging(report, one.method))
    return dataclasses.replace(one, value=moved.value, low=moved.low, high=moved.high)


def averaging(report: TaughtReport, method: str) -> float:
    """How much the mean over the folds adds to the accuracy of single networks of a method."""
    heard = report.with_answers if method == WITH_ANSWERS else None
    return (heard or report.student).averaging


class GoldRows(EvaluationRows):
    """Gold rows, predicted out of fold, and rows kept out of training.

    The cross-entropy of gold rows decides about the answers: the report of the student has it, with
    its interval, so it is not estimated again.
    """

    @property
    def metrics(self) -> list[MetricName]:
        """Metrics to compare."""
        return ["accuracy", PRIMARY]


def _taught_rows(found: Evaluated, report: TaughtReport) -> dict[str, GoldRows]:
    """The rows to evaluate the student on and, if answers are used as input, it with answers."""
    heard, choice = found.with_answers, report.with_answers
    own = {STUDENT if report.student.kept else REJECTED: found.taught}
    if heard is not None and choice is not None and choice.kept:
        own[WITH_ANSWERS] = heard
    return {
        name: GoldRows(found.y, found.without, logits, check_shift=False, base=WITHOUT)
        for name, logits in own.items()
    }


def _taught_verdict(
    report: TaughtReport, comparisons: Mapping[str, tuple[Comparison, ...]]
) -> Verdict:
    """The decision, by the cross-entropy, then the comparison in Brier score."""
    name = WITH_ANSWERS if WITH_ANSWERS in comparisons else STUDENT
    choice = report.with_answers if name == WITH_ANSWERS else report.student
    if choice is None or not choice.kept:
        said = f"{report.student.why} {report.hint}".rstrip()
        return Verdict("not used", said)
    (primary,) = (one for one in comparisons[name] if one.metric == PRIMARY)
    found = verdict(primary, margin=MARGIN)
    brier = f"{BRIER[found.outcome]}{found.sentence.removeprefix(OUTCOMES[found.outcome])}"
    brier = brier.replace("held-out labels", "gold labels")
    where = "In cross-entropy, " + "with answers to new rows, " * (name == WITH_ANSWERS)
    said = f"{where}{choice.why[0].lower()}{choice.why[1:]} In the Brier score, {brier}"
    return dataclasses.replace(found, sentence=f"{said} {report.hint}".rstrip())

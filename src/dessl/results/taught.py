"""The facts of a run with teachers: with the answers and without them, judged out of fold.

What is used without the answers, the gold-only networks or those and a self-taught student, is what
other runs call the complete case.
"""

import dataclasses
from typing import Any

from torch import Tensor

from dessl.data import SemiData
from dessl.evaluation import metrics_from_logits
from dessl.evaluation.verdict import MARGIN, Comparison, Verdict, verdict
from dessl.results.facts import DataFacts, MethodFacts, ModelFacts, RunFacts
from dessl.results.machine import machine_facts
from dessl.results.record import Record
from dessl.results.trial import PRIMARY, TWIN, JudgedRows
from dessl.risk import COMPLETE_CASE
from dessl.teachers import Taught, TaughtReport

STUDENT, RISK = "student", "taught"


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
    """Return everything that the report of a run with teachers shows.

    All gold labels teach and judge: each by networks and weights that have not seen its fold.

    Args:
        taught: Just learnt, so that it has the rows that judged it.
        data: What it was learnt from.
        command: The command line of the run.
        seconds: Time taken.
        settings: By name.
        warnings: Shown on the way.
        seed: Of the run.
    """
    if taught.judged is None:
        raise ValueError("a student that was loaded has no rows to judge it by. Train it again.")
    judged, report = JudgedRows(*taught.judged), taught.report
    methods = (
        MethodFacts(TWIN, COMPLETE_CASE, "none", 0.0),
        MethodFacts(STUDENT, RISK, "none", 0.0),
    )
    known = judged.labelled
    runs = tuple(
        _record(method, logits[known], judged.y[known], data, seed)
        for method, logits in zip(methods, (judged.twin, judged.ours), strict=True)
    )
    comparisons = tuple(judged.comparisons(STUDENT))
    kept = STUDENT if report.student.kept else TWIN
    n_gold = int(known.sum())
    return RunFacts(
        title=f"{data.name}: do the teachers' answers help?",
        command=command,
        data=DataFacts.of(data, test=n_gold, test_unlabelled=len(judged.y) - n_gold),
        methods=methods,
        runs=runs,
        comparisons=comparisons,
        verdict=_verdict(report, comparisons),
        model=ModelFacts(kept, n_gold, refitted=False),
        settings={**taught.setting.as_dict(), "seed": seed, **(settings or {})},
        made_with=machine_facts(),
        seconds=round(seconds, 2),
        estimates=tuple(judged.estimates([TWIN, STUDENT], comparisons)),
        warnings=warnings,
        taught=report,
    )


def _record(method: MethodFacts, logits: Tensor, y: Tensor, data: SemiData, seed: int) -> Record:
    return Record(
        experiment="fit",
        profile="",
        key=f"{method.risk}-lam0-seed{seed}",
        data=data.name,
        labels=data.n_labelled,
        method=method.name,
        title=method.name,
        risk=method.risk,
        lam=0.0,
        seed=seed,
        settings={},
        metrics=metrics_from_logits(logits, y).as_dict(),
        training={},
        made_with={},
        history=[],
    )


def _verdict(report: TaughtReport, comparisons: tuple[Comparison, ...]) -> Verdict:
    """The comparison in words; the complete case where the gate did not let the answers pass."""
    if not report.student.kept:
        return Verdict("not used", f"The answers were not used. {report.student.why}")
    (primary,) = (one for one in comparisons if one.metric == PRIMARY)
    found = verdict(primary, margin=MARGIN)
    return dataclasses.replace(found, sentence=f"{found.sentence} {report.student.why}")

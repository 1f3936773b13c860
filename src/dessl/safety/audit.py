"""audit: is it safe to use these unlabelled rows, and what can be gained?"""

import dataclasses
import html
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from dessl._entries import Measured
from dessl._json import json_ready
from dessl.data import DataError, SemiData
from dessl.evaluation.verdict import shown_p
from dessl.safety.answers import fold_answers
from dessl.safety.columns import Sampled, columns_of, groups_of_rows, sampled_rows
from dessl.safety.gain import TEACHERS, GainFacts, gains, least_correlation
from dessl.safety.giveaways import Giveaway, giveaway_reasons, giveaways_in
from dessl.safety.labels import LabelFacts, label_facts
from dessl.safety.leaks import CopyFacts, copies_in
from dessl.safety.missingness import Missingness, missingness
from dessl.safety.two_samples import LEAST_ROWS, ColumnShift
from dessl.training.threads import one_thread

Outcome = Literal["use it", "use it with care", "do not use it", "no unlabelled rows"]
LEVEL = 0.05
CLEAR = 0.01  # p-value of one test up to which a difference is hardly chance
LARGE = 0.65  # AUC of a classifier of rows of clearly different kinds
FEW_LABELS = 30
FEW_GROUPS = 10  # with a label
LEAST_SHARE = 0.01  # of rows that are duplicates, to be reported
LEAST_DOUBT = 0.04  # of labels that look wrong, to be reported


@dataclass(frozen=True)
class Audit:
    """What an audit found; ``outcome`` and ``reasons`` tell you what to do.

    Attributes:
        name: Name of the data.
        outcome: ``"use it"``, ``"use it with care"`` or ``"do not use it"``, for the unlabelled
            rows; ``"no unlabelled rows"`` if there are none and nothing else was found.
        reasons: The reasons, leaks and the most serious first; each says what to do.
        labelled: Number of labelled rows.
        unlabelled: Number of unlabelled rows.
        test: Number of test rows.
        tests: Tests of labels missing completely at random.
        columns: Columns that differ most between labelled and unlabelled rows, corrected p-values.
        auc: Out-of-fold AUC of labelled against unlabelled rows; 0.5 if they look the same.
        class_propensity: Estimated share of each class that is labelled; () if not tested.
        copies: Duplicates within and between the parts.
        labels: Class coverage and suspicious labels.
        gains: What each term can gain, the best first; () if ``cheap``.
        least_correlation: The ρ above which a term gains more than estimating λ costs.
        seconds: Time taken.
        giveaways: Columns that match the classes one to one; () in files of older versions.
        groups: Number of groups of rows that the tests exchange; 0 if they exchange rows.
        labelled_groups: Number of these groups with a label.
    """

    name: str
    outcome: Outcome
    reasons: tuple[str, ...]
    labelled: int
    unlabelled: int
    test: int
    tests: tuple[Missingness, ...]
    columns: tuple[ColumnShift, ...]
    auc: Measured
    class_propensity: tuple[Measured, ...]
    copies: CopyFacts | None
    labels: LabelFacts
    gains: tuple[GainFacts, ...]
    least_correlation: Measured
    seconds: float
    giveaways: tuple[Giveaway, ...] = ()
    groups: int = 0
    labelled_groups: int = 0

    @property
    def sentence(self) -> str:
        """The verdict in a line: what to do, the reason that decides it, then a leak."""
        if self.outcome == "no unlabelled rows":
            return f"{self.advice}."
        leaks = len(giveaway_reasons(self.giveaways, self.labelled, table=True))
        decides = leaks if self.outcome == "do not use it" else 0  # a leak alone calls for care
        shown = [*self.reasons[decides : decides + 1], *(self.reasons[:1] if decides else ())]
        return " ".join([f"{self.advice}.", *(shown or ["No problems found."])])

    @property
    def advice(self) -> str:
        """What to do with the unlabelled rows, or with the data if there are none."""
        if self.outcome == "no unlabelled rows":
            return "No unlabelled rows to audit: all rows are labelled"
        rows = "the unlabelled rows" if self.unlabelled else "the data"
        return self.outcome.replace("it", rows, 1).capitalize()

    @property
    def heading(self) -> str:
        """The verdict as the title of the reasons."""
        if self.outcome == "no unlabelled rows":
            return f"{self.advice}."
        rows = "unlabelled data" if self.unlabelled else "data, all labelled"
        return f"Verdict on the {rows}: {self.outcome}."

    @property
    def exchanged(self) -> str:
        """What the tests exchange if rows have groups; empty if they exchange rows."""
        if not self.groups:
            return ""
        few = self.labelled_groups < FEW_GROUPS
        return (
            f"The tests exchange whole groups: {self.groups:,}, {self.labelled_groups:,} of them "
            f"with a label{', so few that only large differences are found' if few else ''}."
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the audit ready for JSON: None for NaN, "Infinity" for ∞."""
        ready = json_ready(dataclasses.asdict(self))
        assert isinstance(ready, dict)  # noqa: S101
        return ready

    def __str__(self) -> str:
        """The verdict, the reasons, the tests and the possible gains."""
        lines = [
            f"{self.name or 'the data'}: {self.outcome}",
            *(f"- {why}" for why in self.reasons),
        ]
        lines += [f"{one.test}: {shown_p(one.p_value)}. {one.finding}" for one in self.tests]
        lines += [self.exchanged] if self.tests and self.groups else []
        lines += [
            f"{one.term}: ρ = {one.correlation:.2f} ({one.low:.2f} to {one.high:.2f}), "
            f"equivalent to {one.equivalent_labels:.0f} labels"
            for one in self.gains
        ]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        """The HTML shown in a notebook."""
        head, *rest = str(self).splitlines()
        items = "".join(f"<li>{html.escape(line.removeprefix('- '))}</li>" for line in rest)
        return f"<div><b>{html.escape(head)}</b><ul>{items}</ul></div>"


def audit(
    data: SemiData,
    *,
    groups: "Tensor | NDArray[Any] | None" = None,
    cheap: bool = False,
    teachers: Sequence[str] = TEACHERS,
    propensities: bool = True,
    seed: int = 0,
) -> Audit:
    """Check if labels are missing at random, look for leaks, and estimate what can be gained.

    Args:
        data: The data with its labels; its test part is checked for duplicates.
        groups: (n,) numbers or text, the same for rows that belong together, such as a patient's;
            by default ``data.groups``. Labels may then be missing by group, as long as it is at
            random which groups have them.
        cheap: Whether to skip near duplicates, suspicious labels and gains, as ``dessl fit`` does.
        teachers: Names in ``dessl.teachers.KINDS`` whose gain is estimated.
        propensities: Whether the training to come takes propensities, so that the reasons may
            recommend them.
        seed: Seed of samples, folds and permutations.

    Raises:
        DataError: No row has a label.

    >>> generator = torch.Generator().manual_seed(0)
    >>> x = torch.randn(300, 2, generator=generator)
    >>> y = torch.where(torch.arange(300) < 60, (x[:, 0] > 0).long(), -1)
    >>> audit(SemiData(x, y), cheap=True).outcome
    'use it'
    """
    began = time.perf_counter()
    if not data.n_labelled:
        raise DataError.of(
            data.name or "the data",
            expected="some rows with a label and some without",
            got="no label",
            do="Label some rows, drawn at random.",
        )
    of_rows = groups_of_rows(data, groups)
    sample = sampled_rows(data, groups=of_rows, seed=seed)
    columns = columns_of(data, sample.rows)
    y = data.y.cpu()[sample.rows[: int(sample.labelled.sum())]]
    answers = None
    with one_thread():  # for matrices this small, a second thread only waits
        if len(y) >= LEAST_ROWS and len(torch.unique(y)) > 1 and _several_groups(sample):
            answers = fold_answers(
                columns.values, y, sample.labelled, data.n_classes, groups=sample.groups, seed=seed
            )
        found = missingness(data, sample, columns, answers, y, seed=seed)
    n_known = len(y)
    units = None if sample.groups is None else sample.groups[:n_known]
    labelled_groups = 0 if of_rows is None else len(torch.unique(of_rows[data.labelled_rows.cpu()]))
    doubts = None if cheap or answers is None else answers.log_p[:n_known]
    facts = Audit(
        name=data.name,
        outcome="use it",
        reasons=(),
        labelled=data.n_labelled,
        unlabelled=data.n_unlabelled,
        test=0 if data.test is None else len(data.test.y),
        copies=copies_in(data, near=not cheap, seed=seed),
        labels=label_facts(data, sample.rows[:n_known], doubts),
        gains=() if cheap or answers is None or not data.n_unlabelled else gains(
            columns.values[:n_known], y, columns.values[n_known:], data.n_classes,
            n_labelled=data.n_labelled, n_unlabelled=data.n_unlabelled,
            teachers=teachers, groups=units, seed=seed,
        ),
        least_correlation=least_correlation(labelled_groups or data.n_labelled),
        seconds=0.0,
        giveaways=giveaways_in(data, of_rows),
        groups=0 if of_rows is None else len(torch.unique(of_rows)),
        labelled_groups=labelled_groups,
        **found,
    )  # fmt: skip
    facts = _with_verdict(facts, data, propensities=propensities)
    return dataclasses.replace(facts, seconds=time.perf_counter() - began)


def _with_verdict(facts: Audit, data: SemiData, *, propensities: bool) -> Audit:
    """The facts with the outcome and its reasons, in the order in which they matter."""
    weighted = data.propensity is not None
    serious, minor = _reasons(facts, weighted=weighted, propensities=propensities)
    leaks = giveaway_reasons(facts.giveaways, facts.labelled, table=data.encoding is not None)
    outcome: Outcome = "use it" if facts.unlabelled else "no unlabelled rows"
    if serious:
        outcome = "do not use it"
    elif leaks or minor:
        outcome = "use it with care"
    reasons = (*leaks, *serious, *minor)  # a leak may be the cause of the others
    return dataclasses.replace(facts, outcome=outcome, reasons=reasons)


def _several_groups(sample: Sampled) -> bool:
    """Whether a model can be trained on labels of other groups than the one it predicts."""
    return sample.groups is None or len(np.unique(sample.groups[sample.labelled])) > 1


def _reasons(facts: Audit, *, weighted: bool, propensities: bool) -> tuple[list[str], list[str]]:
    """Reasons against using the unlabelled rows, serious and minor."""
    serious: list[str] = []
    minor: list[str] = []
    if len(facts.labels.counts) - len(facts.labels.absent) < 2:
        serious.append("All labels are of one class. Label rows of other classes.")
    shifted = [one for one in facts.tests if one.corrected <= LEVEL]
    if shifted:
        worst = min(shifted, key=lambda one: (one.corrected, one.p_value))
        far = facts.auc >= LARGE and worst.p_value <= CLEAR
        sure = "are not" if far or worst.corrected <= CLEAR else "may not be"
        text = (
            f"Labels {sure} missing at random ({worst.test}: {shown_p(worst.corrected)} after "
            f"correction for {len(facts.tests)} tests). {worst.finding} "
        )
        if weighted:
            minor.append(text + "They are weighted by the given propensities.")
        elif not propensities:
            (serious if far else minor).append(text + "Label a random sample of all rows.")
        elif far:
            serious.append(text + "Label a random sample, or pass propensities.")
        else:
            minor.append(text + "Pass propensities (--propensity), or label a random sample.")
    serious_copies, minor_copies = _copy_reasons(facts)
    return serious + serious_copies, minor + minor_copies + _label_reasons(facts)


def _copy_reasons(facts: Audit) -> tuple[list[str], list[str]]:
    copies = facts.copies
    if copies is None or copies.expected:
        return [], []
    serious: list[str] = []
    minor: list[str] = []
    leaked = copies.test_labelled + copies.near_test
    if leaked:
        kinds = f"{copies.test_labelled} exact, {copies.near_test} near"
        text = (
            f"{leaked} of {facts.test} test rows are duplicates of labelled rows ({kinds}): "
            "metrics on them are optimistic. Remove them from one of the two."
        )
        (serious if leaked > LEAST_SHARE * facts.test else minor).append(text)
    if copies.conflicts:
        minor.append(
            f"{copies.conflicts} labelled rows equal a row with a different label. "
            "Check these labels."
        )
    same = copies.labelled + copies.near_labelled
    if same > LEAST_SHARE * facts.labelled:
        minor.append(
            f"{same} labelled rows are duplicates of other labelled rows ({copies.labelled} exact, "
            f"{copies.near_labelled} near): there are fewer distinct labels than it seems."
        )
    if copies.unlabelled > LEAST_SHARE * facts.unlabelled:
        minor.append(
            f"{copies.unlabelled} unlabelled rows duplicate a labelled row. Remove them, or give "
            "them that label."
        )
    return serious, minor


def _label_reasons(facts: Audit) -> list[str]:
    labels, found = facts.labels, []
    if labels.absent:
        more = len(labels.absent) - 3
        found.append(
            f"No label of {', '.join(map(repr, labels.absent[:3]))}"
            + (f" and {more} more class{'es' if more > 1 else ''}" if more > 0 else "")
            + ": a model cannot learn them. Label some of their rows."
        )
    if facts.labelled < FEW_LABELS:
        found.append(
            f"Only {facts.labelled} labels: too few to detect a gain or a loss. Label more."
        )
    elif labels.few:
        rare = repr(labels.few[0])
        which = f"{len(labels.few)} classes have fewer than five labels, such as {rare}"
        if len(labels.few) == 1:
            which = f"The class {rare} has fewer than five labels"
        found.append(f"{which}: some folds will have none.")
    if labels.doubtful > LEAST_DOUBT * facts.labelled:
        first = labels.examples[0]
        found.append(
            f"{labels.doubtful} labels look wrong to a simple model of the other labels, such as "
            f"{first.row} ({first.label!r}, more likely {first.suggested!r}). Check the most "
            "doubtful ones: classes may also overlap."
        )
    if facts.gains and not any(one.worth_it for one in facts.gains):
        best = facts.gains[0]
        found.append(
            f"Expect little gain: the best term, {best.term}, has ρ = {best.correlation:.2f}, "
            f"and estimating λ pays off only above {facts.least_correlation:.2f}."
        )
    return found

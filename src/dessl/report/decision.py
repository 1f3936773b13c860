"""The decision: which model to use, how good it is, why, and what more labels would gain."""

import math
from typing import Literal

from dessl.evaluation.metrics.vocabulary import digits_text, interval_digits, interval_text
from dessl.evaluation.verdict import Comparison, Outcome, too_few_rows
from dessl.report.html import Child, Markup, element, named
from dessl.results.facts import Estimate, RunFacts

SIGNS: dict[Outcome, str] = {
    "better": "✓",
    "no practical difference": "=",
    "not used": "–",
    "worse": "✗",
    "cannot tell yet": "?",
    "no verdict": "!",
}
ADVICE: dict[Outcome, str] = {
    "better": "Use this model",
    "no practical difference": "Use this model; the complete case is as good",
    "not used": "Use this model, the complete case",
    "worse": "Use the complete case, not this model",
    "cannot tell yet": "Use this model, though it may be no better than the complete case",
    "no verdict": "Do not use this model yet",
}
OF_ANSWERS: dict[Outcome, str] = ADVICE | {
    "no practical difference": "Use this model; in the Brier score, the model without answers is "
    "as good",
    "not used": "Use this model, which does not use the answers",
    "worse": "Use this model with care: in the Brier score, the model without answers is better",
    "cannot tell yet": "Use this model, though in the Brier score it may be no better than the "
    "model without answers",
}
BEHIND = (  # if nothing is clear, and the estimate favours the complete case
    "It is not known which model is better: on these rows the complete case had the better Brier "
    "score, which may be chance (dessl predict --complete-case uses it)"
)
BEHIND_WITH_ANSWERS = (
    "Use this model, though on these rows the model without answers had the better Brier score, "
    "which may be chance"
)
HALVED = 3  # three times as many additional labels halve the interval, whose width falls as 1/√n


def advice(facts: RunFacts) -> str:
    """What to do and what to expect, in one line; for several seeds, only what to do."""
    found = accuracy_of(facts)
    behind = _behind(facts)
    start = behind or (OF_ANSWERS if facts.taught else ADVICE)[facts.verdict.outcome]
    if facts.audit and facts.audit.outcome == "do not use it":
        start = f"Read the audit first: it says not to use these data as they are. {start}"
    elif facts.audit and facts.audit.giveaways:
        start = f"Check the audit's finding first: a column may give the label away. {start}"
    if found is None:
        return f"{start}."
    low, high = interval_text("accuracy", found.low, found.high)
    level = f"{100 * found.confidence:g} % interval"
    expected = f"expected accuracy {low} to {high} % ({level}){without_answers(facts)}"
    whose = ". This model" if behind and not facts.taught else ""
    return f"{start}{whose}: {expected}."


def _behind(facts: RunFacts) -> str:
    """What to do if nothing is clear and the estimate favours the other model; "" otherwise."""
    if facts.verdict.outcome != "cannot tell yet" or _favours(paired(facts, "brier")) != "other":
        return ""
    return BEHIND_WITH_ANSWERS if facts.taught else BEHIND


def _favours(found: Comparison | None) -> Literal["this", "other", "neither"]:
    """Which model a difference favours; neither if it is shown as zero."""
    if found is None:
        return "neither"
    digits = interval_digits(found.metric, found.low, found.high, 0.0)
    if digits_text(found.metric, found.difference, digits, signed=True)[0] not in "+−":
        return "neither"
    return "this" if found.better else "other"


def paired(facts: RunFacts, metric: str) -> Comparison | None:
    """The saved model minus what it is compared with; None if they were not compared."""
    saved = facts.model and facts.model.method
    found = (one for one in facts.comparisons if (one.method, one.metric) == (saved, metric))
    return next(found, None)


def has_differences(facts: RunFacts) -> bool:
    """Whether to show differences: with a baseline that has learnt nothing, they mean nothing."""
    return bool(facts.comparisons) and facts.verdict.outcome != "no verdict"


def why(facts: RunFacts) -> str:
    """The verdict in words, with what accuracy and Brier score disagree about."""
    return f"{facts.verdict.sentence} {_disagreement(facts)}".rstrip()


def _disagreement(facts: RunFacts) -> str:
    """Say that accuracy and Brier score favour different models, if nothing is clear; else ""."""
    names = {"this": "this model", "other": baseline(facts)}
    accuracy, brier = (_favours(paired(facts, metric)) for metric in ("accuracy", "brier"))
    if facts.verdict.outcome != "cannot tell yet" or {accuracy, brier} != set(names):
        return ""
    return (
        f"Accuracy was higher with {names[accuracy]}, but the Brier score was better with "
        f"{names[brier]}."
    )


def baseline(facts: RunFacts) -> str:
    """What the methods are compared with, in words."""
    return "the complete case" if facts.taught is None else "the model without answers"


def evaluation_rows(facts: RunFacts) -> str:
    """The labelled rows that methods are evaluated on, in words."""
    return "held-out rows" if facts.taught is None else "gold rows"


def without_answers(facts: RunFacts) -> str:
    """For a model that takes answers as input, the accuracy without them; "" otherwise."""
    found = accuracy_of(facts, alone=True)
    if found is None:
        return ""
    low, high = interval_text("accuracy", found.low, found.high)
    return f" with the teachers' answers, {low} to {high} % without them"


def guessing(facts: RunFacts) -> str:
    """A caution if one constant answer may be as accurate as the saved model; "" otherwise."""
    found = accuracy_of(facts)
    if found is None or facts.model is None:
        return ""
    metrics = facts.runs_of(facts.model.method)[0].metrics
    counts, confusion = metrics["class_counts"], metrics["confusion"]
    most, n = max(counts), sum(counts)
    if most / n < found.low:
        return ""
    name = facts.data.class_names[counts.index(most)]
    right = sum(row[k] for k, row in enumerate(confusion))
    digits = interval_digits("accuracy", found.low, found.high, most / n)
    low, high, share = (
        digits_text("accuracy", one, digits) for one in (found.low, found.high, most / n)
    )
    units = f" from {found.n_groups:,} groups" if found.n_groups else ""
    lies = "includes" if most / n <= found.high else "lies below"
    return (
        f"Always answering {name!r} would be right on {most} of {n} {evaluation_rows(facts)}, and "
        f"this model is right on {right}: it is not shown to be more accurate, because the "
        f"interval{units}, {low} to {high} %, {lies} {share} %."
    )


def accuracy_of(facts: RunFacts, *, alone: bool = False) -> Estimate | None:
    """The accuracy of the saved model with its interval; None if it was not estimated.

    Args:
        facts: Facts of the run.
        alone: Whether to return that on rows without a teacher's answer instead; None if the model
            takes no answers.
    """
    saved = facts.model and (facts.model.alone if alone else facts.model.method)
    found = (one for one in facts.estimates if (one.method, one.metric) == (saved, "accuracy"))
    return next(found, None)


def decision(facts: RunFacts) -> Markup:
    """The top of the page: what to do, why, and how many more labels are needed."""
    outcome = facts.verdict.outcome
    sign = element("span", SIGNS[outcome], aria_hidden="true", class_="sign")
    rows: list[tuple[str, Child]] = [
        ("Why", element("span", why(facts), class_="sentence", dir="auto")),
        ("More labels needed", more_labels(facts)),
    ]
    cautions = [guessing(facts)]
    if facts.audit and facts.audit.giveaways:
        cautions.insert(0, facts.audit.reasons[0])
    rows[1:1] = [("Caution", caution) for caution in cautions if caution]
    if facts.model:
        labels = f", trained with {facts.model.labels:,} labels."
        if facts.model.refitted:
            before = facts.data.labelled + facts.data.validation
            labels = (
                f", retrained on all {facts.model.labels:,} labels after the evaluation; the "
                f"numbers on this page are for the model trained on {before:,}."
            )
        rows.append(("Model", [named(facts.model.method), labels]))
    return element(
        "div",
        element("p", sign, " ", advice(facts), class_="decision"),
        element("dl", ((element("dt", name), element("dd", text)) for name, text in rows)),
        class_=f"verdict {outcome.replace(' ', '-')}",
        id="verdict",
    )


def more_labels(facts: RunFacts) -> str:
    """How many more labels would settle the decision, and how many would halve the interval."""
    outcome, needed = facts.verdict.outcome, facts.verdict.needed
    text, most = "None for this decision.", 0
    if outcome == "no verdict":
        text = "Unknown: the complete case predicts too little to compare with."
    elif outcome == "cannot tell yet" and needed is None:
        text = "No realistic number of labels would settle the comparison."
    elif outcome == "cannot tell yet" and needed is not None:
        main = paired(facts, "brier")
        part = None if main is None else main.needed(facts.verdict.margin or 0.0)
        count = _labels_in_all(facts, needed, part, facts.verdict.needed_groups)
        text, most = f"About {count} would settle the comparison with {baseline(facts)}.", needed
    found = accuracy_of(facts)
    if found is None or found.low == found.high:
        return f"{text}{_short_of(facts, most)}"
    labels, units = HALVED * found.n_labelled, HALVED * (found.n_groups or found.n_labelled)
    in_all, groups = (math.ceil(count / _share(facts)) for count in (labels, units))
    more = _labels_in_all(facts, in_all, units, groups if found.n_groups else None)
    short = _short_of(facts, max(most, in_all))
    return f"{text} About {more} would halve the width of the accuracy interval.{short}"


def _short_of(facts: RunFacts, more: int) -> str:
    """Say that the data has fewer rows than these labels need; "" if it has enough."""
    if facts.taught is not None or _share(facts) == 1:
        return ""  # more gold labels, or a test file of its own
    data = facts.data
    return too_few_rows(data.labelled + data.test + more, data.rows)


def _share(facts: RunFacts) -> float:
    """The share of new labels that would be held out; 1 if only such labels count."""
    return float(facts.settings.get("hold_out", 1.0))


def _labels_in_all(
    facts: RunFacts, count: int, held_out: int | None, groups: int | None = None
) -> str:
    """A number of new labels in words, with how many of them would be held out.

    If they must be of new groups, ``held_out`` is a number of groups too.
    """
    of = f" of {groups:,} new groups" if groups else ""
    if facts.taught is not None:
        return f"{count:,} more gold labels"
    if _share(facts) == 1:
        return f"{count:,} more held-out labels{of}"
    whose = "the groups" if groups else "them"
    part = f" ({held_out:,} of {whose} held out)" if held_out else ""
    return f"{count:,} more labels{of}{part}"

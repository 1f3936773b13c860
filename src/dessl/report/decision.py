"""The decision: which model to use, how good it is, why, and what more labels would gain."""

from dessl.evaluation.metrics.vocabulary import interval_text
from dessl.evaluation.verdict import Outcome
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
HALVED = 3  # three times as many additional labels halve the interval, whose width falls as 1/√n


def advice(facts: RunFacts) -> str:
    """What to do and what to expect, in one line; for several seeds, only what to do."""
    found = accuracy_of(facts)
    start = (OF_ANSWERS if facts.taught else ADVICE)[facts.verdict.outcome]
    if facts.audit and facts.audit.outcome == "do not use it":
        start = f"Read the audit first: it says not to use these data as they are. {start}"
    elif facts.audit and facts.audit.giveaways:
        start = f"Check the audit's finding first: a column may give the label away. {start}"
    if found is None:
        return f"{start}."
    low, high = interval_text("accuracy", found.low, found.high)
    level = f"{100 * found.confidence:g} % interval"
    expected = f"expected accuracy {low} to {high} % ({level}){without_answers(facts)}"
    return f"{start}: {expected}."


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
    return (
        f"Always answering {name!r} would be right on {most} of {n} {evaluation_rows(facts)}, and "
        f"this model is right on {right}: it is not shown to be more accurate."
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
        ("Why", element("span", facts.verdict.sentence, class_="sentence", dir="auto")),
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
    text = "None for this decision."
    if outcome == "no verdict":
        text = "Unknown: there was nothing to compare."
    elif outcome == "cannot tell yet" and needed is None:
        text = "No realistic number of labels would settle the comparison."
    elif outcome == "cannot tell yet":
        of = _of_new(facts.verdict.needed_groups)
        text = f"About {needed:,}{of}, to settle the comparison with {baseline(facts)}."
    found = accuracy_of(facts)
    if found is None or found.low == found.high:
        return text
    labels = "held-out labels" if facts.taught is None else "gold labels"
    of = _of_new(found.n_groups and HALVED * found.n_groups)
    more = f"{HALVED * found.n_labelled:,} more {labels}{of}"
    return f"{text} About {more} would halve the width of the accuracy interval."


def _of_new(groups: int | None) -> str:
    """Of how many groups more labels must be; more of the same groups tell little."""
    return f" of {groups:,} new groups" if groups else ""

"""The audit: whether labels are missing at random, what was found, and what can be gained."""

from dessl.evaluation.verdict import short_p
from dessl.report.html import Child, Markup, element, named, section, table
from dessl.safety import Audit
from dessl.safety.audit import Outcome

OUTCOMES: dict[Outcome, str] = {
    "use it": "better",
    "use it with care": "cannot-tell-yet",
    "do not use it": "worse",
    "no unlabelled rows": "not-used",
}
SIGNS: dict[Outcome, str] = {
    "use it": "✓",
    "use it with care": "?",
    "do not use it": "✗",
    "no unlabelled rows": "–",
}
COPIES = {
    "test_labelled": "test rows equal to a labelled row",
    "near_test": "test rows that nearly equal a labelled row",
    "test_unlabelled": "test rows equal to an unlabelled row",
    "unlabelled": "unlabelled rows equal to a labelled row",
    "near_unlabelled": "unlabelled rows that nearly equal a labelled row",
    "labelled": "labelled rows equal to another labelled row",
    "near_labelled": "labelled rows that nearly equal another labelled row",
    "conflicts": "labelled rows equal to a row with a different label",
}


def audit_section(found: Audit | None) -> Markup | None:
    """The tests, the findings and the possible gains; nothing if there was no audit."""
    if found is None:
        return None
    return section(
        "Audit",
        element("p", found.heading, class_="note"),
        element("ul", (element("li", why, dir="auto") for why in found.reasons))
        if found.reasons
        else None,
        _tests(found),
        element("p", found.exchanged, class_="note") if found.tests and found.groups else None,
        _columns(found),
        _counts(found),
        _doubtful(found),
        _gains(found),
    )


def audit_article(found: Audit) -> Markup:
    """The main part of the audit page."""
    sign = element("span", SIGNS[found.outcome], aria_hidden="true", class_="sign")
    about = f": {found.labelled:,} labelled and {found.unlabelled:,} unlabelled rows."
    return element(
        "article",
        element(
            "div",
            element("p", sign, " ", found.advice, class_="outcome"),
            class_=f"verdict {OUTCOMES[found.outcome]}",
            id="verdict",
        ),
        element("p", named(found.name or "the data"), about, class_="note"),
        audit_section(found),
    )


def _tests(found: Audit) -> Markup | None:
    if not found.unlabelled:
        return None
    if not found.tests:
        return element("p", "There are too few rows to test whether labels are missing at random.")
    rows = (
        (
            one.test,
            short_p(one.p_value),
            short_p(one.corrected),
            element("td", one.finding, class_="prose", dir="auto"),
        )
        for one in found.tests
    )
    headings = ("are labels missing at random?", "p", "corrected p", "finding")
    return table(headings, rows, label="Tests of labels missing at random", class_="facts")


def _columns(found: Audit) -> Markup | None:
    if not found.columns:
        return None
    rows = (
        (
            named(one.name),
            f"{one.auc:.2f}",
            short_p(one.p_value),
            "spread" if one.spread else "location",
        )
        for one in found.columns
    )
    headings = ("column", "AUC of labelled rows", "corrected p", "differs in")
    shown = table(headings, rows, label="Columns that differ most", class_="metrics")
    return element("details", element("summary", "Columns that differ most"), shown)


def _doubtful(found: Audit) -> Markup | None:
    if not found.labels.examples:
        return None
    rows = (
        (named(one.row), named(one.label), named(one.suggested), f"{one.probability:.2f}")
        for one in found.labels.examples
    )
    headings = ("row", "label", "more likely", "its probability")
    words = "Labels that look wrong, the most doubtful first"
    shown = table(headings, rows, label=words, class_="metrics")
    return element("details", element("summary", words), shown)


def _counts(found: Audit) -> Markup | None:
    rows: list[tuple[Child, ...]] = []
    if found.copies is not None:
        counts = vars(found.copies)
        rows += [(words, f"{counts[name]:,}") for name, words in COPIES.items() if counts[name]]
    if found.giveaways:
        rows.append(("columns that match the classes one to one", f"{len(found.giveaways):,}"))
    labels = found.labels
    if labels.doubtful:
        rows.append(("labels that look wrong", f"{labels.doubtful:,}"))
    if labels.absent:
        rows.append(("classes without a label", f"{len(labels.absent):,}"))
    if labels.few:
        rows.append(("classes with fewer than five labels", f"{len(labels.few):,}"))
    if labels.one_class_folds:
        rows.append(("folds of five with one class", f"{labels.one_class_folds}"))
    if not rows:
        return element("p", "No duplicates found, and every class has at least five labels.")
    return table(
        ("duplicates and labels", "count"), rows, label="Duplicates and labels", class_="facts"
    )


def _gains(found: Audit) -> Markup | None:
    if not found.gains:
        return None
    rows = (
        (
            one.term,
            f"{one.correlation:.2f} ({one.low:.2f} to {one.high:.2f})",
            f"{one.variance_ratio:.0%}",
            f"{one.equivalent_labels:,.0f}",
            "yes" if one.worth_it else "no",
        )
        for one in found.gains
    )
    headings = (
        "term H",
        "ρ(L, H), 95 % interval",
        "remaining variance",
        "equivalent labels",
        f"ρ above {found.least_correlation:.2f}",
    )
    return table(headings, rows, label="Possible gains", class_="metrics")

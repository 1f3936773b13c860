"""The page of ``dessl demo``: the result of each part as a sentence, a number and a figure."""

import dataclasses
import json
from collections.abc import Sequence
from typing import Literal, NamedTuple

from dessl._json import json_ready
from dessl.evaluation.metrics.vocabulary import amount, metric_text, written
from dessl.evaluation.verdict import Comparison, shown_p
from dessl.report.chart import IN_PAGE, INK, SERIES, SETTINGS, SOFT, Chart, Look, drawing, legend
from dessl.report.html import Child, Markup, element, figure, named, section, table
from dessl.report.page import whole_page
from dessl.results.trial import TWIN
from dessl.risk import COMPLETE_CASE
from dessl_paper.demo_parts import (
    METRIC,
    Advice,
    DemoFacts,
    Gained,
    Harm,
    Intervals,
    Score,
)

Outcome = Literal["as promised", "not as promised", "cannot tell"]
SIGNS: dict[Outcome, str] = {"as promised": "✓", "not as promised": "✗", "cannot tell": "?"}
TONES: dict[Outcome, str] = {"as promised": "good", "not as promised": "bad", "cannot tell": "open"}
NAMES = {COMPLETE_CASE: TWIN, "ssl": "standard SSL", "debiased": "debiased SSL"}
LOOKS = {COMPLETE_CASE: SERIES[0], "ssl": SERIES[1], "debiased": SERIES[2]}
NEAR = 0.02  # allowed distance from the true posterior for a network of this size
WIDTH = 400  # of a figure
SHOWN_UP_TO = 5.0  # the toy's x goes up to 10, but every curve is 1 beyond this
NEXT = (
    "dessl fit people.csv --label outcome --out runs/people",
    "dessl predict runs/people new.csv --out predictions.csv",
)


class Shown(NamedTuple):
    """One part as the page and the terminal show it.

    Attributes:
        name: A word or two.
        outcome: Whether the result is as the documentation promises.
        big: The number to remember.
        about: What that number is.
        claim: The result, in one or two short sentences.
        details: The same with intervals and comparisons.
    """

    name: str
    outcome: Outcome
    big: str
    about: str
    claim: str
    details: str


def shown_parts(facts: DemoFacts) -> tuple[Shown, ...]:
    """The four parts in order."""
    return (
        shown_harm(facts.harm),
        shown_gain(facts.gain),
        shown_advice(facts.advice),
        shown_interval(facts.intervals),
    )


def shown_harm(found: Harm) -> Shown:
    """Whether debiased SSL is near the true posterior and standard SSL is not."""
    usual, debiased = found.means["ssl"], found.means["debiased"]
    outcome: Outcome = "as promised"
    if abs(debiased - found.truth) > NEAR:
        outcome = "not as promised"
    elif abs(usual - found.truth) <= NEAR:
        outcome = "cannot tell"
    claim = (
        f"Standard SSL turns a true probability of {found.truth:g} into {usual:.2f}. Debiased SSL "
        f"learns {debiased:.2f}."
    )
    details = (
        "Where the two classes overlap, one row in four is of class 1. Standard SSL "
        f"(pseudo-labels) learns {usual:.3f}: it is rewarded for confidence, whether right or "
        "wrong. Debiased SSL, with the same rows, network and draws, learns "
        f"{debiased:.3f}; the labels alone give {found.means[COMPLETE_CASE]:.3f}."
    )
    big = f"{debiased:.2f}, not {usual:.2f}"
    about = f"debiased and standard SSL; the truth is {found.truth:g}"
    return Shown("Harm avoided", outcome, big, about, claim, details)


def shown_gain(found: Gained) -> Shown:
    """Whether dessl fit is significantly better than its complete case."""
    twin, model = found.scores
    values = [written(METRIC, one.value) for one in (model, twin)]
    claim = (
        f"With {found.labelled:,} labels and {found.unlabelled:,} unlabelled digits, dessl fit is "
        f"right on {values[0]} % of new rows; its networks alone are right on {values[1]} %."
    )
    details = (
        f"With default settings, on {found.difference.n:,} test rows, the accuracy is "
        f"{_score(model)}; for networks trained on the labels alone it is {_score(twin)}. The "
        f"difference is {_difference(found.difference)}."
    )
    if found.pool:
        details += f" {found.pool.verdict}"
    big = _points(found.difference)
    about = f"of accuracy, from {values[1]} to {values[0]} %"
    return Shown("Gain made", _outcome(found.difference), big, about, claim, details)


def shown_advice(found: Advice) -> Shown:
    """Whether a teacher that answers at random cost nothing."""
    alone, guarded, _ = found.scores
    ours, believed = found.differences
    lams = _span(found.lam)
    outcome: Outcome = "as promised" if found.same else "cannot tell"
    if ours.clear and not ours.better:
        outcome = "not as promised"
    lost = "nothing is lost" if found.same else f"accuracy changes by {_points(ours)}"
    believing = f"trusting it changes accuracy by {_points(believed)}"
    claim = f"A teacher that answers at random gets λ = {lams}: {lost}, while {believing}."
    same = (
        "so every prediction is bit for bit the same as with the labels alone, with accuracy "
        f"{_score(alone)}"
        if found.same
        else f"and its accuracy is {_score(guarded)}; with the labels alone it is {_score(alone)}, "
        f"a difference of {_difference(ours)}"
    )
    details = (
        "The teacher gives the right answers, but to the wrong rows; its accuracy on the labelled "
        f"rows is {_score(found.teacher)}. dessl gives it λ = {lams} in all {len(found.lam)} "
        f"folds, {same}. Training on its answers as if they were right changes accuracy by "
        f"{_difference(believed)}. For comparison, a teacher that is right on "
        f"{100 * found.right:.0f} % of the rows would get λ = {_span(found.lam_of_right)}."
    )
    about = "the weight of a teacher that answers at random"
    return Shown("Bad advice ignored", outcome, f"λ = {lams}", about, claim, details)


def shown_interval(found: Intervals) -> Shown:
    """Whether the interval from few labels contains the accuracy from all labels."""
    first, n = found.draws[0], len(found.draws)
    inside = first.low <= found.truth <= first.high
    low, high, truth = (written(METRIC, end) for end in (first.low, first.high, found.truth))
    widths = sum(one.high - one.low for one in found.draws)
    alone = sum(one.alone_high - one.alone_low for one in found.draws)
    change = f"{100 * abs(1 - widths / alone):.0f} % {'shorter' if widths < alone else 'longer'}"
    claim = (
        f"{found.labels} test labels give an accuracy of {low} to {high} %; all {found.rows} give "
        f"{truth} %."
    )
    details = (
        f"Suppose only {found.labels} of the {found.rows} test rows had a label. From these and "
        f"the unlabelled rest, dessl computes a {100 * found.confidence:.0f} % interval; the "
        f"accuracy from all labels is {'inside' if inside else 'outside'}. With {n} random choices "
        f"of {found.labels} labels, {found.covered} intervals contain it; "
        f"{found.confidence * n:.0f} are expected. On average they are {change} than intervals "
        "from the labels alone."
    )
    outcome: Outcome = "as promised" if inside else "not as promised"
    big = f"{100 * first.low:.0f}–{100 * first.high:.0f} %"
    about = f"accuracy from {found.labels} labels; all {found.rows} give {truth} %"
    return Shown("Honest numbers", outcome, big, about, claim, details)


def _outcome(one: Comparison) -> Outcome:
    if not one.clear:
        return "cannot tell"
    return "as promised" if one.better else "not as promised"


def _score(one: Score) -> str:
    low, high = (written(METRIC, end) for end in (one.low, one.high))
    return f"{written(METRIC, one.value)} % (95 % interval {low} to {high})"


def _difference(one: Comparison) -> str:
    low, high = (written(METRIC, end, signed=True) for end in (one.low, one.high))
    p = shown_p(one.p_value)
    return f"{_points(one)} (95 % interval {low} to {high}, {p})"


def _points(one: Comparison) -> str:
    return amount(METRIC, one.difference, signed=True)


def _span(lams: Sequence[float]) -> str:
    low, high = f"{min(lams):.2g}", f"{max(lams):.2g}"
    return low if low == high else f"{low} to {high}"


def demo_html(facts: DemoFacts, *, fit_report: str) -> str:
    """Return the page; the same facts give the same page.

    Args:
        facts: What the four parts found.
        fit_report: Path of the second part's report, relative to the page.
    """
    parts = shown_parts(facts)
    with drawing(SETTINGS | IN_PAGE):
        pictures = (
            _harm_picture(facts.harm),
            _scores_picture(facts.gain.scores, (SERIES[0], SERIES[2])),
            _scores_picture(facts.advice.scores, (SERIES[0], SERIES[2], SERIES[1])),
            _interval_picture(facts.intervals),
        )
    link = element("p", element("a", "The whole report of this fit", href=fit_report), ".")
    main = element(
        "main",
        element("p", _lead(facts), class_="lead"),
        element("div", map(_card, parts, range(1, 5)), class_="cards"),
        [
            _section(part, number, drawn, link if number == 2 else None)
            for number, (part, drawn) in enumerate(zip(parts, pictures, strict=True), start=1)
        ],
        _next(),
        _made(facts),
    )
    return whole_page(facts.plan.title, main, facts=json_ready(dataclasses.asdict(facts)))


def _lead(facts: DemoFacts) -> str:
    cut = ""
    if facts.plan.most_steps is not None:
        cut = (
            f" Every training run was limited to {facts.plan.most_steps} steps, to try the "
            "command: the numbers mean nothing."
        )
    return (
        "With few labels and many unlabelled rows, semi-supervised learning can help, and it can "
        "harm. These four small experiments show what dessl does about that. Their settings and "
        f"seed were fixed in advance, and each ✓ is computed from the results.{cut}"
    )


def _card(part: Shown, number: int) -> Markup:
    sign = element("span", SIGNS[part.outcome], aria_hidden="true", class_="sign")
    return element(
        "a",
        element("span", part.name, class_="name"),
        element("span", part.big, class_="big"),
        element("span", unbroken(part.about), class_="about"),
        element("span", sign, " ", part.outcome, class_="outcome"),
        class_=f"card {TONES[part.outcome]}",
        href=f"#part-{number}",
    )


def _section(part: Shown, number: int, drawn: Markup, more: Markup | None) -> Markup:
    text = element(
        "div",
        element("p", unbroken(part.claim), class_="claim"),
        element("p", unbroken(part.details)),
        more,
        class_="text",
    )
    return element(
        "section",
        element("h2", f"{number}. {part.name}"),
        element("div", text, drawn, class_="beside"),
        id=f"part-{number}",
    )


def unbroken(text: str) -> str:
    """Text with a non-breaking space before each percent sign, so that no line begins with one.

    >>> len(unbroken("95 % of 8").split(" "))
    3
    """
    return text.replace(" %", "\u00a0%")


def _harm_picture(found: Harm) -> Markup:
    chart = Chart.of("x", "p(1|x)", width=WIDTH, height=300)
    axes = chart.axes
    axes.axvspan(1, 3, color=SOFT, alpha=0.12, linewidth=0)
    n = sum(x <= SHOWN_UP_TO for x in found.grid)
    axes.plot(found.grid[:n], found.true_curve[:n], color=INK, linewidth=1, linestyle=(0, (2, 3)))
    for risk, curve in found.curves.items():
        look = LOOKS[risk]
        axes.plot(found.grid[:n], curve[:n], color=look.colour, linestyle=look.line)
    axes.set(xlim=(0, SHOWN_UP_TO), ylim=(-0.02, 1.02))
    means = [(NAMES[risk], f"{mean:.3f}") for risk, mean in found.means.items()]
    rows = [("truth", f"{found.truth:g}"), *means]
    described = "; ".join(f"{name}: {value}" for name, value in rows)
    key = {"truth": Look(INK, "", (0, (2, 3)))} | {NAMES[risk]: LOOKS[risk] for risk in NAMES}
    return figure(
        f"What each method learns about class 1, from {found.labelled:,} labelled and "
        f"{found.unlabelled:,} unlabelled points. Shaded: where the classes overlap.",
        chart.svg("Learnt probability of class 1", described),
        legend=legend(key),
        numbers=table(("method", "mean p(1|x) where classes overlap"), rows, label="Posteriors"),
    )


def _scores_picture(scores: Sequence[Score], looks: Sequence[Look]) -> Markup:
    title, left = "Accuracy on the test rows", 170
    height = 64 + 44 * len(scores)
    chart = Chart.of(metric_text(METRIC), "", width=WIDTH, height=height, left=left)
    axes = chart.axes
    for place, (one, look) in enumerate(zip(scores, looks, strict=True)):
        axes.plot([100 * one.low, 100 * one.high], [place] * 2, color=look.colour, linewidth=4)
        axes.plot([100 * one.value], [place], "o", color=look.colour, markersize=9)
        axes.annotate(
            written(METRIC, one.value), (100 * one.value, place), (0, 8),
            textcoords="offset points", ha="center", color=look.colour, weight="bold",
        )  # fmt: skip
        chart.row_label(one.name, place, left)
    axes.set(ylim=(len(scores) - 0.5, -0.5), yticks=[])
    axes.locator_params(axis="x", nbins=6)
    rows = [
        (named(one.name), *(written(METRIC, v) for v in (one.value, one.low, one.high)))
        for one in scores
    ]
    headings = ("model", metric_text(METRIC), "low", "high")
    described = "; ".join(f"{one.name}: {_score(one)}" for one in scores)
    return figure(
        f"{title}, with 95 % intervals.",
        chart.svg(title, described),
        numbers=table(headings, rows, label=title),
    )


def _interval_picture(found: Intervals) -> Markup:
    height = round(64 + 11 * len(found.draws))
    chart = Chart.of(metric_text(METRIC), "", width=WIDTH, height=height, left=24)
    axes = chart.axes
    for place, one in enumerate(found.draws):
        hit = one.low <= found.truth <= one.high
        look = SERIES[2] if hit else SERIES[1]
        axes.plot(
            [100 * one.low, 100 * one.high], [place] * 2, color=look.colour,
            linewidth=4 if place == 0 else 2, linestyle="-" if hit else (0, (3, 1.5)),
        )  # fmt: skip
        axes.plot([100 * one.value], [place], "o", color=look.colour, markersize=5)
    axes.axvline(100 * found.truth, color=INK, linewidth=1, linestyle=(0, (2, 3)))
    axes.set(ylim=(len(found.draws), -1), yticks=[])
    rows = [
        (str(number), *(written(METRIC, v) for v in (one.value, one.low, one.high, one.alone_low,
                                                     one.alone_high)))
        for number, one in enumerate(found.draws, start=1)
    ]  # fmt: skip
    headings = ("choice", "estimate, %", "low", "high", "low, labels alone", "high, labels alone")
    caption = (
        f"Each line is the interval from one random choice of {found.labels} labels; the first, "
        f"thick one is quoted in the text. Dotted: the accuracy from all {found.rows} labels; "
        "dashed intervals miss it."
    )
    described = f"{found.covered} of {len(found.draws)} intervals contain the accuracy"
    return figure(
        caption,
        chart.svg("Intervals from few labels", described),
        numbers=table(headings, rows, label="Intervals"),
    )


def _next() -> Markup:
    return section(
        "Now on your own data",
        element("p", "Two commands take you from a table or a folder of images to predictions:"),
        element("pre", element("code", "\n".join(NEXT)), tabindex=0),
    )


def _made(facts: DemoFacts) -> Markup:
    plan = dataclasses.asdict(facts.plan)
    rows: list[tuple[Child, ...]] = [
        (name, json.dumps(value, ensure_ascii=False))
        for name, value in plan.items()
        if name not in ("title", "notes") and value is not None
    ]
    rows += [(named(name), named(str(value))) for name, value in facts.made_with.items()]
    rows += [
        (f"seconds, {name}", f"{value:.1f} ({facts.processor_seconds[name]:.1f} of one core)")
        for name, value in facts.seconds.items()
    ]
    return section(
        "How it was made",
        [element("p", note, class_="note") for note in facts.plan.notes],
        [element("p", f"Warning: {line}", class_="note") for line in facts.warnings],
        element("pre", element("code", facts.command), tabindex=0),
        element(
            "details",
            element("summary", "Settings, versions and times"),
            table(("setting", "value"), rows, label="Settings", class_="facts"),
            class_="settings",
        ),
    )


def demo_lines(facts: DemoFacts) -> list[str]:
    """What the terminal shows: a line for each part."""
    return [
        f"{SIGNS[part.outcome]} {part.name} ({part.outcome}): {part.claim}"
        for part in shown_parts(facts)
    ]

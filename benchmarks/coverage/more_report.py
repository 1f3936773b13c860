"""The tables of benchmarks/coverage/more.py."""

from collections.abc import Callable
from typing import Any

Record = dict[str, Any]
TOLERANCE = 0.015


def percent(value: float, error: float | None = None) -> str:
    """A share in percent, bold if it is near what it is compared with."""
    return f"{100 * value:.1f}" + ("" if error is None else f" ± {100 * error:.1f}")


def covered(record: Record) -> str:
    """Coverage with its Monte-Carlo standard error; bold within 1.5 points of nominal."""
    words = percent(record["coverage"], record["coverage_error"])
    near = abs(record["coverage"] - record["confidence"]) <= TOLERANCE
    return f"**{words}**" if near else words


def near_nominal(records: list[Record]) -> str:
    """How many cells are within 1.5 points of nominal, and how many are surely farther below."""
    near = sum(abs(r["coverage"] - r["confidence"]) <= TOLERANCE for r in records)
    low = sum(
        r["coverage"] + 2 * r["coverage_error"] < r["confidence"] - TOLERANCE for r in records
    )
    return (
        f"Within 1.5 points of nominal in {near} of {len(records)} cells; more than 1.5 points "
        f"below it, by more than two Monte-Carlo errors, in {low}."
    )


def table(heads: tuple[str, ...], rows: list[list[str]]) -> list[str]:
    """A table in markdown."""
    lines = ["| " + " | ".join(cells) + " |" for cells in (list(heads), *rows)]
    return [lines[0], "|" + "---|" * len(heads), *lines[1:]]


def intervals(records: list[Record], more: dict[str, Callable[[Record], str]]) -> list[str]:
    """One row a cell: coverage at both confidences, width at 95 %, and further columns."""
    cells: dict[tuple[Any, ...], list[Record]] = {}
    for r in records:
        place = (r["kind"], r["population"], r["what"], r["labels"], r.get("interval", ""))
        cells.setdefault(place, []).append(r)
    several = len({r["kind"] for r in records}) > 1
    named = any(place[4] for place in cells)
    rows = []
    for (kind, population, what, labels, interval), found in cells.items():
        rows.append(
            [
                *([kind] if several else []),
                f"{population} ({found[0]['truth']:.3f})",
                what,
                str(labels),
                *([interval] if named else []),
                *(covered(r) for r in found),
                f"{found[-1]['width']:.3f}",
                *(show(found[-1]) for show in more.values()),
            ]
        )
    heads = (
        *(["labels drawn"] if several else []),
        "population (truth)",
        "metric",
        "m",
        *(["interval"] if named else []),
        "coverage, 90 %",
        "coverage, 95 %",
        "width",
    )
    return [near_nominal(records), "", *table((*heads, *more), rows)]


def ratio_to_labels(record: Record) -> str:
    """The width beside that of the labelled rows alone."""
    return f"{record['width'] / record['labelled_only_width']:.2f}"


def section(title: str, text: str, lines: list[str]) -> list[str]:
    """A heading, what it shows, and its table."""
    return ["", f"## {title}", "", text, "", *lines] if lines else []


def runs_of(records: list[Record]) -> str:
    """The number of replications of some cells."""
    least, most = (pick(r["replications"] for r in records) for pick in (min, max))
    return (
        f"{least} replications a cell."
        if least == most
        else f"{least} to {most} replications a cell."
    )


def markdown(report: dict[str, Any]) -> str:
    """All tables."""
    facts = ", ".join(f"{name} {value}" for name, value in report["machine"].items())
    results: list[Record] = report["results"]

    def some(*kinds: str) -> list[Record]:
        return [r for r in results if r["kind"] in kinds]

    runs = sorted({r["replications"] for r in results})
    lines = [
        "# Coverage beyond accuracy and Brier score",
        "",
        f"{runs[0]} to {runs[-1]} replications a cell, {report['unlabelled']} unlabelled rows "
        f"(designs: 4,000 rows in all). {facts}.",
        "",
        "Coverage in % ± its Monte-Carlo standard error; bold: within 1.5 points of nominal.",
    ]
    if found := some("capped"):
        text = f"Each row's cross-entropy is capped at {report['clip']:.2f} = −log 0.01."
        lines += section("Cross-entropy, capped", f"{text} {runs_of(found)}", intervals(found, {}))
    if found := some("few"):
        text = "Student's t for the quantile where unlabelled rows are used."
        lines += section(
            "Accuracy from 20 and 30 labels", f"{text} {runs_of(found)}", intervals(found, {})
        )
    if found := some("rate"):
        more = {"width / labelled only": ratio_to_labels}
        text = "Recall, precision and rates are of class 1; tpr at a threshold of 0.3."
        lines += section("Rates", f"{text} {runs_of(found)}", intervals(found, more))
    if found := some("stratified", "active", "class-balanced"):
        more = {
            "effective labels": lambda r: f"{r['effective_labels']:.0f}",
            "not told of it": lambda r: percent(r["naive_coverage"]),
        }
        text = "With propensities or strata; the last column is coverage at 95 % without them."
        lines += section(
            "Labels drawn by design", f"{text} {runs_of(found)}", intervals(found, more)
        )
    if found := some("compared"):
        more = {"width / labelled only": ratio_to_labels}
        text = "A model and one with noisier logits."
        lines += section(
            "Differences of two models", f"{text} {runs_of(found)}", intervals(found, more)
        )
    if found := some("compared, active", "compared, avoiding"):
        more = {"effective labels": lambda r: f"{r['effective_labels']:.0f}"}
        text = (
            "The same models; rows of which the first is unsure are labelled up to five times as "
            "often as others (active), or up to eleven times less often (avoiding)."
        )
        lines += section(
            "Differences of two models, labels drawn by design",
            f"{text} {runs_of(found)}",
            intervals(found, more),
        )
    if found := some("peers"):
        text = "The same draws; bounds are cut to the metric's range."
        lines += section("Peers", f"{text} {runs_of(found)}", intervals(found, {}))
    if found := some("ece"):
        lines += section("Calibration error", f"{ECE} {runs_of(found)}", _ece(found))
    if found := some("shift"):
        lines += section("The warning of a shift", f"{SHIFT} {runs_of(found)}", _shifts(found))
    if found := some("sets"):
        lines += section("Prediction sets, nominal 90 %", f"{SETS} {runs_of(found)}", _sets(found))
    return "\n".join(lines) + "\n"


SHIFT = (
    "How often it comes (p < 0.01), how often p < 0.05, and how often the accuracy's 95 % interval "
    "then holds the unlabelled rows' accuracy. Classes: the first one has a quarter of its rows; "
    "hard and easy rows: up to eleven times as likely, or as unlikely, as the others."
)
SETS = (
    "Mean coverage of the sets of new rows, its standard deviation over draws of the labels, how "
    "often it is below 85 %, and the mean number of classes in a set."
)


ECE = (
    "Mean estimate beside the truth in as many bins; the mean estimate that a calibrated model "
    "would have, as each result tells it; and the plug-in estimate's mean."
)


def _ece(records: list[Record]) -> list[str]:
    rows = [
        [
            r["population"], str(r["labels"]), f"{r['truth']:.3f}",
            f"{r['value']:.3f} ± {r['value_error']:.3f}", f"{r['if_calibrated']:.3f}",
            f"{r['plug_in']:.3f}", covered(r),
        ]
        for r in records
    ]  # fmt: skip
    heads = (
        "population", "m", "truth", "mean estimate", "told of a calibrated model", "plug-in",
        "coverage, 95 %",
    )  # fmt: skip
    return table(heads, rows)


def _shifts(records: list[Record]) -> list[str]:
    rows = [
        [
            r["population"], r["what"], str(r["labels"]), percent(r["warned"]),
            percent(r["below_5_percent"]), percent(r["coverage"]),
        ]
        for r in records
    ]  # fmt: skip
    heads = ("population", "shift", "m", "warned, %", "p < 0.05, %", "coverage, %")
    return table(heads, rows) if rows else []


def _sets(records: list[Record]) -> list[str]:
    rows = [
        [
            r["population"], r["what"], str(r["labels"]), covered(r), percent(r["coverage_spread"]),
            percent(r["below_85"]), f"{r['width']:.2f}",
        ]
        for r in records
    ]  # fmt: skip
    heads = ("population", "rule", "m", "coverage, %", "its spread", "below 85 %, %", "classes")
    return table(heads, rows) if rows else []

"""The table of benchmarks/surrogates.py: means over seeds, and differences to the complete case."""

from collections.abc import Sequence
from typing import Any

from dessl.evaluation import mean_interval, paired_t_test

MEASURES = {"accuracy": "accuracy, %", "cross_entropy": "cross-entropy", "ece": "ECE, %"}
PERCENT = {"accuracy": 100.0, "cross_entropy": 1.0, "ece": 100.0}
HIGHER_IS_BETTER = {"accuracy": True, "cross_entropy": False, "ece": False}


def values(results: Sequence[dict[str, Any]], measure: str, **which: str) -> list[float]:
    """One value per seed, in the order of the seeds, of the matching runs."""
    found = [r for r in results if all(r[key] == value for key, value in which.items())]
    return [PERCENT[measure] * r[measure] for r in sorted(found, key=lambda r: r["seed"])]


def cell(ours: list[float], reference: list[float] | None, measure: str) -> str:
    """Mean, and the paired difference ± its 95 % half-width; bold where the interval excludes 0."""
    digits = 2 if measure == "cross_entropy" else 1
    mean = mean_interval(ours)
    if reference is None:
        return f"{mean.mean:.{digits}f} ± {mean.half_width:.{digits}f}"
    test = paired_t_test(ours, reference)
    half = (test.high - test.low) / 2
    text = f"{test.difference:+.{digits}f} ± {half:.{digits}f}"
    if test.low > 0 or test.high < 0:
        better = (test.difference > 0) == HIGHER_IS_BETTER[measure]
        text = f"**{text}** {'better' if better else 'worse'}"
    return f"{mean.mean:.{digits}f} ({text})"


def table(results: Sequence[dict[str, Any]], machine: dict[str, Any]) -> str:
    """Return a Markdown page."""
    seeds = len({r["seed"] for r in results})
    lines = [
        f"scikit-learn's digits, 100 labels (20 of them for validation), {seeds} seeds. Means over",
        "seeds; in brackets the difference to the complete case with the same views of the same",
        "labels, ± half of its 95 % t-interval, paired over seeds; bold where that excludes zero.",
        f"One core of {machine['cpus']}, Python {machine['python']}, torch {machine['torch']},",
        f"{machine['seconds']} s in all.",
        "",
        "| method | λ | views of L | risk | " + " | ".join(MEASURES.values()) + " |",
        "|---|---|---|---|" + "---|" * len(MEASURES),
    ]
    rows = dict.fromkeys((r["method"], r["lam"], r["views"], r["risk"]) for r in results)
    for method, lam, views, risk in rows:
        which = {"method": method, "views": views, "risk": risk}
        cells = []
        for measure in MEASURES:
            reference = values(results, measure, method="complete_case", views=views)
            alone = method == "complete_case"
            ours = values(results, measure, **which)
            cells.append(cell(ours, None if alone else reference, measure))
        shown = "complete case" if method == "complete_case" else f"`{method}`"
        lines.append(f"| {shown} | {lam:g} | {views} | {risk} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"

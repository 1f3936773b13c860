"""The table of peers.py: means over seeds, and each method against its own complete case."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dessl.evaluation import paired_t_test

TWINS = {
    "DeSSL": "DeSSL complete case",
    "DeSSL, images": "DeSSL complete case, images",
    "DeSSL usual SSL, λ = 1": "DeSSL complete case",
    "DeSSL debiased, λ = 1": "DeSSL complete case",
    "MLP self-training": "MLP complete case",
    "logistic self-training": "logistic complete case",
}
MEASURES = ("accuracy", "log_loss", "brier", "ece", "seconds")


def table(found: Sequence[Mapping[str, Any]], machine: Mapping[str, Any]) -> str:
    """Return the results as Markdown."""
    facts = ", ".join(f"{key} {value}" for key, value in machine.items())
    lines = [
        "Means over seeds. In the last two columns each method is compared, seed by seed, with",
        "the same classifier fitted on the labelled rows alone: on how many seeds its log loss is",
        "worse, and the two-sided p of a paired t-test of the log losses (+ worse, − better).",
        "Seconds are of one core of a machine that was busy with other work too.",
        "",
        facts + ".",
    ]
    for task in dict.fromkeys(row["task"] for row in found):
        lines += ["", f"## {task}", "", *_task([row for row in found if row["task"] == task])]
    return "\n".join(lines) + "\n"


def _task(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    of = {
        method: {m: np.array([r[m] for r in rows if r["method"] == method]) for m in MEASURES}
        for method in dict.fromkeys(row["method"] for row in rows)
    }
    lines = [
        "| method | accuracy | log loss | Brier | ECE | seconds | worse on | paired p |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for method, values in of.items():
        means = [float(values[m].mean()) for m in MEASURES]
        cells = [*(f"{mean:.3f}" for mean in means[:4]), f"{means[4]:.1f}", *_against(method, of)]
        lines.append(f"| {method} | {' | '.join(cells)} |")
    lines += ["", "Ours less each peer, with the p of a paired t-test:", ""]
    for ours in (name for name in ("DeSSL", "DeSSL, images") if name in of):
        for peer in (name for name in of if not name.startswith("DeSSL")):
            parts = [_difference(of[ours][m], of[peer][m]) for m in ("log_loss", "ece")]
            lines.append(f"- {ours} less {peer}: log loss {parts[0]}; ECE {parts[1]}")
    return lines


def _against(method: str, of: Mapping[str, Mapping[str, Any]]) -> tuple[str, str]:
    if method not in TWINS:
        return "", ""
    ours, twin = of[method]["log_loss"], of[TWINS[method]]["log_loss"]
    worse = int((ours > twin + 1e-12).sum())
    test = paired_t_test(ours, twin)
    sign = "+" if test.difference > 0 else "−" if test.difference < 0 else ""
    return f"{worse} of {len(ours)}", f"{sign}{test.p_value:.3f}"


def _difference(ours: Any, peer: Any) -> str:
    test = paired_t_test(ours, peer)
    return f"{test.difference:+.3f} (p = {test.p_value:.3f})"

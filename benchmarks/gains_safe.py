"""Which pools a check on held-out labels would drop, and whether it would be right.

Reads cells that gains.py measured without the check (``safe=False``). A pool is dropped if the
interval of its held-out cross-entropy minus that of its networks alone lies above zero.

    PYTHONPATH=src python benchmarks/gains_safe.py --cells CELLS
"""

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dessl._files import write_whole
from dessl.recipes.held_out import loss_comparison
from gains_report import read_cells

LEVELS = (0.9, 0.95, 0.99, 0.999)
USUAL = 0.95
RESULTS = Path(__file__).parent / "results" / "gains_safe.json"


def dropped(cell: Mapping[str, Any]) -> dict[str, Any] | None:
    """The pool of a cell, the levels at which it is dropped, and how it did on the test rows."""
    ours, networks = (cell["methods"][name] for name in ("dessl", "complete case"))
    if not (report := ours.get("report")):
        return None
    gain = report["total"]
    levels = [
        level
        for level in LEVELS
        if loss_comparison(
            "the pool", -gain["mean"], gain["standard_error"], report["n"], level
        ).outcome(margin=0) == "worse"
    ]  # fmt: skip
    return {
        "set": cell["set"], "labels": cell["labelled"], "draw": cell["seed"], "levels": levels,
        "held out": -gain["mean"], "test": ours["log_loss"] - networks["log_loss"],
    }  # fmt: skip


def table(found: Sequence[Mapping[str, Any]]) -> str:
    """How many pools each level drops, and how many of these were better on the test rows."""
    lines = [f"# Checking a pool on held-out labels\n\n{len(found)} pools.\n"]
    lines += ["| confidence, % | dropped | of these better on test rows | worst on test rows |"]
    lines += ["|---:|---:|---:|---:|"]
    for level in LEVELS:
        tests = [one["test"] for one in found if level in one["levels"]]
        better, worst = sum(test < 0 for test in tests), max(tests, default=float("nan"))
        lines += [f"| {100 * level:g} | {len(tests)} | {better} | {worst:+.4f} |"]
    usual = [one["test"] for one in found if USUAL in one["levels"]]
    lines += [
        f"\nAt {100 * USUAL:g} %, the check would have dropped {len(usual)} of {len(found)} pools; "
        f"{sum(test < 0 for test in usual)} of these were better on the test rows."
    ]
    worse = [one["test"] for one in found if one["test"] > 0]
    lines += [f"\nWorse on test rows: {len(worse)} pools, by at most {max(worse):.3f} nats."]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write ``gains_safe.json``, with the pools that some level drops, and ``gains_safe.md``."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--cells", type=Path, required=True)
    found = [one for cell in read_cells(parser.parse_args().cells) if (one := dropped(cell))]
    text = table(found)
    print(text)
    write_whole(RESULTS, json.dumps([one for one in found if one["levels"]], indent=1) + "\n")
    write_whole(RESULTS.with_suffix(".md"), text)


if __name__ == "__main__":
    main()

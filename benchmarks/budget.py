"""How much of each experiment's budget in the paper was run: runs, splits and steps.

Counts the records in results/ against the experiments at profile ``paper``, writes
results/budget.json, and the same numbers into the first table of docs/reproduction.md, whose last
column is written by hand.

    PYTHONPATH=src python benchmarks/budget.py
"""

import json
import re
import statistics
from pathlib import Path
from typing import Any

from dessl_paper.catalogue import experiment_names, load_experiment
from dessl_paper.specification import cells_of

ROOT = Path(__file__).parents[1]
PAGE, FILE = ROOT / "docs" / "reproduction.md", ROOT / "results" / "budget.json"
ROW = re.compile(r"^\| \[?([\w-]+)\]?[^|]* \| ([^|]*) \| ([^|]*) \| ([^|]*) \|", re.MULTILINE)


def share_of(name: str) -> dict[str, Any]:
    """What was run of an experiment, in the folder of results that has its name."""
    paper = load_experiment(name, "paper")
    cells = {cell.key: cell for cell in cells_of(paper)}
    files = sorted((ROOT / "results" / name / "runs").glob("*.json"))
    found = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    shares = [
        one["training"]["steps"] / _steps(paper, cells[one["key"]]) if paper.kind != "toy" else 1.0
        for one in found
    ]
    share = 100 * statistics.median(shares) if shares else None
    return {
        "experiment": name,
        "runs": len(found),
        "runs of the paper": len(cells),
        "splits": len({one["seed"] for one in found}),
        "splits of the paper": paper.seeds,
        "steps of a run, %": None if share is None else float(f"{share:.2g}"),
    }


def _steps(paper: Any, cell: Any) -> int:
    labels = cell.data.labels - cell.data.validation
    steps: int = cell.plan(paper).total_steps(labels)
    return steps


def cells_for(share: dict[str, Any]) -> tuple[str, str, str]:
    """The three cells of the table's row."""
    steps = share["steps of a run, %"]
    said = "–" if steps is None else "all" if steps == 100 else f"{steps:g} %"
    runs = f"{share['runs']} of {share['runs of the paper']}"
    return runs, f"{share['splits']} of {share['splits of the paper']}", said


def with_cells(text: str, shares: list[dict[str, Any]]) -> str:
    """The page with these numbers in its first table; a remark after "all" is kept."""
    head, rest = text.split("## At a glance", 1)
    section, tail = rest.split("\n## ", 1)
    known = {share["experiment"]: cells_for(share) for share in shares}

    def row(match: "re.Match[str]") -> str:
        if match[1] not in known:
            return match[0]
        runs, splits, steps = known[match[1]]
        steps = match[4] if steps == "all" and match[4].startswith("all") else steps
        start = match[0][: match.start(2) - match.start()]
        return f"{start}{runs} | {splits} | {steps} |"

    return f"{head}## At a glance{ROW.sub(row, section)}\n## {tail}"


def main() -> None:
    """Write the file and the page."""
    shares = [share_of(name) for name in experiment_names()]
    FILE.write_text(json.dumps(shares, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(with_cells(PAGE.read_text(encoding="utf-8"), shares), encoding="utf-8")


if __name__ == "__main__":
    main()

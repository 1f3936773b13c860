"""The counts that docs/reliability.md shows, added to as the bench runs.

python tests/torture/counts.py [FILE ...]

adds the counts of these files, which parts of the bench wrote elsewhere (many.py), and writes the
tables of the page again.
"""

import json
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "torture.json"
PAGE = ROOT / "docs" / "reliability.md"
ALL = "all"
MOST = "most "  # how counts begin that are not added up
COLUMNS = {
    "fuzz": ("inputs", "accepted", "accepted %", "refused", "failed"),
    "kills": (
        "kills",
        "SIGKILL",
        "SIGINT",
        "SIGTERM",
        "finished bit-identical",
        "failed",
        "most ms after a signal",
        "most % of memory",
    ),
    "harm": ("cases", "failed"),
    "starts": ("signals", "one line", "Python not ready", "finished before", "failed"),
}
FIRST = {"fuzz": "format", "kills": "command", "harm": "harm", "starts": "command"}


def add_counts(part: str, counts: Mapping[str, Mapping[str, float]], into: Path = RESULTS) -> None:
    """Add counts to those of a part of the bench; of what is called the most, keep the larger."""
    found: dict[str, Any] = json.loads(into.read_text()) if into.exists() else {}
    own = found.setdefault(part, {})
    own.pop(ALL, None)
    for name, its in counts.items():
        if name != ALL:
            entries = own.setdefault(name, {})
            for key, count in its.items():
                entries[key] = _together(key, (entries.get(key, 0), count))
    keys = sorted({key for entries in own.values() for key in entries})
    own[ALL] = {
        key: _together(key, [entries.get(key, 0) for entries in own.values()]) for key in keys
    }
    for entries in own.values():
        for column in COLUMNS[part]:
            entries.setdefault(column, 0)
        if entries.get("inputs"):
            entries["accepted %"] = round(100 * entries["accepted"] / entries["inputs"], 1)
    temporary = into.with_suffix(".new")
    temporary.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    temporary.replace(into)


def _together(key: str, values: Iterable[float]) -> float:
    return max(values) if key.startswith(MOST) else sum(values)


def add_file(path: Path, into: Path = RESULTS) -> None:
    """Add the counts of a file that a part of the bench wrote."""
    for part, counts in json.loads(path.read_text(encoding="utf-8")).items():
        add_counts(part, counts, into)


def table(part: str, entries: Mapping[str, Mapping[str, float]]) -> str:
    """Counts as Markdown, the sum last."""
    columns = COLUMNS[part]
    lines = [
        f"| {' | '.join((FIRST[part], *columns))} |",
        f"|---|{'---:|' * len(columns)}",
    ]
    for name in [*sorted(set(entries) - {ALL}), ALL]:
        cells = (_cell(column, entries[name].get(column, 0)) for column in columns)
        lines.append(f"| {' | '.join((name, *cells))} |")
    return "\n".join(lines)


def _cell(column: str, count: float) -> str:
    return "–" if column.startswith(MOST) and not count else f"{count:,}"  # not measured


def page_with_tables(page: str) -> str:
    """The page with the tables of the present counts."""
    found = json.loads(RESULTS.read_text(encoding="utf-8"))
    for part, entries in found.items():
        begin, end = f"<!-- {part} -->", f"<!-- end of {part} -->"
        block = f"{begin}\n\n{table(part, entries)}\n\n{end}"
        page = re.sub(f"{begin}.*?{end}", lambda _, block=block: block, page, flags=re.DOTALL)  # type: ignore[misc]
    return page


if __name__ == "__main__":
    for file in sys.argv[1:]:
        add_file(Path(file))
    PAGE.write_text(page_with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")

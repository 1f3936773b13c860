"""The counts that docs/reliability.md quotes, added to as the bench runs."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "torture.json"


def add_counts(part: str, counts: Mapping[str, Mapping[str, int]]) -> None:
    """Add counts to those of a part of the bench."""
    found: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    own = found.setdefault(part, {})
    for name, its in counts.items():
        entries = own.setdefault(name, {})
        for key, count in its.items():
            entries[key] = entries.get(key, 0) + count
    ordered = {
        key: {name: found[key][name] for name in sorted(found[key])} for key in sorted(found)
    }
    temporary = RESULTS.with_suffix(".new")
    temporary.write_text(json.dumps(ordered, indent=1) + "\n", encoding="utf-8")
    temporary.replace(RESULTS)

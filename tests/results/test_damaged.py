import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dessl.results.facts import RunFacts, write_facts


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda entries: entries.update(methods=[]), "0 methods and 6 runs"),
        (lambda entries: entries.update(runs=[]), "3 methods and 0 runs"),
        (lambda entries: entries["methods"].pop(), "method 'DePseudoLabel', which is not one of"),
        (lambda entries: entries["methods"][1].update(lam=None), "methods[1].lam"),
        (lambda entries: entries["runs"][0]["history"][0].pop("loss"), "'loss'"),
        (lambda entries: entries["runs"][0]["metrics"].update(ece="abc"), "runs[0].metrics.ece"),
        (lambda entries: entries["runs"][0]["metrics"].update(ece=[]), "cannot be shown"),
    ],
)
def test_damaged_facts_are_named(
    small_facts: Callable[..., RunFacts],
    tmp_path: Path,
    cli: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[dict[str, Any]], object],
    complaint: str,
) -> None:
    write_facts(tmp_path, small_facts())
    monkeypatch.setenv("COLUMNS", "1000")
    file = tmp_path / "facts.json"
    entries = json.loads(file.read_text(encoding="utf-8"))
    change(entries)
    file.write_text(json.dumps(entries), encoding="utf-8")
    code, _, error = cli("report", tmp_path)
    said = " ".join(error.split())
    assert code == 2
    assert f"{tmp_path / 'facts.json'}: expected" in said
    assert complaint in said
    assert not (tmp_path / "report.html").exists()

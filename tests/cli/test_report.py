"""``dessl report`` on runs that are there, and on folders that it cannot report on."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.test_bad_input import refused

from dessl.results.facts import RunFacts

FIT = Path(__file__).parents[1] / "corpus" / "0.1.0.dev0" / "fit"
Cli = Callable[..., tuple[int, str, str]]


def test_report_refuses_a_folder_without_facts(cli: Cli, tmp_path: Path) -> None:
    refused(cli("report", tmp_path), "got no facts.json")


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Path, list[str]]]:
    """Where pages were written, and of which runs; drawing them is tested elsewhere."""
    pages: list[tuple[Path, list[str]]] = []

    def noted(place: Path, facts: list[RunFacts], names: list[str]) -> None:
        assert len(facts) == len(names)
        pages.append((place, names))

    monkeypatch.setattr("dessl.report.page.write_report", noted)
    return pages


def test_a_run_has_its_page_in_its_folder(cli: Cli, written: list[tuple[Path, list[str]]]) -> None:
    sentence = json.loads((FIT / "facts.json").read_text(encoding="utf-8"))["verdict"]["sentence"]
    code, out, err = cli("report", FIT)
    assert code == 0, err
    assert out.startswith(f"{FIT}: ")
    assert sentence in out
    assert out.splitlines()[-1] == f"Report: {FIT / 'report.html'}"
    found = json.loads(cli("report", FIT, "--json")[1])
    assert found == {"report": str(FIT / "report.html"), "verdicts": [sentence]}
    assert written == [(FIT / "report.html", [str(FIT)])] * 2


def test_several_runs_need_a_file(
    cli: Cli, tmp_path: Path, written: list[tuple[Path, list[str]]]
) -> None:
    refused(cli("report", FIT, FIT), "needs an output file. Pass --out FILE.html")
    code, _, err = cli("report", FIT, FIT, "--out", tmp_path / "both.html")
    assert code == 0, err
    assert written == [(tmp_path / "both.html", [str(FIT)] * 2)]


@pytest.mark.parametrize(
    ("mark", "arguments", "says"),
    [
        ("demo.json", ("--out", "x.html"), "always its own report.html"),
        ("demo.json", (FIT,), "always its own report.html"),
        ("experiment.json", ("--out", "x.html"), "several files in its own folder; got --out"),
        ("experiment.json", (FIT,), "cannot be combined with runs of dessl fit"),
    ],
)
def test_reports_of_other_commands_stay_in_their_folders(
    cli: Cli, tmp_path: Path, mark: str, arguments: tuple[object, ...], says: str
) -> None:
    (tmp_path / mark).write_text("{}")
    refused(cli("report", tmp_path, *arguments), says)
    assert [path.name for path in tmp_path.iterdir()] == [mark]

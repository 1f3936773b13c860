"""``dessl audit`` and ``dessl plan`` on files."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dessl.cli.main import main


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    generator = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("audit") / "people.csv"
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("age", "pulse", "sick"))
        for row in range(300):
            age, pulse = generator.normal(50, 10), generator.normal(70, 8)
            sick = "yes" if age + generator.normal(0, 5) > 50 else "no"
            writer.writerow((f"{age:.3f}", f"{pulse:.3f}", sick if row < 60 else ""))
    return path


def run(*arguments: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code in (0, None)


def test_an_audit_as_text_json_and_a_page(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "audit.html"
    run("audit", str(table), "--label", "sick", "--out", str(page))
    text = capsys.readouterr().out
    assert text.startswith(("Use it", "Do not"))
    assert "Are labels missing at random?" in text
    assert "people" in page.read_text(encoding="utf-8")
    run("audit", str(table), "--label", "sick", "--json", "--cheap")
    found = json.loads(capsys.readouterr().out)
    assert found["labelled"] == 60
    assert len(found["tests"]) == 2
    assert found["gains"] == []


def test_a_test_file_is_looked_through_for_copies(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copied = tmp_path / "test.csv"
    copied.write_text("".join(table.read_text().splitlines(keepends=True)[:6]))
    run("audit", str(table), "--label", "sick", "--json", "--cheap", "--test-file", str(copied))
    found = json.loads(capsys.readouterr().out)
    assert found["copies"]["test_labelled"] == 5
    assert found["outcome"] == "do not use it"


def test_a_plan_and_rows_to_label(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "next.csv"
    run("plan", str(table), "--label", "sick", "--width", "0.03", "--rows", "25", "--out", str(out))
    text = capsys.readouterr().out
    assert "labels are needed for accuracy within ± 0.03" in text
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert len(rows) == 300
    assert sum(row["label_next"] == "yes" for row in rows) == 25
    assert all(0 < float(row["propensity"]) <= 1 for row in rows)
    assert sum(float(row["propensity"]) for row in rows[60:]) == pytest.approx(25, abs=1e-4)


def test_rows_to_label_have_no_formulas(tmp_path: Path) -> None:
    for place, level in (("=1+1", 20), ("b", 200), ("unlabelled", 90)):
        (tmp_path / "images" / place).mkdir(parents=True)
        for k in range(12):
            image = Image.new("L", (8, 8), level + k)
            image.save(tmp_path / "images" / place / f"{k}.png")
    run("plan", str(tmp_path / "images"), "--rows", "2", "--out", str(tmp_path / "next.csv"))
    lines = (tmp_path / "next.csv").read_text().splitlines()
    assert lines[1].startswith("'=1+1/0.png,")
    assert not any(line.startswith("=") for line in lines)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("plan", "--label", "sick"), "nothing to plan. Pass --width"),
        (("plan", "--label", "sick", "--rows", "5"), "--rows needs --out"),
        (("plan", "--label", "sick", "--width", "1", "--difference", "1"), "cannot be combined"),
        (("audit", "--label", "sick", "--out", "x.pdf"), "must be an .html file"),
    ],
)
def test_bad_options_are_said_in_a_line(
    table: Path,
    arguments: tuple[str, ...],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        main((arguments[0], str(table), *arguments[1:]))
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_a_run_weighs_labels_by_a_column_and_says_what_the_audit_found(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, out = tmp_path / "weighed.csv", tmp_path / "run"
    head, *lines = table.read_text().splitlines()
    weighed = [f"{line},0.{2 + row % 5}" for row, line in enumerate(lines)]
    path.write_text("\n".join([f"{head},chance", *weighed]))
    few = ("--surrogate", "entropy", "--lam", "0.5", "--steps", "5", "--networks", "1")
    run("fit", str(path), "--label", "sick", "--out", str(out), "--propensity", "chance", *few)
    said = capsys.readouterr()
    assert "effective sample size" in said.err
    assert "weight the held-out labels by 1/π" in " ".join(said.err.split())
    assert "Audit:" in said.out
    facts = json.loads((out / "facts.json").read_text())
    assert facts["data"]["feature_names"] == ["age", "pulse"]
    assert facts["audit"]["outcome"]
    assert "are labels missing at random?" in (out / "report.html").read_text(encoding="utf-8")
    with pytest.raises(SystemExit):
        main(("fit", str(path), "--label", "sick", "--out", str(out), "--propensity", "chanc"))
    assert "expected a column 'chanc'" in " ".join(capsys.readouterr().err.split())

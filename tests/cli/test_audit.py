"""``dessl audit`` on files."""

import json
from pathlib import Path

import numpy as np
import pytest

from dessl.cli.main import main


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
    assert text.startswith("Verdict on the unlabelled data: ")
    assert "Are labels missing at random?" in text
    assert "people" in page.read_text(encoding="utf-8")
    run("audit", str(table), "--label", "sick", "--json", "--cheap")
    found = json.loads(capsys.readouterr().out)
    assert found["labelled"] == 60
    assert len(found["tests"]) == 4
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


def test_a_page_must_be_html(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(("audit", str(table), "--label", "sick", "--out", "x.pdf"))
    assert ended.value.code == 2
    assert "must be an .html file" in capsys.readouterr().err


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


def test_a_column_that_is_the_label_is_named_by_audit_and_fit(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, page, out = tmp_path / "leaky.csv", tmp_path / "audit.html", tmp_path / "run"
    head, *lines = table.read_text().splitlines()
    leaky = [
        f"{line},{'A' if sick == 'yes' or (not sick and float(age) > 50) else 'B'}"
        for line in lines
        for age, _, sick in [line.split(",")]
    ]
    path.write_text("\n".join([f"{head},code", *leaky]))
    reason = "'code' gives the label away: its values match the classes one to one on all 60"
    run("audit", str(path), "--label", "sick", "--cheap", "--out", str(page))
    text = " ".join(capsys.readouterr().out.split())
    verdict = "Verdict on the unlabelled data: use it with care."
    assert text.startswith(f"{verdict} - {reason} labelled rows.")
    assert "drop it: --ignore code" in text
    assert "gives the label away" in page.read_text(encoding="utf-8")
    few = ("--surrogate", "entropy", "--lam", "0.5", "--steps", "5", "--networks", "1", "--no-pool")
    run("fit", str(path), "--label", "sick", "--out", str(out), *few)
    text = " ".join(capsys.readouterr().out.split())
    assert f"Audit: Use the unlabelled rows with care. {reason} labelled rows." in text
    assert "gives the label away" in (out / "report.html").read_text(encoding="utf-8")
    run("audit", str(path), "--label", "sick", "--cheap", "--ignore", "code")
    assert "gives the label away" not in capsys.readouterr().out


def test_fit_and_audit_say_the_same_of_one_table(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run("audit", str(table), "--label", "sick", "--json", "--seed", "5")
    full = json.loads(capsys.readouterr().out)
    few = ("--surrogate", "entropy", "--lam", "0.5", "--steps", "5", "--networks", "1", "--no-pool")
    command = ("fit", str(table), "--label", "sick", "--seed", "5", "--json", *few)
    run(*command, "--out", str(tmp_path / "all"))
    found = json.loads(capsys.readouterr().out)["audit"]
    same = ("labelled", "unlabelled", "tests", "columns", "auc", "class_propensity")
    assert {name: found[name] for name in same} == {name: full[name] for name in same}
    run(*command, "--out", str(tmp_path / "some"), "--labels", "40")
    found = json.loads(capsys.readouterr().out)["audit"]
    assert (found["labelled"], found["unlabelled"]) == (40, 260)


def test_tests_of_patients_exchange_patients(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    generator = np.random.default_rng(0)
    means, known = generator.normal(size=40), generator.permutation(40) < 20
    lines = ["patient,pulse,age,sick"]
    for patient in range(40):
        for _ in range(6):
            pulse, age = means[patient] + 0.1 * generator.normal(size=2)
            label = ("yes" if means[patient] > 0 else "no") if known[patient] else ""
            lines.append(f"P{patient},{pulse:.4f},{age:.4f},{label}")
    path = tmp_path / "visits.csv"
    path.write_text("\n".join(lines))
    run("audit", str(path), "--label", "sick", "--cheap", "--json", "--ignore", "patient")
    assert json.loads(capsys.readouterr().out)["outcome"] != "use it"
    run("audit", str(path), "--label", "sick", "--cheap", "--json", "--group", "patient")
    said = capsys.readouterr()
    found = json.loads(said.out)
    assert "40 groups by 'patient', 20 of them with a label." in said.err
    assert (found["outcome"], found["groups"], len(found["tests"])) == ("use it", 40, 3)
    run("audit", str(path), "--label", "sick", "--cheap", "--group", "patient")
    assert "The tests exchange whole groups: 40, 20 of them with a label." in " ".join(
        capsys.readouterr().out.split()
    )
    few = ("--surrogate", "entropy", "--lam", "0.5", "--steps", "5", "--networks", "1", "--json")
    out = tmp_path / "run"
    run("fit", str(path), "--label", "sick", "--out", str(out), "--group", "patient", *few)
    audited = json.loads((out / "facts.json").read_text())["audit"]
    assert audited["tests"] == found["tests"]

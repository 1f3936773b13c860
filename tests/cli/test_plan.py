"""``dessl plan`` on files."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

Cli = Callable[..., Any]


def test_a_plan_and_rows_to_label(cli: Cli, table: Path, tmp_path: Path) -> None:
    out = tmp_path / "next.csv"
    asked = ("--label", "sick", "--width", 0.03, "--rows", 25)
    code, text, err = cli("plan", table, *asked, "--out", out)
    assert code == 0, err
    assert "labels are needed for accuracy within ± 0.03" in text
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert len(rows) == 300
    assert sum(row["label_next"] == "yes" for row in rows) == 25
    assert all(0 < float(row["propensity"]) <= 1 for row in rows)
    after = 0.2 * 240 + 0.8 * 25  # a fifth have a label
    assert sum(float(row["propensity"]) for row in rows[60:]) == pytest.approx(after, abs=1e-4)
    assert "pass --propensity propensity" in text


def test_a_plan_counts_the_labels_that_fit_holds_out(cli: Cli, table: Path) -> None:
    ran = cli("plan", table, "--label", "sick", "--width", 0.1)
    assert "dessl fit holds out 20 % of the labels for evaluation, 12 of 60" in ran.out


def test_rows_to_label_have_no_formulas(cli: Cli, tmp_path: Path) -> None:
    for place, level in (("=1+1", 20), ("b", 200), ("unlabelled", 90)):
        (tmp_path / "images" / place).mkdir(parents=True)
        for k in range(12):
            image = Image.new("L", (8, 8), level + k)
            image.save(tmp_path / "images" / place / f"{k}.png")
    assert cli("plan", tmp_path / "images", "--rows", 2, "--out", tmp_path / "next.csv").code == 0
    lines = (tmp_path / "next.csv").read_text().splitlines()
    assert lines[1].startswith("'=1+1/0.png,")
    assert not any(line.startswith("=") for line in lines)


def test_json_has_the_plan_and_the_names_of_the_rows(cli: Cli, table: Path, tmp_path: Path) -> None:
    out = tmp_path / "next.csv"
    ran = cli(
        "plan", table, "--label", "sick", "--difference", 0.05, "--rows", 3, "--out", out, "--json"
    )
    found = json.loads(ran.out)
    assert found.keys() == {"plan", "rows"}
    assert found["plan"]["sentence"]
    rows = list(csv.DictReader(out.read_text().splitlines()))
    assert found["rows"] == [row["row"] for row in rows if row["label_next"] == "yes"]
    assert all(int(name) >= 60 for name in found["rows"])  # the first 60 have a label


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "nothing to plan. Pass --width"),
        (("--rows", "5"), "--rows needs --out"),
        (("--width", "0.1", "--out", "next.csv"), "--rows needs --out, and --out needs --rows"),
        (
            ("--rows", "5000", "--out", "next.csv"),
            "--rows must be at most 240, the number of unlabelled rows; got 5000.",
        ),
        (("--width", "1", "--difference", "1"), "cannot be combined"),
    ],
)
def test_bad_options_are_said_in_a_line(
    cli: Cli, table: Path, arguments: tuple[str, ...], message: str
) -> None:
    code, out, err = cli("plan", table, "--label", "sick", *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_a_plan_of_patients_is_in_patients(cli: Cli, tmp_path: Path) -> None:
    random, lines = np.random.default_rng(0), ["patient,pulse,age,sick"]
    for patient in range(30):
        pulse, sick = random.normal(size=2)
        label = ("yes" if pulse + sick > 0 else "no") if patient < 12 else ""
        lines += [f"P{patient},{pulse + visit / 100:.3f},{visit},{label}" for visit in range(4)]
    path, out = tmp_path / "visits.csv", tmp_path / "next.csv"
    path.write_text("\n".join(lines))
    asked = ("plan", path, "--label", "sick", "--group", "patient", "--width", 0.1)
    code, text, err = cli(*asked, "--rows", 12, "--out", out)
    assert code == 0, err
    assert "30 groups by 'patient', 12 of them with a label." in err
    assert "They must be of new groups" in text
    assert "12 rows of 3 groups to label" in " ".join(text.split())
    assert "pass --propensity propensity and --group patient." in " ".join(text.split())
    next_rows = csv.DictReader(out.read_text().splitlines())
    chosen = {int(row["row"]) // 4 for row in next_rows if row["label_next"]}
    assert len(chosen) == 3
    assert min(chosen) >= 12
    plan = json.loads(cli(*asked, "--json").out)["plan"]
    assert plan["needed_groups"] == -(-plan["needed_with_unlabelled"] // 4)

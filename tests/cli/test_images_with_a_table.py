"""Images with a table of labels (``--labels``): columns for groups, strata and propensities."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from dessl.data import SemiData

Cli = Callable[..., Any]
N = 80


@pytest.fixture
def scans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A flat folder of images, dark or bright, and a table about them."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    Path("scans").mkdir()
    lines = ["image,finding,patient,site,chance"]
    for k in range(N):
        level = 60 + 120 * (k % 2)
        pixels = (level + rng.normal(0, 30, (8, 8))).clip(0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(f"scans/{k:03d}.png")
        finding = ("dark", "bright")[k % 2] if rng.random() < 0.6 else ""
        lines.append(f"{k:03d},{finding},{k // 2},{'AB'[k % 3 == 0]},0.6")
    Path("labels.csv").write_text("\n".join(lines) + "\n")
    return tmp_path


def test_a_run_on_images_with_a_table(scans: Path, cli: Cli) -> None:
    about = ("--labels", "labels.csv", "--label", "finding")
    found = cli("audit", "scans", *about, "--group", "patient", "--cheap")
    assert "40 groups by 'patient'" in found.err
    found = cli("plan", "scans", *about, "--rows", "5", "--out", "next.csv")
    assert "pass --labels next.csv --label label --propensity propensity" in found.out
    with Path("next.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == N
    assert {row["label"] for row in rows} == {"dark", "bright", ""}
    assert rows[1]["row"] == "001.png"
    again = cli("audit", "scans", "--labels", "next.csv", "--label", "label", "--json", "--cheap")
    assert json.loads(again.out)["labelled"] == sum(row["label"] != "" for row in rows)
    fitted = cli(
        "fit", "scans", *about, "--group", "patient", "--propensity", "chance", "--steps", "20",
        "--no-pool", "--out", "runs/scans",
    )  # fmt: skip
    assert fitted.code == 0, fitted.err
    cli("predict", "runs/scans", "scans", "--out", "p.csv")
    found = cli("evaluate", "runs/scans", "scans", *about, "--by", "site", "--propensity", "chance")
    assert "By site" in found.out
    assert "the model was trained on rows of" in found.err
    assert "rows are grouped by 'patient', as in the run" in found.err


def test_a_plan_keeps_labels_and_names_that_look_like_formulas(scans: Path, cli: Cli) -> None:
    text = Path("labels.csv").read_text().replace(",dark,", ",-ve,").replace(",bright,", ",+ve,")
    Path("labels.csv").write_text(text.replace("\n000,", "\n-0,"))
    Path("scans/000.png").rename("scans/-0.png")
    cli("plan", "scans", "--labels", "labels.csv", "--label", "finding", "--rows", "5",
        "--out", "next.csv")  # fmt: skip
    assert "'+ve" in Path("next.csv").read_text()  # which no spreadsheet computes
    data = SemiData.from_folder("scans", labels="next.csv", label="label")
    assert data.class_names == ("+ve", "-ve")
    assert len(data) == N
    before = SemiData.from_folder("scans", labels="labels.csv", label="finding")
    assert data.y.tolist() == before.y.tolist()


def test_the_next_command_of_a_plan_can_be_pasted(scans: Path, cli: Cli) -> None:
    about = ("--labels", "labels.csv", "--label", "finding")
    found = cli("plan", "scans", *about, "--rows", "5", "--group", "^0[0-9]|^", "--out", "my n.csv")
    said = " ".join(found.out.split())
    assert "pass --labels 'my n.csv' --label label --propensity propensity and " in said
    assert "--group '^0[0-9]|^';" in said


@pytest.mark.parametrize(
    "command", [("audit",), ("plan", "--rows", "3", "--out", "a.csv"), ("fit", "--out", "run")]
)
def test_a_table_has_its_own_labels(scans: Path, cli: Cli, command: tuple[str, ...]) -> None:
    found = cli(*command, "labels.csv", "--labels", "labels.csv", "--label", "finding")
    said = "--labels labels.csv: a file of labels is only for .npy files and folders of images."
    assert f"{said} Omit it; or, in dessl fit," in found.err


def test_damaged_test_images_are_skipped_too(scans: Path, cli: Cli) -> None:
    for k in range(6):
        path = Path("test", ("dark", "bright")[k % 2], f"{k:03d}.png")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(Path("scans", path.name).read_bytes())
    Path("test", "dark", "bad.png").write_bytes(b"no image")
    about = ("scans", "--labels", "labels.csv", "--label", "finding", "--test-file", "test")
    assert "To leave out such files, pass --skip-damaged" in cli("audit", *about, "--cheap").err
    found = cli("audit", *about, "--cheap", "--skip-damaged")
    assert "test: skipped 1 of 7 files" in found.err
    options = ("--steps", "5", "--no-pool", "--no-refit", "--skip-damaged", "--out", "run")
    fitted = cli("fit", *about, *options)
    assert fitted.code == 0, fitted.err


def test_what_is_missing_is_said(scans: Path, cli: Cli) -> None:
    found = cli("fit", "scans", "--out", "run")
    assert "or pass --labels FILE, a table with their file names" in found.err
    found = cli("audit", "scans", "--labels", "labels.csv")
    assert "Which column has the labels? Pass --label NAME" in found.err
    about = ("--labels", "labels.csv", "--label", "finding")
    found = cli("fit", "scans", *about, "--propensity", "prob", "--out", "run")
    assert "labels.csv: expected a column 'prob'" in found.err
    found = cli("fit", "scans", *about, "--stream", "--out", "run")
    assert "--stream needs one folder 'unlabelled'" in found.err

"""Images that belong together by their file names."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from dessl.cli.groups import NamedRows, groups_of_run
from dessl.cli.options import AS_IT_IS
from dessl.data import Part

Cli = Callable[..., Any]


@pytest.fixture
def scans(tmp_path: Path) -> Path:
    """Three images of each of 24 patients, half of them without a label."""
    random = np.random.default_rng(0)
    folder = tmp_path / "scans"
    for patient in range(24):
        kind = "unlabelled" if patient % 2 else ("ill", "well")[patient % 4 // 2]
        (folder / kind).mkdir(parents=True, exist_ok=True)
        for number in range(3):
            image = random.integers(0, 200, (8, 8)) + 50 * (kind == "ill")
            name = f"p{patient:03d}_{number}.png"
            Image.fromarray(image.astype(np.uint8)).save(folder / kind / name)
    return folder


def test_a_pattern_holds_patients_out_together(cli: Cli, scans: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    options = ("--group", r"^(p\d+)_", "--steps", 2, "--networks", 1, "--no-refit", "--no-pool")
    ran = cli("fit", scans, *options, "--out", out)
    assert ran.code == 0, ran.err
    assert r"24 groups by '^(p\d+)_', 12 of them with a label." in ran.err
    facts = json.loads((out / "facts.json").read_text(encoding="utf-8"))
    held_out = facts["estimates"][0]
    assert held_out["n_labelled"] == 3 * held_out["n_groups"]
    ran = cli("evaluate", out, scans)
    assert ran.code == 0, ran.err
    assert r"rows are grouped by '^(p\d+)_', as in the run" in ran.err
    renamed = tmp_path / "renamed"
    (renamed / "ill").mkdir(parents=True)
    for path in (scans / "ill").iterdir():
        (renamed / "ill" / f"x{path.name[2:]}").write_bytes(path.read_bytes())
    assert "has no such file name: rows are taken as independent" in cli(
        "evaluate", out, renamed
    ).err.replace("\n", " ")


def test_audit_and_plan_take_it_too(cli: Cli, scans: Path) -> None:
    for command in (("audit", "--cheap"), ("plan", "--width", 0.2)):
        ran = cli(command[0], scans, *command[1:], "--group", "^p[0-9]+")
        assert ran.code == 0, ran.err
        assert "24 groups by '^p[0-9]+', 12 of them with a label." in ran.err


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        (
            "patient",
            "expected file names that match --group 'patient'; only a table of --labels has",
        ),
        ("^(x*)", "expected file names that match --group '^(x*)'; only a table of --labels has"),
        ("(", "expected a regular expression of file names in --group; got '(', missing )"),
    ],
)
def test_a_pattern_that_cannot_be_used(cli: Cli, scans: Path, pattern: str, said: str) -> None:
    ran = cli("audit", scans, "--group", pattern)
    assert ran.code == 2
    assert said in ran.err
    assert "pass --group '^p[0-9]+'" in ran.err


def test_images_without_a_match_are_groups_of_their_own(cli: Cli, scans: Path) -> None:
    ran = cli("audit", scans, "--cheap", "--group", "^p00[0-9]")
    assert ran.code == 0, ran.err
    assert "42 of 72 file names do not match '^p00[0-9]'" in " ".join(ran.err.split())
    assert "52 groups by" in ran.err


def test_a_bracket_that_matches_nothing_is_no_match(cli: Cli, scans: Path) -> None:
    ran = cli("audit", scans, "--cheap", "--group", "^(p00[0-9])?")
    assert ran.code == 0, ran.err
    assert "42 of 72 file names do not match '^(p00[0-9])?'" in " ".join(ran.err.split())
    assert "52 groups by" in ran.err


def test_plan_and_evaluate_note_images_without_a_match(
    cli: Cli, scans: Path, tmp_path: Path
) -> None:
    options = ("--steps", 1, "--networks", 1, "--no-refit", "--no-pool", "--out", tmp_path / "run")
    assert cli("fit", scans, *options).code == 0
    for command in (("plan", scans, "--width", 0.2), ("evaluate", tmp_path / "run", scans)):
        ran = cli(*command, "--group", "^p00[0-9]")
        assert ran.code == 0, ran.err
        assert f"Note: {scans}: 42 of 72 file names do not match" in " ".join(ran.err.split())


def test_images_in_an_npz_file_have_columns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "training").mkdir()
    (tmp_path / "training" / "options.json").write_text('{"options": {"group": "patient"}}')
    images = torch.zeros(2, 1, 8, 8, dtype=torch.uint8)
    np.savez(tmp_path / "scans.npz", x=images, y=[0, 1])
    rows = NamedRows(str(tmp_path / "scans.npz"), Part(images, torch.tensor([0, 1])), None)
    assert groups_of_run(tmp_path, None, rows, AS_IT_IS) is None
    assert "has no such column: rows" in " ".join(capsys.readouterr().err.split())


def test_a_test_folder_with_known_patients_is_warned_of(
    cli: Cli, scans: Path, tmp_path: Path
) -> None:
    test = tmp_path / "test"
    for kind in ("ill", "well"):
        (test / kind).mkdir(parents=True)
        for number, path in enumerate(sorted((scans / kind).iterdir())):
            other = Image.fromarray(255 - np.asarray(Image.open(path)))
            name = path.name if number < 6 else f"q{path.name[1:]}"
            other.save(test / kind / name)
    options = ("--group", r"^[pq]\d+", "--steps", 2, "--networks", 1, "--no-pool")
    ran = cli("fit", scans, "--test-file", test, *options, "--out", tmp_path / "run")
    assert ran.code == 0, ran.err
    said = " ".join(ran.err.split())
    assert r"12 of the 36 labelled test rows have a value of '^[pq]\d+'" in said


def test_groups_in_a_table_of_labels_are_not_those_of_test_images(
    cli: Cli, scans: Path, tmp_path: Path
) -> None:
    flat, test = tmp_path / "flat", tmp_path / "test"
    flat.mkdir()
    lines = ["file,label,patient"]
    for kind in ("ill", "well"):
        (test / kind).mkdir(parents=True)
        for number, path in enumerate(sorted((scans / kind).iterdir())):
            (flat / path.name).write_bytes(path.read_bytes())
            lines.append(f"{path.name},{kind},{kind} {number // 3}")
            other = Image.fromarray(255 - np.asarray(Image.open(path)))
            other.save(test / kind / path.name)
    table = tmp_path / "table.csv"
    table.write_text("\n".join(lines))
    typed = ("--labels", table, "--label", "label", "--group", "patient", "--test-file", test)
    ran = cli("fit", flat, *typed, "--out", tmp_path / "run")
    assert ran.code == 2
    said = " ".join(ran.err.split())
    assert f"got a folder, while {table} is about the images of {flat}" in said
    assert f"dessl evaluate RUN {test} --labels TABLE --group 'patient'" in said

"""--encoding and --missing: how tables are read, in every command, and as in training."""

import csv
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from dessl.cli.options import Reading
from dessl.saved import load_model

Cli = Callable[..., tuple[int, str, str]]
CODING = "cp1252"
QUICK = ("--networks", 1, "--steps", 5, "--no-pool", "--no-refit")
HOW = ("--encoding", CODING, "--missing", "-999", "--missing", ".")


def write_people(path: Path, n: int = 200, labelled: float = 0.5, coding: str = CODING) -> Path:
    """Ages and names of towns, some of them marked as missing; half of the labels are."""
    random = np.random.default_rng(n)
    lines = [["größe", "ort", "ärztin", "krank"]]
    for row in range(n):
        size = random.normal(170, 10)
        ill = size + random.normal(0, 4) > 170
        cell = "-999" if row % 9 == 0 else f"{size:.1f}"
        town = "." if row % 7 == 0 else ("Köln", "Düren")[row % 2]
        label = ("ja" if ill else "nein") if random.random() < labelled else "."
        lines.append([cell, town, f"Ä{row // 4}", label])
    with path.open("w", newline="", encoding=coding) as file:
        csv.writer(file, delimiter=";").writerows(lines)
    return path


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_people(tmp_path_factory.mktemp("read") / "people.csv")


def test_a_run_remembers_how_its_table_was_read(cli: Cli, data: Path, tmp_path: Path) -> None:
    common = ("fit", data, "--label", "krank", "--group", "ärztin", *QUICK)
    code, _, err = cli(*common, "--out", tmp_path / "none")
    assert code == 2
    assert "--encoding on the command line" in err
    code, _, err = cli(*common, "--encoding", CODING, "--out", tmp_path / "marks")
    assert code == 2
    assert "--missing-label '.'" in err
    run = tmp_path / "run"
    code, _, err = cli(*common, *HOW, "--out", run)
    assert code == 0, err
    encoding = load_model(run / "model").encoding
    assert encoding is not None
    assert (encoding.text_encoding, encoding.missing) == (CODING, ("-999", "."))
    assert {"größe is missing", "ort=Köln"} <= set(encoding.feature_names)
    assert not any("-999" in name or "=." in name for name in encoding.feature_names)

    new = write_people(tmp_path / "new.csv", 120)
    predictions = {}
    for name, more in (("as in training", ()), ("told", HOW), ("other marks", ("--missing", "x"))):
        out = tmp_path / "predicted.csv"
        code, _, err = cli("predict", run, new, *more, "--keep", "größe,ort", "--out", out)
        assert code == 0, err
        predictions[name] = out.read_text(encoding="utf-8")
    assert predictions["as in training"] == predictions["told"] != predictions["other marks"]
    assert "-999,." in predictions["told"]  # kept columns are copied as they are
    code, shown, err = cli("evaluate", run, new, "--group", "ärztin", "--by", "ort", "--json")
    assert code == 0, err
    assert set(json.loads(shown)["groups"]) == {"(empty)", "Düren", "Köln"}
    assert "30 groups by 'ärztin'" in err
    utf8 = write_people(tmp_path / "utf8.csv", 120, coding="utf-8")
    code, _, err = cli("predict", run, utf8, "--encoding", "utf-8", "--out", out)
    assert code == 0, err
    answers = [line.split(",")[-3:] for line in out.read_text(encoding="utf-8").splitlines()]
    assert answers == [line.split(",")[-3:] for line in predictions["told"].splitlines()]


@pytest.mark.parametrize("command", ["audit", "plan"])
def test_other_commands_read_such_tables(cli: Cli, data: Path, command: str) -> None:
    more = ("--cheap",) if command == "audit" else ("--width", 0.05)
    code, _, err = cli(command, data, "--label", "krank", *more)
    assert code == 2
    assert "--encoding on the command line" in err
    code, _, err = cli(command, data, "--label", "krank", *HOW, "--ignore", "ärztin", *more)
    assert code == 0, err


def test_a_test_file_is_read_as_the_data(cli: Cli, data: Path, tmp_path: Path) -> None:
    test = write_people(tmp_path / "test.csv", 160, labelled=0.8)
    code, _, err = cli(
        "fit", data, "--label", "krank", "--group", "ärztin", *HOW, *QUICK,
        "--test-file", test, "--out", tmp_path / "run",
    )  # fmt: skip
    assert code == 0, err
    assert "labelled test rows have a value of 'ärztin' that labelled train" in err


def test_labels_of_embeddings_may_be_in_another_encoding(cli: Cli, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    y = np.arange(80) % 2
    np.save(tmp_path / "x.npy", random.normal(size=(80, 4)).astype(np.float32) + 2 * y[:, None])
    names = np.where(np.arange(80) < 60, np.where(y == 1, "größer", "kleiner"), ".")
    (tmp_path / "y.csv").write_bytes("\n".join(["wort", *names]).encode(CODING))
    files = (tmp_path / "x.npy", "--labels", tmp_path / "y.csv")
    run = tmp_path / "run"
    code, _, err = cli("fit", *files, *HOW, *QUICK, "--out", run)
    assert code == 0, err
    assert load_model(run / "model").class_names == ("größer", "kleiner")
    code, _, err = cli("evaluate", run, *files, *HOW)
    assert code == 0, err


def test_other_data_have_no_encoding(cli: Cli, tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.zeros((9, 2)), y=np.arange(9) % 2)
    for option in (("--encoding", CODING), ("--missing", "x")):
        code, _, err = cli("audit", tmp_path / "a.npz", *option)
        assert code == 2
        assert f"{option[0]} is for a table, but DATA is not one" in err
    (tmp_path / "a.csv").write_text("a,y\n1,2\n")
    code, _, err = cli("audit", tmp_path / "a.csv", "--label", "y", "--encoding", "cp12520")
    assert code == 2
    assert "must be an encoding that Python knows" in err


def test_a_sheet_is_that_of_one_file() -> None:
    reading = Reading.of("second", CODING, ["x"])
    assert reading.for_file("a.csv") == (None, CODING, ("x",))
    assert reading.for_file("a.parquet") == (None, None, ("x",))

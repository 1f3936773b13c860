"""dessl evaluate: classes that the model does not know, and rows that it was trained on."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

Cli = Callable[..., tuple[int, str, str]]
KINDS = ("RT", "SS", "CH")


def write_birds(path: Path, n: int, classes: int, labelled: int, seed: int = 0) -> Path:
    """Three well-separated kinds of birds in turn; ``labelled`` rows of the first have a label."""
    rng = np.random.default_rng(seed)
    lines, left = ["wing,tail,kind"], labelled
    for number in range(n):
        kind = number % 3
        wing, tail = rng.normal(6 * kind, 1), rng.normal(-3 * kind, 1)
        shown = kind < classes and left > 0
        left -= shown
        lines.append(f"{wing:.3f},{tail:.3f},{KINDS[kind] if shown else ''}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def trained(cli: Cli, folder: Path, *options: object) -> Path:
    train = write_birds(folder / "train.csv", 150, classes=2, labelled=60)
    code, _, err = cli(
        "fit", train, "--label", "kind", "--out", folder / "run", "--networks", 1, "--steps", 60,
        "--no-pool", *options,
    )  # fmt: skip
    assert code == 0, err
    return folder / "run"


def test_rows_of_an_unknown_class_count_as_wrong(cli: Cli, tmp_path: Path) -> None:
    run = trained(cli, tmp_path)
    new = write_birds(tmp_path / "new.csv", 120, classes=3, labelled=90, seed=1)
    code, shown, err = cli("evaluate", run, new, "--json")
    assert code == 0, err
    assert "30 of the 90 labelled rows are of a class that the model does not know" in err
    assert "'CH' in 30 rows. They count as wrong" in err
    found = json.loads(shown)
    assert found["labelled_rows"]["accuracy"] == pytest.approx(2 / 3, abs=0.05)
    assert found["labelled_rows"]["cross_entropy"] == "Infinity"
    accuracy = found["estimates"]["accuracy"]
    assert accuracy["low"] < 2 / 3 < accuracy["high"] < 0.85
    code, shown, err = cli("evaluate", run, new, "--metric", "recall", "--class", "CH")
    assert code == 0, err
    assert "recall of 'CH', %" in shown
    code, shown, err = cli("evaluate", run, new, "--against", "complete-case")
    assert code == 0, err
    code, _, err = cli("evaluate", run, new, "--sets", 0.9)
    assert code == 2
    assert "--sets needs labels of the model's classes only; got 'CH' in 30 rows" in err
    refuses_what_is_no_class(cli, run, new)
    is_not_said_to_differ_from_its_own_training_rows(cli, run, tmp_path / "train.csv")


def refuses_what_is_no_class(cli: Cli, run: Path, new: Path) -> None:
    text = new.read_text(encoding="utf-8")
    new.write_text(text.replace(",CH", ",rt"), encoding="utf-8")
    code, _, err = cli("evaluate", run, new)
    assert code == 2
    assert "got 'rt' in 30 rows. Did you mean 'RT'?" in err
    new.write_text(text.replace("RT", "0").replace("SS", "1"), encoding="utf-8")
    code, _, err = cli("evaluate", run, new)
    assert code == 2
    assert "'0' in 30 rows" in err


def is_not_said_to_differ_from_its_own_training_rows(cli: Cli, run: Path, train: Path) -> None:
    """Its labels are of two of three kinds, so that the test of a shift would warn."""
    code, _, err = cli("evaluate", run, train, "--sets", 0.9)
    assert code == 0, err
    assert "these metrics are optimistic" in err
    assert "look like" not in err
    copy = train.with_name("copy.csv")
    copy.write_text(train.read_text(encoding="utf-8") + "1,1,\n", encoding="utf-8")
    assert "do not look like" in cli("evaluate", run, copy)[2]


def write_images(folder: Path, classes: dict[str, int], seed: int) -> Path:
    rng = np.random.default_rng(seed)
    for name, level in classes.items():
        (folder / name).mkdir(parents=True)
        for number in range(12):
            pixels = rng.normal(level, 20, (8, 8)).clip(0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{number}.png")
    return folder


def test_a_folder_of_an_unknown_class_counts_as_wrong(cli: Cli, tmp_path: Path) -> None:
    train = write_images(tmp_path / "train", {"dark": 60, "light": 190}, seed=0)
    fit = ("fit", train, "--out", tmp_path / "run", "--networks", 1, "--steps", 20, "--no-pool")
    assert cli(*fit)[0] == 0
    new = write_images(tmp_path / "new", {"dark": 60, "grey": 120, "light": 190}, seed=1)
    code, shown, err = cli("evaluate", tmp_path / "run", new, "--json")
    assert code == 0, err
    assert "'grey' in 12 rows. They count as wrong" in err
    counts = json.loads(shown)["labelled_rows"]["class_counts"]
    assert counts == [12, 12, 12]
    assert "images have" not in err
    for file in new.rglob("*.png"):  # stretched, and in colour
        red = Image.merge("RGB", [Image.open(file), *[Image.new("L", (8, 8))] * 2])
        red.resize((8, 16)).save(file)
    out = tmp_path / "p.csv"
    code, _, err = cli("predict", tmp_path / "run", new, "--out", out)
    assert code == 0, err
    assert "36 of 36 images are in colour, which is dropped" in err
    assert "height / width is 2.00, where it was 1.00" in err

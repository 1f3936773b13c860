"""Bad input: one line that says what to do, exit code 2, no traceback, nothing half-written."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from PIL import Image

Cli = Callable[..., tuple[int, str, str]]
Make = Callable[[Path], list[object]]


class Case(NamedTuple):
    """How to make the bad input (returns the arguments of fit), and what must be said of it."""

    make: Make
    says: str


def table(rows: list[str], name: str = "people.csv") -> Make:
    def make(folder: Path) -> list[object]:
        (folder / name).write_text("\n".join(rows))
        return [folder / name, "--label", "outcome"]

    return make


def good_rows(n: int = 40) -> list[str]:
    """A table that fit takes: half of it is labelled."""
    labels = ("ill", "well", "", "")
    return ["age,outcome", *(f"{20 + i * 7 % 31},{labels[i % 4]}" for i in range(n))]


def damaged_cell(folder: Path) -> list[object]:
    rows = good_rows()
    rows[7] = "thirty," + rows[7].split(",")[1]
    return table(rows)(folder)


def one_class_npz(folder: Path) -> list[object]:
    x = np.random.default_rng(0).normal(size=(40, 3))
    y = np.where(np.arange(40) < 20, 0, -1)
    np.savez(folder / "rows.npz", x=x, y=y, class_names=np.array(["no", "yes"]))
    return [folder / "rows.npz"]


def damaged_image(folder: Path) -> list[object]:
    for name in ("cat", "dog"):
        (folder / "pets" / name).mkdir(parents=True)
        for number in range(8):
            pixels = np.full((9 + number, 8, 3), 10 * number, np.uint8)
            Image.fromarray(pixels).save(folder / "pets" / name / f"{number}.png")
    path = folder / "pets" / "dog" / "3.png"
    path.write_bytes(path.read_bytes()[:50])
    return [folder / "pets"]


CASES = {
    "missing file": Case(lambda folder: [folder / "no.csv"], "got no such file or name. Check"),
    "misspelt name": Case(lambda folder: ["digitz"], "Did you mean 'digits'?"),
    "empty file": Case(table([]), "people.csv: expected"),
    "header alone": Case(table(["age,outcome"]), "people.csv: expected"),
    "no label column": Case(
        table(["age,result", "30,ill", "40,well"]),
        "expected a column 'outcome'; got 'age', 'result'. Check the name",
    ),
    "columns in one option": Case(
        lambda folder: [*table(good_rows())(folder), "--ignore", "age,age"],
        "Name one column at a time, and repeat the option for each.",
    ),
    "label column not named": Case(
        lambda folder: table(good_rows())(folder)[:1], "Pass --label NAME."
    ),
    "all labels missing": Case(
        table(["age,outcome", *(f"{i * 7 % 31}," for i in range(40))]),
        "expected labels in the column 'outcome'; got none: all 40 cells are empty. Enter labels",
    ),
    "one class": Case(
        table(["age,outcome", *(f"{i * 7 % 31},ill" for i in range(40))]),
        "expected 2 to 1000 classes in the label column 'outcome'; got 1, 'ill'. Label rows",
    ),
    "labels of one class": Case(one_class_npz, "got only 'no'. Label rows of the other classes"),
    "two rows": Case(
        table(["age,outcome", "30,ill", "41,well"]),
        "expected at least 10 labelled rows, for training and evaluation; got 2 in 2 rows. Label",
    ),
    "no number in a numeric column": Case(damaged_cell, "'thirty'"),
    "damaged image": Case(
        damaged_image, "The file is damaged or not an image: replace or remove it."
    ),
    "another kind of file": Case(
        table(good_rows(), "people.docx"), "got an unsupported file. Rename or convert it."
    ),
    "an image": Case(
        table(["no", "matter"], "scan 1.PNG"), "Put the image into a folder, and pass the folder."
    ),
    "option of another kind": Case(
        lambda folder: ["digits", "--label", "x"], "--label is for a table, but DATA is not one."
    ),
    "a run among the classes": Case(
        lambda folder: [folder], "where every folder is a class. Choose a folder elsewhere."
    ),
    "unknown surrogate": Case(
        lambda folder: [*table(good_rows())(folder), "--surrogate", "magic"],
        "surrogate must be one of 'entropy'",
    ),
    "misspelt surrogate": Case(
        lambda folder: [*table(good_rows())(folder), "--surrogate", "fixmach"],
        "got 'fixmach'. Did you mean 'fixmatch'?",
    ),
    "negative λ": Case(
        lambda folder: [*table(good_rows())(folder), "--lam=-1"],
        "--lam must be 0 or more, and finite; got -1. Pass --lam 0.5, for example, or omit it",
    ),
    "group that is the label": Case(
        lambda folder: [*table(good_rows())(folder), "--group", "outcome"],
        "--group must name a column that is neither the label nor a feature; got 'outcome', "
        "which --label names too. Pass another column, or omit --group.",
    ),
    "propensity that is a feature": Case(
        lambda folder: [*table(good_rows())(folder), "--propensity", "age", "--categorical=age"],
        "--propensity must name a column that is neither the label nor a feature; got 'age', "
        "which --categorical names too.",
    ),
    "λ that is no number": Case(
        lambda folder: [*table(good_rows())(folder), "--lam", "much"],
        "--lam must be a number or 'auto'; got 'much'.",
    ),
    "no such device": Case(
        lambda folder: [*table(good_rows())(folder), "--device", "gpu7"],
        "--device must be usable here; got gpu7: ",
    ),
    "more labels than there are": Case(
        lambda folder: [*table(good_rows())(folder), "--labels", 99],
        "labels must be between 1 and 20; got 99.",
    ),
}


def refused(said: tuple[int, str, str], says: str) -> None:
    code, out, err = said
    assert (code, out) == (2, "")
    assert err.startswith("dessl: ")
    assert err.count("\n") == 1, err
    assert says in err


@pytest.mark.parametrize("name", CASES)
def test_bad_input(cli: Cli, tmp_path: Path, name: str) -> None:
    arguments = CASES[name].make(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    refused(cli("fit", *arguments, "--out", tmp_path / "run", "--steps", 2), CASES[name].says)
    assert sorted(tmp_path.rglob("*")) == before  # not even an empty folder is left


def fit(cli: Cli, folder: Path, out: Path, *more: object) -> tuple[int, str, str]:
    return cli(
        "fit",
        *table(good_rows())(folder),
        "--out",
        out,
        "--steps",
        2,
        "--lam",
        0.5,
        "--no-refit",
        *more,
    )


def test_predict_and_evaluate_refuse_what_does_not_fit(cli: Cli, tmp_path: Path) -> None:
    run, out = tmp_path / "run", tmp_path / "p.csv"
    assert fit(cli, tmp_path, run)[0] == 0
    people = tmp_path / "people.csv"
    refused(cli("predict", tmp_path / "no", people, "--out", out), "got no such folder. Pass the")
    before = people.read_text()
    refused(cli("predict", run, people, "--out", run / ".." / "people.csv"), "is DATA itself")
    assert people.read_text() == before
    (tmp_path / "folder.csv").mkdir()
    refused(
        cli("predict", run, people, "--out", tmp_path / "folder.csv"),
        f"dessl: {tmp_path / 'folder.csv'}: Is a directory. A folder with this name exists",
    )
    refused(cli("predict", tmp_path, people, "--out", out), "got no model. Pass the folder")
    refused(cli("predict", run, people, "--out", tmp_path / "p.txt"), "must end in .csv, .parquet")
    refused(cli("predict", run, "digits", "--out", out), "expected rows of shape")
    refused(cli("predict", run, tmp_path / "no.csv", "--out", out), "no such file or name")
    (tmp_path / "other.csv").write_text("height\n1\n2\n")
    refused(cli("predict", run, tmp_path / "other.csv", "--out", out), "the column(s) 'age'")
    np.savez(tmp_path / "rows.npz", x=np.eye(3))
    refused(cli("predict", run, tmp_path / "rows.npz", "--out", out), "expected a table, like the")
    (tmp_path / "new.csv").write_text("age,outcome\n30,\n41,\n")
    refused(cli("evaluate", run, tmp_path / "new.csv"), "at least 3 labelled rows; got 0.")
    (tmp_path / "renamed.csv").write_text("age,Outcome\n30,ill\n41,well\n52,ill\n")
    says = "expected the labels in the column 'outcome'; got 'age', 'Outcome'. If one of them has"
    refused(cli("evaluate", run, tmp_path / "renamed.csv"), says)
    (tmp_path / "odd.csv").write_text("age,outcome\n30,Well\n41,ill\n")
    refused(cli("evaluate", run, tmp_path / "odd.csv"), "one of ill, well; got 'Well' in 1 row")
    fine = tmp_path / "fine.csv"
    assert cli("predict", run, tmp_path / "odd.csv", "--out", fine)[0] == 0  # needs no label
    assert fine.read_text().count("\n") == 3
    weights = run / "model" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    refused(cli("predict", run, people, "--out", out), "is damaged")
    assert not out.exists()


@pytest.mark.parametrize("name", ["people.csv", "copy.csv", "written otherwise.tsv"])
def test_the_rows_that_are_trained_on_are_no_test_rows(cli: Cli, tmp_path: Path, name: str) -> None:
    rows = "\n".join(good_rows())
    (tmp_path / name).write_text(rows.replace(",", "\t") if name.endswith("tsv") else rows)
    says = "got the rows of DATA, the training rows"
    refused(fit(cli, tmp_path, tmp_path / "run", "--test-file", tmp_path / name), says)
    assert not (tmp_path / "run").exists()


def test_a_folder_or_a_set_without_a_test_part_is_no_test_file_of_itself(
    cli: Cli, tmp_path: Path
) -> None:
    for name in ("cat", "dog"):
        (tmp_path / "pets" / name).mkdir(parents=True)
        for number in range(8):
            pixels = np.full((8, 8), 10 * number, np.uint8)
            Image.fromarray(pixels).save(tmp_path / "pets" / name / f"{number}.png")
    for data in (tmp_path / "pets", "toy"):
        refused(
            cli("fit", data, "--out", tmp_path / "run", "--test-file", data),
            "got the rows of DATA, the training rows.",
        )


def test_a_test_file_without_the_labels_names_what_it_has(cli: Cli, tmp_path: Path) -> None:
    other = tmp_path / "other.csv"
    other.write_text("age,Outcome\n30,ill\n41,well\n52,ill\n")
    refused(fit(cli, tmp_path, tmp_path / "run", "--test-file", other), "got 'age', 'Outcome'.")
    random = np.random.default_rng(0)
    x, y = random.normal(size=(40, 3)), np.arange(40) % 2
    np.savez(tmp_path / "rows.npz", x=x, y=y)
    np.savez(tmp_path / "other.npz", x=x[:9], target=y[:9])
    options = ("--out", tmp_path / "run", "--test-file", tmp_path / "other.npz")
    refused(
        cli("fit", tmp_path / "rows.npz", *options),
        "expected the labels in the array 'y' or 'Y' or 'labels'; got 'x', 'target'.",
    )

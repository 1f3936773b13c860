"""What DATA is: npy files, sheets of workbooks, doubtful labels, and options that do not belong."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from dessl.cli.new_rows import Expected, check_labels_present, new_rows
from dessl.cli.options import Reading
from dessl.cli.sources import fingerprint, kind_of, npy_files, training_data
from dessl.data import DataError

Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture
def answered(tmp_path: Path) -> Path:
    rows = [f"{k % 7},{('yes', 'no', 'NA')[k % 3]}" for k in range(60)]
    (tmp_path / "a.csv").write_text("\n".join(["n,y", *rows]))
    return tmp_path / "a.csv"


def terminal(monkeypatch: pytest.MonkeyPatch, answer: bool) -> list[str]:
    asked: list[str] = []

    def confirm(question: str, **_: object) -> bool:
        asked.append(question)
        return answer

    for name in ("stdin", "stderr"):
        monkeypatch.setattr(sys, name, SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr("typer.confirm", confirm)
    return asked


def test_without_a_terminal_a_doubtful_label_is_refused_with_both_ways_out(
    cli: Cli, answered: Path, tmp_path: Path
) -> None:
    code, _, err = cli("fit", answered, "--label", "y", "--out", tmp_path / "run")
    assert code == 2
    assert "got 'NA' in 20 rows" in err
    assert "--missing-label 'NA'. If these are classes, pass --no-missing-label" in err
    assert not (tmp_path / "run").exists()
    named = training_data(str(answered), label="y", missing_labels=["NA"])
    assert (named.class_names, named.n_labelled) == (("no", "yes"), 40)
    classes = training_data(str(answered), label="y", all_classes=True)
    assert (classes.class_names, classes.n_labelled) == (("NA", "no", "yes"), 60)


@pytest.mark.parametrize(("answer", "labels"), [(True, 40), (False, 60)])
def test_in_a_terminal_it_is_asked_about(
    answered: Path, monkeypatch: pytest.MonkeyPatch, answer: bool, labels: int
) -> None:
    asked = terminal(monkeypatch, answer)
    assert training_data(str(answered), label="y").n_labelled == labels
    assert len(asked) == 1
    assert "'NA' in 20 rows" in asked[0]


@pytest.mark.parametrize("option", ["--label", "--ignore", "--categorical"])
def test_a_misspelt_column_is_asked_about(
    cli: Cli, answered: Path, tmp_path: Path, option: str
) -> None:
    label = () if option == "--label" else ("--label", "y")
    code, _, err = cli("fit", answered, *label, option, "Y ", "--out", tmp_path / "run")
    assert code == 2
    assert "Did you mean 'y'?" in err


@pytest.fixture
def vectors(tmp_path: Path) -> str:
    """Two npy files with their labels beside them, as DATA names them."""
    x = np.random.default_rng(0).normal(size=(20, 5))
    np.save(tmp_path / "a.npy", x[:, :3])
    np.save(tmp_path / "b.npy", x[:, 3:])
    (tmp_path / "labels.csv").write_text("kind\n" + "cat\ndog\n" * 10)
    return f"{tmp_path}/a.npy,{tmp_path}/b.npy"


def test_npy_files_are_trained_on_with_a_file_of_labels(vectors: str, tmp_path: Path) -> None:
    assert kind_of(vectors) == "npy"
    data = training_data(vectors, labels=str(tmp_path / "labels.csv"))
    assert (tuple(data.x.shape), data.class_names) == ((20, 5), ("cat", "dog"))
    rows, names = new_rows(vectors, Expected.of(data), labels=False)
    assert rows.x.equal(data.x)
    assert not rows.labelled.any()
    assert names[-1] == 19
    labels = str(tmp_path / "labels.csv")
    assert new_rows(vectors, Expected.of(data), labels_file=labels)[0].y.equal(data.y)
    with pytest.raises(DataError, match="Pass --labels FILE to dessl evaluate"):
        check_labels_present(vectors, rows, Expected.of(data))


def test_a_file_with_a_comma_in_its_name_is_one_file(tmp_path: Path) -> None:
    path = tmp_path / "a,b.npy"
    np.save(path, np.eye(2))
    assert npy_files(str(path)) == (path,)
    assert npy_files("a.npy,b.csv") == ()


def test_the_fingerprint_of_several_files_is_of_all(vectors: str) -> None:
    before = fingerprint(vectors)
    one, two = vectors.split(",")
    assert len({before, fingerprint(one), fingerprint(two), fingerprint(f"{two},{one}")}) == 4
    np.save(two, np.zeros((20, 2)))
    assert fingerprint(vectors) != before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "Which file has them. Pass --labels FILE"),
        ({"labels": "no.csv"}, "no such file"),
        ({"labels": "labels.csv", "reading": Reading("x")}, "--sheet is for a table"),
        ({"labels": "labels.csv", "ignore": ["x"]}, "--ignore is for a table"),
        ({"labels": "labels.csv", "label": "colour"}, "a column 'colour'; got the columns 'kind'"),
    ],
)
def test_options_of_npy_files(
    vectors: str, tmp_path: Path, options: dict, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=message):
        training_data(vectors, **options)


def test_doubtful_labels_of_npy_files_are_asked_about(vectors: str, tmp_path: Path) -> None:
    labels = tmp_path / "labels.csv"
    labels.write_text("kind\n" + "cat\ndog\ncat\ndog\nNA\n" * 4)
    with pytest.raises(DataError, match=r"'NA' in 4 rows.*--missing-label 'NA'"):
        training_data(vectors, labels=str(labels))
    data = training_data(vectors, labels=str(labels), missing_labels=["NA"])
    assert (data.class_names, data.n_unlabelled) == (("cat", "dog"), 4)
    assert training_data(vectors, labels=str(labels), all_classes=True).n_classes == 3


def test_a_misspelt_path_suggests_what_lies_next_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=r"Did you mean 'breastmnist'\?"):
        kind_of("brest")
    (tmp_path / "breast").mkdir()
    with pytest.raises(DataError, match=r"Did you mean 'breast'\?"):
        kind_of("brest")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "people.csv").touch()
    near = str(Path("data", "people.csv"))
    with pytest.raises(DataError) as found:
        kind_of(str(Path("data", "peple.csv")))
    assert f"Did you mean {near!r}?" in str(found.value)
    with pytest.raises(DataError, match=r"Check the path\."):
        kind_of(str(Path("absent", "x")))

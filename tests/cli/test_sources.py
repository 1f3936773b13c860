import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from dessl.cli.sources import training_data
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
    assert "--missing-label NA; if these are classes, pass --no-missing-label" in err
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


def test_labels_in_a_file_of_their_own_are_asked_about_too(tmp_path: Path) -> None:
    np.save(tmp_path / "v.npy", np.random.default_rng(0).normal(size=(6, 3)))
    labels = tmp_path / "l.csv"
    labels.write_text("y\nyes\nno\nNA\nyes\nno\nNA\n")
    vectors = str(tmp_path / "v.npy")
    with pytest.raises(DataError, match=r"l.csv: .*'NA' in 2 rows.*--missing-label NA"):
        training_data(vectors, labels=str(labels))
    named = training_data(vectors, labels=str(labels), missing_labels=["NA"])
    assert (named.class_names, named.n_labelled) == (("no", "yes"), 4)

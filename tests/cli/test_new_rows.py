"""Rows for a trained model are read as it expects them, and rows of another kind are refused."""

from pathlib import Path

import numpy as np
import openpyxl
import pytest
import torch

from dessl.cli.new_rows import Expected, check_labels_present, new_rows, read_test_file
from dessl.cli.options import Reading
from dessl.cli.sources import training_data
from dessl.data import DataError, Part, SemiData


@pytest.fixture
def book(tmp_path: Path) -> str:
    """A workbook whose second sheet has the table."""
    made = openpyxl.Workbook()
    made.active.append(["notes"])
    made.active.append(["see the other sheet"])
    sheet = made.create_sheet("people")
    sheet.append(["age", "sick"])
    for age in range(20):
        sheet.append([age % 7, ("no", "yes", None)[age % 3]])
    made.save(tmp_path / "book.xlsx")
    return str(tmp_path / "book.xlsx")


def test_a_sheet_is_read_by_its_name(book: str) -> None:
    data = training_data(book, label="sick", reading=Reading("people"))
    assert data.class_names == ("no", "yes")
    rows, _ = new_rows(book, Expected.of(data), reading=Reading("people"))
    assert rows.x.equal(data.x)
    assert rows.y.equal(data.y)
    with pytest.raises(DataError, match="the column"):
        new_rows(book, Expected.of(data))


def test_rows_of_another_kind_or_shape_are_refused(book: str, tmp_path: Path) -> None:
    vectors = Expected.of(SemiData(np.zeros((4, 3), np.float32), [0, 1, 0, 1]))
    with pytest.raises(DataError, match=r"\.npz or \.npy file, like the training data"):
        new_rows(book, vectors)
    np.savez(tmp_path / "wide.npz", x=np.zeros((2, 5), np.float32), y=[0, 1])
    with pytest.raises(DataError, match=r"rows of shape \(3,\), like the training data"):
        new_rows(str(tmp_path / "wide.npz"), vectors)
    with pytest.raises(DataError, match=r"rows of shape \(3,\) of the classes"):
        new_rows("toy", vectors)


def test_a_table_without_its_label_column_names_the_others(book: str, tmp_path: Path) -> None:
    model = Expected.of(training_data(book, label="sick", reading=Reading("people")))
    other = tmp_path / "other.csv"
    other.write_text("age,ill\n3,yes\n")
    rows, _ = new_rows(str(other), model)
    with pytest.raises(DataError, match="'sick'; got 'age', 'ill'"):
        check_labels_present(str(other), rows, model)


def test_the_training_rows_are_no_test_rows(tmp_path: Path) -> None:
    lines = [f"{k},{'ab'[k % 2]}" for k in range(8)]
    texts = {"a": lines, "copy": lines, "rewritten": [*lines, ""], "other": lines[2:]}
    for name, rows in texts.items():
        (tmp_path / f"{name}.csv").write_text("\n".join(["x,y", *rows]))
    one, *same, other = (str(tmp_path / f"{name}.csv") for name in texts)
    data = training_data(one, label="y")
    for file in (one, *same):  # the file, other files with its bytes, or with its rows
        with pytest.raises(DataError, match=r"expected test rows .*; got the rows of DATA"):
            read_test_file(file, one, data)
    rows, names = read_test_file(other, one, data)
    assert rows.x.equal(data.x[2:])
    assert names == (0, 1, 2, 3, 4, 5)


def test_a_data_set_may_have_its_own_test_part(monkeypatch: pytest.MonkeyPatch) -> None:
    part = Part(torch.zeros(2, 3), torch.tensor([0, 1]))
    data = SemiData(np.ones((4, 3), np.float32), [0, 1, 0, 1], test=part)
    monkeypatch.setattr("dessl.cli.new_rows.load", lambda _: data)
    assert read_test_file("digits", "digits", data)[0].x.equal(part.x)

"""Columns read beside the rows of DATA: from the sheet asked for, one value a row."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import openpyxl
import pytest
import torch

from dessl.cli.columns import group_names, labelled_numbers, propensity_column, texts_of
from dessl.cli.options import Reading
from dessl.data import DataError, Part

ROWS = Part(torch.zeros(3, 1), torch.tensor([0, -1, 1]))


@pytest.fixture
def book(tmp_path: Path) -> str:
    """A workbook whose two sheets have the same columns and other cells."""
    made = openpyxl.Workbook()
    made.active.title = "first"
    for name, cells in (("first", [0.9, 0.9, 0.9]), ("second", [0.5, None, 0.25])):
        sheet = made[name] if name in made.sheetnames else made.create_sheet(name)
        sheet.append(["chance", "site"])
        for cell in cells:
            sheet.append([cell, name])
    made.save(tmp_path / "book.xlsx")
    return str(tmp_path / "book.xlsx")


def test_columns_are_those_of_the_sheet_asked_for(book: str) -> None:
    assert texts_of(book, "site", 3).tolist() == ["first"] * 3
    assert texts_of(book, "site", 3, Reading("second")).tolist() == ["second"] * 3
    numbers = labelled_numbers(book, "chance", ROWS, reading=Reading("second"))
    assert numbers[[0, 2]].tolist() == [0.5, 0.25]
    given = propensity_column(book, "chance", 3, reading=Reading("second"))
    assert given[[0, 2]].tolist() == [0.5, 0.25]


def test_rows_without_a_value_are_a_group_with_a_name(book: str, tmp_path: Path) -> None:
    assert group_names(book, "chance", ROWS, reading=Reading("second")).tolist() == [
        "0.5",
        "(empty)",
        "0.25",
    ]
    (tmp_path / "a.csv").write_text("llm,x\nyes,1\n,2\nno,3\n")
    found = group_names(str(tmp_path / "a.csv"), "llm", ROWS)
    assert found.tolist() == ["yes", "(empty)", "no"]


READERS = (
    lambda source, name: texts_of(source, name, 3),
    lambda source, name: labelled_numbers(source, name, ROWS),
    lambda source, name: propensity_column(source, name, 3),
)


@pytest.mark.parametrize("read", READERS)
def test_a_missing_column_is_refused_in_one_wording(
    book: str, tmp_path: Path, read: Callable[[str, str], object]
) -> None:
    with pytest.raises(DataError, match=r"a column 'sites'; got 'chance', 'site'. Did you mean"):
        read(book, "sites")
    arrays = tmp_path / "arrays.npz"
    np.savez(arrays, chance=np.ones(3), table=np.ones((3, 2)))
    with pytest.raises(DataError, match=r"a column 'x'; got 'chance', 'table'. Check the name"):
        read(str(arrays), "x")
    with pytest.raises(DataError, match=r"in 'table' for each of the 3 rows; got shape \(3, 2\)"):
        read(str(arrays), "table")
    with pytest.raises(DataError, match=r"a column 'x'; got data without columns. Images have"):
        read(str(tmp_path), "x")


def test_a_propensity_is_a_number_and_may_be_estimated_instead(book: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="Or pass --propensity estimate-x or estimate-y"):
        propensity_column(book, "chances", 3)
    np.savez(tmp_path / "arrays.npz", chance=np.ones(3, np.int64))
    with pytest.raises(DataError, match=r"a number from 0 to 1 for each .* got values of type int"):
        propensity_column(str(tmp_path / "arrays.npz"), "chance", 3)

"""Columns read beside the rows of DATA: from the sheet asked for, one value a row."""

from pathlib import Path

import openpyxl
import pytest
import torch

from dessl.cli.columns import labelled_numbers, propensity_column, text_column
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
    assert text_column(book, "site", ROWS).tolist() == ["first"] * 3
    assert text_column(book, "site", ROWS, sheet="second").tolist() == ["second"] * 3
    numbers = labelled_numbers(book, "chance", ROWS, sheet="second")
    assert numbers[[0, 2]].tolist() == [0.5, 0.25]
    given = propensity_column(book, "chance", 3, sheet="second")
    assert given[[0, 2]].tolist() == [0.5, 0.25]


def test_a_column_that_is_not_there_is_refused(book: str) -> None:
    with pytest.raises(DataError, match="expected a column 'sites' with one value for each of"):
        text_column(book, "sites", ROWS)
    with pytest.raises(DataError, match="the column 'chances' of --propensity"):
        propensity_column(book, "chances", 3)

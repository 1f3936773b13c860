from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from dessl.data.errors import DataError
from dessl.data.formats.cells import Column
from dessl.data.formats.number_cells import has_decimal_comma, numbers, numeric_share
from dessl.data.formats.tables import Table


def test_numbers_are_those_of_a_table_without_a_programs_liberties() -> None:
    """Python's float is the judge of what is left."""
    right = ["1", "1.", ".5", "+3", "-2e3", "1E5", "-.5e-3", "007", "1e-400"]
    wrong = ["1e400", "0x1", "1_0", "inf", "٣", "+-3", "++3", "1e", "1,5", ".", "e5"]
    missing = ["nan", "NA", "?", ""]
    spelt = right + wrong + missing
    column = Column.of_texts("a", pa.array(spelt), np.arange(len(spelt)))
    assert [column.cell(row) for row in range(len(spelt))] == spelt
    assert numeric_share(column) == len(right) / len(right + wrong)
    table = Table(Path("t"), {}, {}, len(right) + 1)
    column = Column.of_texts("a", pa.array([*right, ""]), np.arange(len(right) + 1))
    np.testing.assert_array_equal(numbers(table, column), [*map(float, right), np.nan])


def column_of(*cells: str) -> Column:
    return Column.of_texts("a", pa.array(cells), np.arange(len(cells)))


def table_of(column: Column) -> Table:
    return Table(Path("t"), {"a": column}, {}, len(column))


def test_a_comma_may_stand_for_the_point() -> None:
    right = ["38,6", "38", "-0,5", "+3,25", ",5", "1,5e-05", "1e3", "007,10", "1,234"]
    wrong = ["38.6", "1.234,5", "1,234,567", "1 234,5", "1,", ",", "1,5x"]
    column = column_of(*right, "", "NA")
    assert has_decimal_comma(column)
    values = numbers(table_of(column), column, comma=True)
    expected = [float(cell.replace(",", ".")) for cell in right]
    np.testing.assert_array_equal(values, [*expected, np.nan, np.nan])
    assert numeric_share(column_of(*right, *wrong), comma=True) == len(right) / 16
    with pytest.raises(DataError, match=r"with a decimal comma in column 'a'; got '38.6' in data"):
        numbers(table_of(column), column_of(*right, "38.6"), comma=True)


@pytest.mark.parametrize(
    ("cells", "comma"),
    [
        (("38,6", "37,1"), True),
        (("38,6", "37"), True),
        (("38", "37"), False),
        (("38.6", "37,1"), False),
        (("38.6", "37.1", "37,1"), False),
        (("38.6", "37,2", "37,1"), True),
        (("red", "blue"), False),
        (("", "NA"), False),
    ],
)
def test_the_mark_that_makes_more_numbers_is_taken(cells: tuple[str, ...], comma: bool) -> None:
    column = column_of(*cells)
    assert has_decimal_comma(column) == comma


@pytest.mark.parametrize("others", [(), ("999", "12,345"), ("-1,000", "", "7")])
def test_commas_that_may_divide_thousands_are_refused(others: tuple[str, ...]) -> None:
    column = column_of("1,234", *others)
    table = table_of(column)
    with pytest.raises(
        DataError, match=r"got '1,234' in data row 1, which may mean 1.234 or 1234,"
    ):
        numbers(table, column, comma=True)
    assert numbers(table, column, comma=True, known=True)[0] == 1.234


@pytest.mark.parametrize("other", ["1,5", "0,250", "1234,567", "1,2345", "012,345"])
def test_one_comma_that_divides_no_thousands_speaks_for_the_others(other: str) -> None:
    column = column_of("1,234", other)
    assert numbers(table_of(column), column, comma=True)[0] == 1.234


@pytest.mark.parametrize("others", [("950",), ("12.345", "-100", "", "7")])
def test_points_that_may_divide_thousands_are_refused(others: tuple[str, ...]) -> None:
    column = column_of("1.234", *others)
    with pytest.raises(DataError, match=r"the point means; got '1.234' .* may mean 1.234 or 1234,"):
        numbers(table_of(column), column)


@pytest.mark.parametrize(
    "others", [(), ("7",), ("950", "1.5"), ("950", "0.125"), ("950.0",), ("950", "1950")]
)
def test_points_that_are_decimals_by_the_others_stay_numbers(others: tuple[str, ...]) -> None:
    column = column_of("1.234", *others)
    assert numbers(table_of(column), column)[0] == 1.234

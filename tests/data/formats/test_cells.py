from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dessl.data.errors import DataError
from dessl.data.formats import cells
from dessl.data.formats.cells import Column, has_decimal_comma, numbers, numeric_share
from dessl.data.formats.fitting import read_table

SOURCE = Path("t")
NUMBERS = ["1", "1.", ".5", "+3", "-2e3", "1E5", "007", "1e-400", "-0.0", " 2 ", "4\u00a0"]
GAPS = ["", "NA", "?", " nan ", None]
OTHERS = ["1_000", "inf", "1e999", "٣", "0x10", "True", "3,5", "."]


@given(
    st.lists(st.sampled_from(NUMBERS + GAPS), min_size=1, max_size=20)
    | st.lists(st.sampled_from(NUMBERS + GAPS + OTHERS), min_size=1, max_size=20)
)
def test_cells_are_the_same_numbers_row_by_row_and_by_their_distinct_texts(texts: list) -> None:
    half = len(texts) // 2
    plain = pa.chunked_array([texts[:half], texts[half:]], pa.string())
    by_row, by_text = Column("a", None, plain), Column("a", None, plain.dictionary_encode())
    (values, wrong, rows), expected = by_row.parsed(), by_text.parsed()
    np.testing.assert_array_equal(values[rows], expected.values[expected.rows])
    np.testing.assert_array_equal(wrong[rows], expected.wrong[expected.rows])
    assert by_row.texts.to_pylist() == sorted({(text or "").strip() for text in texts})
    assert [by_row.cell(row) for row in range(len(texts))] == [(t or "").strip() for t in texts]


def test_each_column_is_parsed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = []

    def counted(texts: pa.Array, *, comma: bool) -> tuple[np.ndarray, np.ndarray]:
        parsed.append(texts)
        return real(texts, comma=comma)

    real = cells._parsed
    monkeypatch.setattr(cells, "_parsed", counted)
    rows = [f"{k * k},{k * k % 7},{'ab'[k % 2]}" for k in range(20)]
    (tmp_path / "a.csv").write_text("\n".join(["m,n,y", *rows]))
    assert read_table(tmp_path / "a.csv", label="y")[0].feature_names == ("m", "n")
    assert len(parsed) == 2


def test_numbers_are_those_of_a_table_without_a_programs_liberties() -> None:
    """Python's float is the judge of what is left."""
    right = ["1", "1.", ".5", "+3", "-2e3", "1E5", "-.5e-3", "007", "1e-400"]
    wrong = ["1e400", "0x1", "1_0", "inf", "٣", "+-3", "++3", "1e", "1,5", ".", "e5"]
    missing = ["nan", "NA", "?", ""]
    spelt = right + wrong + missing
    column = Column.of_texts("a", pa.array(spelt), np.arange(len(spelt)))
    assert [column.cell(row) for row in range(len(spelt))] == spelt
    assert numeric_share(column) == len(right) / len(right + wrong)
    column = Column.of_texts("a", pa.array([*right, ""]), np.arange(len(right) + 1))
    np.testing.assert_array_equal(numbers(SOURCE, column), [*map(float, right), np.nan])


def column_of(*cells: str) -> Column:
    return Column.of_texts("a", pa.array(cells), np.arange(len(cells)))


def test_a_comma_may_stand_for_the_point() -> None:
    right = ["38,6", "38", "-0,5", "+3,25", ",5", "1,5e-05", "1e3", "007,10", "1,234"]
    wrong = ["38.6", "1.234,5", "1,234,567", "1 234,5", "1,", ",", "1,5x"]
    column = column_of(*right, "", "NA")
    assert has_decimal_comma(column)
    values = numbers(SOURCE, column, comma=True)
    expected = [float(cell.replace(",", ".")) for cell in right]
    np.testing.assert_array_equal(values, [*expected, np.nan, np.nan])
    assert numeric_share(column_of(*right, *wrong), comma=True) == len(right) / 16
    with pytest.raises(DataError, match=r"with a decimal comma in column 'a'; got '38.6' in data"):
        numbers(SOURCE, column_of(*right, "38.6"), comma=True)


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
    with pytest.raises(
        DataError, match=r"got '1,234' in data row 1, which may mean 1.234 or 1234,"
    ):
        numbers(SOURCE, column, comma=True)
    assert numbers(SOURCE, column, comma=True, known=True)[0] == 1.234


@pytest.mark.parametrize("other", ["1,5", "0,250", "1234,567", "1,2345", "012,345"])
def test_one_comma_that_divides_no_thousands_speaks_for_the_others(other: str) -> None:
    column = column_of("1,234", other)
    assert numbers(SOURCE, column, comma=True)[0] == 1.234


@pytest.mark.parametrize("others", [("950",), ("12.345", "-100", "", "7")])
def test_points_that_may_divide_thousands_are_refused(others: tuple[str, ...]) -> None:
    column = column_of("1.234", *others)
    with pytest.raises(DataError, match=r"the point means; got '1.234' .* may mean 1.234 or 1234,"):
        numbers(SOURCE, column)


@pytest.mark.parametrize(
    "others", [(), ("7",), ("950", "1.5"), ("950", "0.125"), ("950.0",), ("950", "1950")]
)
def test_points_that_are_decimals_by_the_others_stay_numbers(others: tuple[str, ...]) -> None:
    column = column_of("1.234", *others)
    assert numbers(SOURCE, column)[0] == 1.234

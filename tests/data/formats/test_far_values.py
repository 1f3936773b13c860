"""Numbers far from all others: marks, mistakes and other units are noticed, heavy tails are not."""

import warnings
from pathlib import Path

import numpy as np
import pytest

from dessl.data.formats.encoding import TableEncoding
from dessl.data.formats.far_values import far_value
from dessl.data.formats.fitting import read_new_table, read_table


def written(path: Path, *columns: object) -> Path:
    rows = zip(*columns, strict=True)
    lines = [",".join(str(cell) for cell in row) for row in rows]
    path.write_text("\n".join(["a,b,y", *lines]) + "\n")
    return path


A, B = np.linspace(140, 2500, 40), np.linspace(-1, 1, 40)
Y = ["no", "yes"] * 20


@pytest.mark.parametrize("mark", [-999.0, 9999.0])
def test_a_mark_of_missing_cells_is_found(mark: float) -> None:
    assert far_value(np.array([*B, mark, mark])) == (mark, 2, -1.0, 1.0)
    assert far_value(np.array([*B, mark])) == (mark, 1, -1.0, 1.0)  # beyond 100 ranges too


@pytest.mark.parametrize(
    "values",
    [
        B,
        [*B, 50.0],  # once, and not beyond 100 ranges
        [*B, 6.0, 6.0],  # twice, and not beyond three
        [0.0, 0.0, 1.0, 1.0],
        [0.0, 0.0, 999.0],  # nothing is known of the usual range
        np.random.default_rng(0).lognormal(0, 3, 5000),
        np.random.default_rng(0).pareto(1, 5000),
        np.random.default_rng(0).poisson(0.02, 5000),
    ],
)
def test_ordinary_and_heavy_tailed_columns_are_left_alone(values: object) -> None:
    assert far_value(np.asarray(values)) is None


@pytest.mark.parametrize("mark", ["-999", "-9999999", "99999.25"])
def test_a_mark_is_named_with_its_option(tmp_path: Path, mark: str) -> None:
    marked = np.where(np.arange(40) % 10 == 0, float(mark), B)
    path = written(tmp_path / "a.csv", A, marked, Y)
    expected = rf"{mark} in 4 cells of 'b', all others from -0.94\d* to 1. If it marks missing "
    with pytest.warns(UserWarning, match=f"{expected}cells, pass --missing={mark} "):
        read_table(path, label="y")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_table(path, label="y", missing=(mark,))


def test_a_mistake_is_named(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", A, [*B[:-1], 1e30], Y)
    with pytest.warns(UserWarning, match=r"1e\+30 in 1 cell of 'b', .*Correct such cells"):
        read_table(path, label="y")


def test_another_unit_in_a_later_table_is_noticed(tmp_path: Path) -> None:
    _, encoding = read_table(written(tmp_path / "a.csv", A, B, Y), label="y")
    again = TableEncoding.from_dict(encoding.as_dict())
    assert again == encoding
    same = written(tmp_path / "same.csv", 1.2 * A, 2 * B, Y)  # a little outside
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_new_table(same, again)
    grams = written(tmp_path / "grams.csv", 1000 * A, B, Y)
    expected = r"40 of 40 in 'a', such as 140000 \(training: 140 to 2500\)"
    with pytest.warns(UserWarning, match=f"{expected}. Predictions for such rows are not reliable"):
        read_new_table(grams, again)


def test_a_column_that_left_its_range_need_not_be_far(tmp_path: Path) -> None:
    celsius = np.linspace(11, 29, 40)
    _, encoding = read_table(written(tmp_path / "a.csv", celsius, B, Y), label="y")
    fahrenheit = written(tmp_path / "f.csv", celsius * 9 / 5 + 32, B, Y)
    with pytest.warns(UserWarning, match=r"numbers outside the range.*: 40 of 40 in 'a'"):
        read_new_table(fahrenheit, encoding)
    with warnings.catch_warnings():  # a few rows say nothing
        warnings.simplefilter("error")
        read_new_table(written(tmp_path / "b.csv", celsius[:5] + 30, B[:5], Y[:5]), encoding)


def test_the_number_is_that_of_the_file(tmp_path: Path) -> None:
    _, encoding = read_table(written(tmp_path / "a.csv", 1.7e9 + A, B, Y), label="y")
    days = written(tmp_path / "days.csv", [19723, *A[1:]], B, Y)
    with pytest.warns(UserWarning, match="40 of 40 in 'a', such as 19723 "):
        read_new_table(days, encoding)
    german = days.read_text().replace("19723", "19723.5").replace(",", ";").replace(".", ",")
    days.write_text(german)
    with pytest.warns(UserWarning, match=r"40 of 40 in 'a', such as 19723.5 "):
        read_new_table(days, encoding)


def test_an_older_encoding_knows_no_ranges(tmp_path: Path) -> None:
    _, encoding = read_table(written(tmp_path / "a.csv", A, B, Y), label="y")
    entries = encoding.as_dict()
    for column in entries["columns"]:
        del column["low"], column["high"]
    older = TableEncoding.from_dict(entries)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_new_table(written(tmp_path / "b.csv", 1000 * A, B, Y), older)

"""Columns of dates: parts as pandas computes them, time zones, gaps, and other cells."""

import datetime
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from dessl.data.errors import DataError
from dessl.data.formats.encoding import TableEncoding
from dessl.data.formats.fitting import read_new_table, read_table

DAYS = pd.date_range("1999-02-25", periods=40, freq="97D")


def written(path: Path, cells: list[object], *, name: str = "seen") -> Path:
    frame = pd.DataFrame({name: cells, "n": np.arange(len(cells)) % 7})
    frame["y"] = np.where(np.arange(len(cells)) % 2 == 0, "a", "b")
    frame.to_csv(path, index=False) if path.suffix == ".csv" else frame.to_parquet(path)
    return path


def expected(moments: pd.Series, utc: pd.Series | None = None) -> dict[str, np.ndarray]:
    """Every part of a date, by pandas."""
    days = (moments if utc is None else utc) - pd.Timestamp(0)
    year = 2 * np.pi * (moments.dt.day_of_year - 1) / (365 + moments.dt.is_leap_year)
    week, day = 2 * np.pi * moments.dt.day_of_week / 7, (moments - moments.dt.normalize()).dt
    time = 2 * np.pi * day.total_seconds() / 86_400
    return {
        "elapsed days": days.dt.total_seconds() / 86_400,
        "year": moments.dt.year,
        "month": moments.dt.month,
        "day of year, sine": np.sin(year),
        "day of year, cosine": np.cos(year),
        "weekday, sine": np.sin(week),
        "weekday, cosine": np.cos(week),
        "weekend": moments.dt.day_of_week >= 5,
        "time of day, sine": np.sin(time),
        "time of day, cosine": np.cos(time),
    }


def check(path: Path, parts: dict[str, np.ndarray]) -> None:
    data, encoding = read_table(path, label="y")
    again = TableEncoding.from_dict(json.loads(json.dumps(encoding.as_dict())))
    assert again == encoding
    np.testing.assert_array_equal(read_new_table(path, again).x, data.x)
    floats = {f"seen: {name}": np.asarray(values, float) for name, values in parts.items()}
    kept = {name: values for name, values in floats.items() if np.ptp(values) > 0}
    assert data.feature_names == (*kept, "n")
    for number, values in enumerate(kept.values()):
        np.testing.assert_allclose(data.x[:, number], values - values.mean(), atol=1e-3, rtol=1e-6)


@pytest.mark.parametrize(
    "written_as",
    [
        "%Y-%m-%d",
        "%Y/%m/%d",
        "%d.%m.%Y",
        "%m/%d/%Y",
        "%d-%m-%Y",
        "%d %b %Y",
        "%d-%b-%Y",
        "%B %d, %Y",
    ],
)
def test_days_become_parts_of_a_date(tmp_path: Path, written_as: str) -> None:
    path = written(tmp_path / "a.csv", list(DAYS.strftime(written_as)))
    check(path, {**expected(DAYS.to_series()), "time of day, sine": 0, "time of day, cosine": 0})


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("zone", [None, "Europe/Oslo"])
def test_moments_have_a_time_of_day_on_the_wall(
    tmp_path: Path, suffix: str, zone: str | None
) -> None:
    """Elapsed days are those of UTC, whatever the offset; all else is what the cell shows."""
    moments = pd.Series(pd.date_range("2023-03-20 05:17:30", periods=60, freq="9h13min", tz=zone))
    wall = moments.dt.tz_localize(None)
    utc = wall if zone is None else moments.dt.tz_convert("UTC").dt.tz_localize(None)
    cells = [moment.isoformat() for moment in moments] if suffix == ".csv" else list(moments)
    check(written(tmp_path / f"a{suffix}", cells), expected(wall, utc))


def test_the_order_of_training_holds_for_new_rows_and_hours_may_be_halves(tmp_path: Path) -> None:
    moments = pd.Series(pd.date_range("2024-01-03 00:20", periods=40, freq="31h"))
    cells = list(moments.dt.strftime("%m/%d/%Y %I:%M %p"))
    data, encoding = read_table(written(tmp_path / "a.csv", cells), label="y")
    assert encoding.columns[0].first == "month"
    days = (moments - moments.mean()).dt.total_seconds() / 86_400
    np.testing.assert_allclose(data.x[:, 0], days, atol=1e-3)
    few = read_new_table(written(tmp_path / "b.csv", ["3/4/2024 12:00 PM", "3/5/2024"]), encoding)
    noon = (pd.Timestamp("2024-03-04 12:00") - moments.mean()).total_seconds() / 86_400
    np.testing.assert_allclose(few.x[:, 0], [noon, noon + 0.5], atol=1e-3)
    with pytest.raises(DataError, match="got '31/3/2024' in data row 1"):
        read_new_table(written(tmp_path / "b.csv", ["31/3/2024"]), encoding)
    with pytest.raises(DataError, match="got '3/4/2024 13:00 PM'"):
        read_new_table(written(tmp_path / "b.csv", ["3/4/2024 13:00 PM"]), encoding)


def test_dates_of_a_parquet_file_and_gaps(tmp_path: Path) -> None:
    cells = [None if k % 10 == 3 else day.date() for k, day in enumerate(DAYS)]
    data, encoding = read_table(written(tmp_path / "a.parquet", cells), label="y")
    assert encoding.columns[0].indicator
    place = data.feature_names.index("seen is missing")
    assert data.x[:, place].tolist() == [k % 10 == 3 for k in range(40)]
    known = [cell for cell in cells if cell is not None]
    seconds = (known - np.array(datetime.date(1970, 1, 1))) / datetime.timedelta(days=1)
    assert data.x[3, 0] == pytest.approx(np.median(seconds) - np.mean(seconds), abs=1e-3)
    text = ["NA" if cell is None else cell.isoformat() for cell in cells]
    again = read_new_table(written(tmp_path / "b.csv", text), encoding)
    np.testing.assert_array_equal(again.x, data.x)


def test_a_later_column_without_dates_may_be_stored_as_numbers(tmp_path: Path) -> None:
    _, encoding = read_table(written(tmp_path / "a.parquet", [*DAYS[1:], None]), label="y")
    none = read_new_table(written(tmp_path / "b.parquet", [None] * 3), encoding)
    numbers = read_new_table(written(tmp_path / "c.parquet", [np.nan] * 3), encoding)
    assert torch.equal(none.x, numbers.x)
    path = written(tmp_path / "d.parquet", [np.nan, 7.0, np.nan])
    with pytest.raises(DataError, match="'7' in data row 2"):
        read_new_table(path, encoding)


def test_a_cell_that_is_no_date_is_named(tmp_path: Path) -> None:
    cells = list(DAYS.strftime("%Y-%m-%d"))
    path = written(tmp_path / "a.csv", cells)
    _, encoding = read_table(path, label="y")
    with pytest.raises(DataError, match=r"got 'soon' in data row 5.*--categorical"):
        read_table(written(path, [*cells[:4], "soon", *cells[5:]]), label="y")
    with pytest.raises(DataError, match="got '2023-02-30' in data row 1"):
        read_new_table(written(path, ["2023-02-30", *cells[1:]]), encoding)
    with pytest.raises(DataError, match=r"dates in column 'seen'.* got '0' in data row 1"):
        read_new_table(written(tmp_path / "a.parquet", [float(k) for k in range(9)]), encoding)


def test_dates_may_be_categories_and_odd_ones_are_explained(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", ["2024-01-01", "2024-01-02"] * 10)
    _, encoding = read_table(path, label="y", categorical=["seen"])
    assert encoding.feature_names[:2] == ("seen=2024-01-01", "seen=2024-01-02")
    unclear = [f"{month}/{day}/2024" for month in (3, 5, 7, 9) for day in (1, 2, 4, 6, 8, 10)]
    with pytest.warns(UserWarning, match="dropped 'seen': dates whose day and month"):
        read_table(written(path, unclear), label="y")
    both = [*unclear, "13/1/2024", "1/13/2024"]
    with pytest.warns(UserWarning, match="dropped 'seen': dates whose day and month"):
        read_table(written(path, both), label="y")
    short = [f"{day}/{month}/24" for month in (3, 5, 7, 9) for day in (11, 12, 14, 16, 18, 20)]
    with pytest.warns(UserWarning, match="dropped 'seen': dates with two digits for the year"):
        read_table(written(path, short), label="y")
    with pytest.warns(UserWarning, match="dropped 'seen': constant"):
        read_table(written(path, ["2024-01-01"] * 20), label="y")


@pytest.mark.parametrize(
    "damage",
    [
        {"parts": ["x"]},
        {"means": []},
        {"means": ["nan"]},
        {"median": 1e999},
        {"indicator": 0},
        {"first": "x"},
    ],
)
def test_damaged_entries_are_refused(tmp_path: Path, damage: dict) -> None:
    path = written(tmp_path / "a.csv", ["2024-01-01", "2025-01-01"] * 10)
    entries = read_table(path, label="y")[1].as_dict()
    entries["columns"][0] |= damage
    with pytest.raises(DataError, match="a table encoding of version 1"):
        TableEncoding.from_dict(entries)

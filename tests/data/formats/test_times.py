"""Columns of times of day: hours, sine and cosine, however they are stored, now and later."""

import datetime
import json
from pathlib import Path

import numpy as np
import openpyxl
import pandas as pd
import pytest

from dessl.data.errors import DataError
from dessl.data.formats.columns import NumericColumn
from dessl.data.formats.encoding import TableEncoding
from dessl.data.formats.fitting import read_new_table, read_table
from dessl.data.formats.frames import read_frame

N = 60
SECONDS = np.arange(N) * 1439 % 86_400  # 23:59 later each time
TIMES = [(datetime.datetime(1, 1, 1) + datetime.timedelta(seconds=int(s))).time() for s in SECONDS]
PARTS = ("hours", "time of day, sine", "time of day, cosine")


def expected(seconds: np.ndarray) -> np.ndarray:
    angle = 2 * np.pi * seconds / 86_400
    parts = np.stack([seconds / 3600, np.sin(angle), np.cos(angle)], axis=1)
    return parts - parts.mean(0)


def written(path: Path, cells: list[object]) -> Path:
    frame = pd.DataFrame({"at": cells, "n": np.arange(len(cells)) % 7})
    frame["y"] = np.where(np.arange(len(cells)) % 2 == 0, "a", "b")
    if path.suffix == ".csv":
        frame.to_csv(path, index=False)
    elif path.suffix == ".parquet":
        frame.to_parquet(path)
    else:
        book = openpyxl.Workbook()
        for row in [frame.columns, *frame.itertuples(index=False)]:
            book.active.append(list(row))
        book.save(path)
    return path


def again(encoding: TableEncoding) -> TableEncoding:
    copy = TableEncoding.from_dict(json.loads(json.dumps(encoding.as_dict())))
    assert copy == encoding
    return copy


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".xlsx"])
def test_times_are_read_alike_from_every_kind_of_file(tmp_path: Path, suffix: str) -> None:
    path = written(tmp_path / f"a{suffix}", TIMES)
    data, encoding = read_table(path, label="y")
    assert data.feature_names == (*(f"at: {part}" for part in PARTS), "n")
    np.testing.assert_allclose(data.x[:, :3], expected(SECONDS), atol=1e-5)
    for other in (".csv", ".parquet", ".xlsx"):
        new = read_new_table(written(tmp_path / f"b{other}", TIMES), again(encoding))
        np.testing.assert_allclose(new.x, data.x, atol=1e-6)
    frame = read_frame(pd.DataFrame({"at": TIMES, "n": np.arange(N) % 7}))
    np.testing.assert_allclose(encoding.features(frame.table()), data.x, atol=1e-6)


@pytest.mark.parametrize("form", ["%H:%M", "%H:%M:%S", "%I:%M %p", "%I:%M:%S%p", "%H:%M:%S.%f"])
def test_times_are_read_in_every_spelling(tmp_path: Path, form: str) -> None:
    cells = [time.strftime(form) for time in TIMES]
    data, _ = read_table(written(tmp_path / "a.csv", [*cells]), label="y")
    seconds = SECONDS if "%S" in form else SECONDS - SECONDS % 60
    np.testing.assert_allclose(data.x[:, :3], expected(seconds), atol=1e-5)


def test_a_missing_time_is_marked_and_is_the_median(tmp_path: Path) -> None:
    cells = [None if k % 10 == 3 else time for k, time in enumerate(TIMES)]
    data, encoding = read_table(written(tmp_path / "a.csv", cells), label="y")
    assert data.feature_names[3] == "at is missing"
    assert data.x[:, 3].tolist() == [k % 10 == 3 for k in range(N)]
    known = np.array([SECONDS[k] for k in range(N) if k % 10 != 3])
    median = (np.median(known) - known.mean()) / 3600
    assert data.x[3, 0] == pytest.approx(median, abs=1e-4)
    few = read_new_table(written(tmp_path / "b.csv", ["9:05", "24:00", ""]), again(encoding))
    hours = np.array([9 + 5 / 60, 24.0]) - known.mean() / 3600
    np.testing.assert_allclose(few.x[:2, 0], hours, atol=1e-5)
    assert few.x[:, 3].tolist() == [0, 0, 1]


def test_a_cell_that_is_no_time_is_named(tmp_path: Path) -> None:
    cells = [time.strftime("%H:%M") for time in TIMES]
    _, encoding = read_table(written(tmp_path / "a.csv", cells), label="y")
    with pytest.raises(DataError, match=r"times of day in column 'at'.*got 'late' in data row 5"):
        read_table(written(tmp_path / "b.csv", [*cells[:4], "late", *cells[5:]]), label="y")
    with pytest.raises(DataError, match=r"as 13:15 or 13:15:30; got '25:00' in data row 1"):
        read_new_table(written(tmp_path / "b.csv", ["25:00"]), encoding)
    with pytest.raises(DataError, match=r"times of day .* got '0' in data row 1"):
        read_new_table(written(tmp_path / "b.parquet", [0.0, 1.0]), encoding)


@pytest.mark.parametrize(
    ("cells", "feature"),
    [
        (["3:1", "2:0", "10:2"] * 20, "at=10:2"),  # scores of matches
        (["30:15", "70:00", "99:59"] * 20, "at=30:15"),  # hours and minutes that something took
        (["13:15 PM", "0:15 PM"] * 30, "at=0:15 PM"),
    ],
)
def test_other_texts_with_a_colon_are_categories(
    tmp_path: Path, cells: list[object], feature: str
) -> None:
    data, _ = read_table(written(tmp_path / "a.csv", cells), label="y")
    assert data.feature_names[0] == feature


def test_times_may_be_categories_or_constant(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", ["08:00", "20:00"] * 30)
    _, encoding = read_table(path, label="y", categorical=["at"])
    assert encoding.feature_names[:2] == ("at=08:00", "at=20:00")
    with pytest.warns(UserWarning, match="dropped 'at': constant"):
        read_table(written(path, ["08:00"] * 20), label="y")


def test_models_of_older_versions_read_times_of_workbooks_as_parts_of_a_day(
    tmp_path: Path,
) -> None:
    column = NumericColumn("at", 0.5, 0.5, 1.0, False, low=0.5, high=0.51)
    older = TableEncoding("y", ("a", "b"), (column,))
    with pytest.warns(UserWarning, match=r"of 60 in 'at', such as 0 \(training: 0.5 to 0.51\)"):
        new = read_new_table(written(tmp_path / "a.xlsx", [datetime.time(0), *TIMES[1:]]), older)
    np.testing.assert_allclose(new.x[:, 0], SECONDS / 86_400 - 0.5, atol=1e-6)
    years = TableEncoding("y", ("a", "b"), (NumericColumn("at", 5, 5, 1, False, low=1, high=9),))
    with pytest.raises(DataError, match="numbers in column 'at'; got '00:00:00'"):
        read_new_table(tmp_path / "a.xlsx", years)


@pytest.mark.parametrize(
    "damage",
    [{"parts": ["year"]}, {"means": []}, {"median": 1e999}, {"indicator": 0}, {"first": "day"}],
)
def test_damaged_entries_are_refused(tmp_path: Path, damage: dict) -> None:
    entries = read_table(written(tmp_path / "a.csv", TIMES), label="y")[1].as_dict()
    entries["columns"][0] |= damage
    with pytest.raises(DataError, match="a table encoding of version 1"):
        TableEncoding.from_dict(entries)

"""Frames of pandas and of Arrow are read as a file with the same table is."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dessl.data import DataError
from dessl.data.formats.encoding import TableEncoding
from dessl.data.formats.fitting import read_table
from dessl.data.formats.frames import (
    Frame,
    frame_encoding,
    identifiers,
    is_frame,
    is_numbers,
    read_frame,
)

N = 40


@pytest.fixture
def people() -> pd.DataFrame:
    """Numbers with gaps, text, truth values, days and categories."""
    draw = np.random.default_rng(0)
    age = draw.normal(40, 10, N).round(1)
    age[::7] = np.nan
    return pd.DataFrame(
        {
            "age": age,
            "town": draw.choice(["Oslo", "Bergen"], N),
            "smoker": draw.random(N) < 0.5,
            "seen": pd.Timestamp("2020-01-01") + pd.to_timedelta(draw.integers(0, 5, N), "D"),
            "children": pd.array(draw.integers(0, 4, N), dtype="Int64"),
        }
    )


def encoded(frame: Frame) -> np.ndarray:
    codes = np.arange(N) % 3 - 1
    table = frame.table()
    encoding = frame_encoding(table, codes, label="sick", class_names=("no", "yes"))
    assert encoding.class_names == ("no", "yes")
    return encoding.features(table)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_frame_has_the_features_of_the_file(
    people: pd.DataFrame, tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"people{suffix}"
    whole = people.assign(sick=np.array([None, "no", "yes"], object)[np.arange(N) % 3])
    whole.to_csv(path, index=False) if suffix == ".csv" else whole.to_parquet(path)
    data, _ = read_table(path, label="sick")
    assert np.array_equal(encoded(read_frame(people)), data.x.numpy())


def test_whoever_hands_out_arrow_columns_is_a_frame(people: pd.DataFrame) -> None:
    class Stream:  # as Polars, DuckDB and others do
        columns = tuple(people.columns)

        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            return pa.Table.from_pandas(people).__arrow_c_stream__(requested_schema)

    assert is_frame(Stream())
    assert is_frame(people)
    assert not is_frame(people.to_numpy())
    assert not is_frame(people["age"])
    assert np.array_equal(encoded(read_frame(Stream())), encoded(read_frame(people)))


def test_categories_of_numbers_are_categories(people: pd.DataFrame) -> None:
    frame = read_frame(people[["age"]].assign(ward=pd.Categorical(np.arange(N) % 3 + 7)))
    codes = np.arange(N) % 2
    fitted = frame_encoding(
        frame.table(), codes, label="x", class_names="ab", categorical=frame.categorical
    )
    assert fitted.feature_names[-3:] == ("ward=7", "ward=8", "ward=9")


def test_categories_and_texts_as_polars_hands_them_out() -> None:
    texts = pa.array(["a", "b", None], pa.string_view())
    coded = pa.DictionaryArray.from_arrays(pa.array([1, 0, None]), texts[:2])
    frame = read_frame(pa.table({"text": texts, "category": coded}))
    assert frame.categorical == ("category",)
    assert frame.arrow.to_pydict() == {"text": ["a", "b", None], "category": ["b", "a", None]}


def test_objects_of_several_kinds_are_their_texts() -> None:
    odd = pd.DataFrame({"odd": [1, "x", None, 2.5]})
    assert read_frame(odd).arrow["odd"].to_pylist() == ["1", "x", None, "2.5"]


@pytest.mark.parametrize(
    ("column", "plain"),
    [
        ([1, 2, 3], True),
        ([1.5, 2.0, 3.0], True),
        ([1.5, np.nan, 3.0], False),
        ([True, False, True], False),
        (["a", "b", "a"], False),
        (pd.Categorical([1, 2, 1]), False),
    ],
)
def test_numbers_without_gaps_are_an_array(column: object, plain: bool) -> None:
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": column})
    assert read_frame(frame).all_numbers == plain
    assert is_numbers(frame) == plain
    assert is_numbers(pa.Table.from_pandas(frame)) == plain


def test_rows_follow_rows_by_the_names_of_their_columns(people: pd.DataFrame) -> None:
    both = read_frame(people[:10]).followed_by(read_frame(people[10:][people.columns[::-1]]))
    assert np.array_equal(encoded(both), encoded(read_frame(people)))


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "'a' twice"),
        (pd.DataFrame({"a": [1 + 2j]}), "numbers or text in column 'a'; got type complex128"),
        (pd.DataFrame({"a": []}), "at least one row"),
    ],
)
def test_what_cannot_be_read_is_said(frame: pd.DataFrame, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_frame(frame).table()


def test_a_column_that_says_nothing_is_dropped_with_a_word(people: pd.DataFrame) -> None:
    frame = read_frame(people.assign(id=[f"p{k}" for k in range(N)], one="same"))
    with pytest.warns(UserWarning, match=r"X: dropped 'id' \(.*'one' \(constant\)"):
        encoded(frame)


def test_a_dropped_identifier_can_be_kept(people: pd.DataFrame) -> None:
    rank = np.random.default_rng(1).permutation(N)
    expected = r"dropped 'rank' \(whole numbers without a repeat.*add 0\.5 to its numbers"
    with pytest.warns(UserWarning, match=expected):
        assert (
            encoded(read_frame(people.assign(rank=rank))).shape == encoded(read_frame(people)).shape
        )
    assert encoded(read_frame(people.assign(rank=rank + 0.5)))[:, -1].tolist() == pytest.approx(
        rank - rank.mean()
    )


@pytest.mark.parametrize("make", [pd.DataFrame, pa.Table.from_pydict])
def test_identifiers_of_a_frame_of_numbers_are_found(make: Callable) -> None:
    rank = np.random.default_rng(1).permutation(N)
    frame = make({"rank": rank, "float": rank + 7.0, "half": rank + 0.5, "few": rank % 9})
    assert identifiers(frame) == ["rank", "float"]


def test_numbers_may_be_objects() -> None:
    rank = np.random.default_rng(1).permutation(N)
    frame = pd.DataFrame({"rank": rank, "half": rank + 0.5}, dtype=object)
    assert is_numbers(frame)
    assert identifiers(frame) == ["rank"]


@pytest.mark.parametrize(
    ("make", "how"),
    [
        (pd.DataFrame, r"X\.drop\(columns='many'\)\.$"),
        (pa.table, r"or drop it from the data frame\.$"),
    ],
)
def test_what_to_do_with_a_frame_is_said(make: Callable, how: str) -> None:
    lists = read_frame(make({"age": np.arange(N) / 7, "many": [[1]] * N}))
    with pytest.raises(DataError, match=f"column 'many'; got type list.*{how}"):
        encoded(lists)


def fitted(X: pd.DataFrame) -> TableEncoding:
    frame, codes = read_frame(X), np.arange(len(X)) % 2
    return frame_encoding(
        frame.table(), codes, label="y", class_names="ab", categorical=frame.categorical
    )


@pytest.mark.parametrize(
    ("cells", "how", "feature"),
    [
        ([f"{k % 30}%" for k in range(N)], r"Remove the sign '%': (.*?); or,", "a"),
        ([f"${k % 30 + 1},810" for k in range(N)], r"'\$' and .* thousands: (.*?); or,", "a"),
        ([np.inf, *np.linspace(0, 1, N - 1)], r"by a number or NaN: (.*?)\.$", "a"),
        (["unknown", *(str(k % 30) for k in range(N - 1))], r"not a number by NaN: (.*?); or", "a"),
        (["unknown", *(str(k % 30) for k in range(N - 1))], r"has categories, pass (.*)\.$", "a=0"),
        (["unknown", *(k % 30 for k in range(N - 1))], r"has categories, pass (.*)\.$", "a=0"),
        (["soon", *["2024-01-01", "2024-01-02"] * (N // 2)][:N], "pass (.*).$", "a=soon"),
    ],
)
def test_the_advice_for_a_column_of_a_frame_works(
    people: pd.DataFrame, cells: list[object], how: str, feature: str
) -> None:
    X = people.assign(a=cells)
    with pytest.raises(DataError, match=how) as caught:
        fitted(X)
    said = str(caught.value)
    assert not re.search("--|categorical=|missing=|ignore=", said)
    found = re.search(how, said)
    assert found is not None
    better = X.assign(a=eval(found[1], {"X": X, "np": np, "pd": pd}))
    assert feature in fitted(better).feature_names


def test_later_rows_of_a_frame_are_advised_to_be_converted(people: pd.DataFrame) -> None:
    encoding = fitted(people)
    with pytest.raises(
        DataError, match=r"pd\.to_numeric\(X\['age'\].*train again with X"
    ) as caught:
        encoding.features(read_frame(people.assign(age="old")).table())
    assert "--" not in str(caught.value)


def test_warnings_about_a_frame_name_no_options(people: pd.DataFrame) -> None:
    mark = np.where(np.arange(N) % 10 == 0, -999, np.linspace(0, 1, N))
    with pytest.warns(
        UserWarning, match=r"marks missing cells, pass X\.replace\(\[-999\], np\.nan"
    ):
        fitted(people.assign(mark=mark))
    groups = people.sample(4 * N, replace=True, random_state=0)
    groups["who"] = [f"p{k // 2}" for k in range(4 * N)]
    with pytest.warns(UserWarning, match=r"fit\(X\.drop\(columns='who'\), y, groups=X\['who'\]"):
        fitted(groups)

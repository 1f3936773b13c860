import datetime
import decimal
import json
import math
import re
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from dessl.data.errors import DataError
from dessl.data.formats.encoding import TableEncoding
from dessl.data.formats.fitting import encoded_table, fit_encoding, read_new_table, read_table
from dessl.data.formats.frames import read_frame
from dessl.data.formats.tables import Table, open_table
from dessl.data.semi import SemiData
from dessl.recipes.scaling import scaling_of


def people(n: int = 60) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": rng.normal(40, 12, n),
            "income": np.exp(rng.normal(10, 1, n)),
            "town": rng.choice(["Oslo", "Bergen", "Tromsø"], n),
            "outcome": rng.choice(["yes", "no"], n),
        }
    )
    frame.loc[frame.index % 7 == 0, "age"] = np.nan
    frame.loc[frame.index % 5 == 0, "town"] = None
    frame.loc[frame.index % 3 == 0, "outcome"] = None
    return frame


def table_of_frame(frame: pd.DataFrame) -> Table:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "frame.parquet"
        frame.to_parquet(path, index=False)
        return open_table(path)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_features_agree_with_scikit_learn(tmp_path: Path, suffix: str) -> None:
    frame = people()
    path = tmp_path / f"people{suffix}"
    frame.to_csv(path, index=False) if suffix == ".csv" else frame.to_parquet(path)
    data, encoding = read_table(path, label="outcome")

    # scikit-learn's scaler passes missing values over, so centre first and then put in the median
    centred = make_pipeline(StandardScaler(with_std=False), SimpleImputer(strategy="median"))
    missing = FunctionTransformer(lambda column: column.isna().to_numpy(np.float64))
    one_hot = OneHotEncoder(categories=[["Bergen", "Oslo", "Tromsø"]], handle_unknown="ignore")
    reference = ColumnTransformer(
        [
            ("age", make_union(centred, missing), ["age"]),
            ("income", StandardScaler(with_std=False), ["income"]),
            ("town", make_union(one_hot, missing), ["town"]),
        ],
        sparse_threshold=0,
    )
    np.testing.assert_allclose(data.x, reference.fit_transform(frame), rtol=1e-4, atol=1e-5)
    assert data.x.dtype == torch.float32
    assert data.feature_names == encoding.feature_names
    assert encoding.feature_names == (
        *("age", "age is missing", "income"),
        *("town=Bergen", "town=Oslo", "town=Tromsø", "town is missing"),
    )
    expected = frame["outcome"].map({"no": 0, "yes": 1}).fillna(-1).to_numpy()
    np.testing.assert_array_equal(data.y, expected)
    semi = SemiData(data.x, data.y, class_names=data.class_names)
    assert semi.n_unlabelled == 20


def test_later_tables_get_the_encoding_of_the_first(tmp_path: Path) -> None:
    frame = people()
    path = tmp_path / "people.csv"
    frame.to_csv(path, index=False)
    data, encoding = read_table(path, label="outcome")
    again = TableEncoding.from_dict(json.loads(json.dumps(encoding.as_dict())))
    assert again == encoding
    part = frame.iloc[10:20].drop(columns="outcome")[["town", "income", "age"]]
    part.to_csv(tmp_path / "new.csv", index=False)
    new = read_new_table(tmp_path / "new.csv", again)
    np.testing.assert_array_equal(new.x, data.x[10:20])
    assert new.y.tolist() == [-1] * 10
    assert new.class_names == ("no", "yes")


def test_unseen_categories_are_zeros_and_unseen_gaps_the_median(tmp_path: Path) -> None:
    frame = people()
    encoding = fit_encoding(table_of_frame(frame), label="outcome")
    odd = frame.iloc[[1, 2]].copy()
    odd["town"] = "Atlantis"
    odd["income"] = np.nan
    with (
        pytest.warns(UserWarning, match="2 of 2 cells in column 'town' .* such as 'Atlantis'; "),
        pytest.warns(UserWarning, match=r"complete in training: 2 in 'income' \(of 2"),
    ):
        x = encoded_table(table_of_frame(odd), encoding).x
    place = encoding.feature_names.index
    towns = [place(name) for name in encoding.feature_names if name.startswith("town")]
    assert not x[:, towns].any()
    income = frame["income"]
    np.testing.assert_allclose(x[:, place("income")], income.median() - income.mean(), rtol=1e-5)


def test_only_frequent_categories_are_kept() -> None:
    frequent = [f"f{k:02d}" for k in range(64) for _ in range(20)]
    rare = [f"r{k}" for k in range(10)]
    words = rare + frequent
    frame = pd.DataFrame({"w": words, "y": ["a", "b"] * (len(words) // 2)})
    encoding = fit_encoding(table_of_frame(frame), label="y")
    assert encoding.feature_names == tuple(f"w=f{k:02d}" for k in range(64))
    assert not encoded_table(table_of_frame(frame), encoding).x[:10].any()


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("\n".join(lines) + "\n")
    return path


def test_one_wrong_cell_does_not_turn_a_column_into_categories(tmp_path: Path) -> None:
    rows = [f"{k * 0.5},{'ab'[k % 2]}" for k in range(20)]
    rows[16] = "3.l4,a"
    path = write(tmp_path / "a.csv", ["size,y", *rows])
    with pytest.raises(
        DataError,
        match=r"numbers in column 'size'; got '3.l4' in data row 17 \(1 such cell\)\. Correct",
    ):
        read_table(path, label="y")
    words = write(tmp_path / "b.csv", ["size,y", *(f"w{k},a" for k in range(20))])
    with pytest.raises(DataError, match="a column to learn from besides the label; got 'size'"):
        read_table(words, label="y")


@pytest.mark.parametrize("word", ["", "NA", "NaN", "null", "?", " "])
def test_words_for_a_missing_number(tmp_path: Path, word: str) -> None:
    rows = [f"{k % 5},{'ab'[k % 2]}" for k in range(20)]
    rows[3] = f"{word},a"
    data, _ = read_table(write(tmp_path / "a.csv", ["n,y", *rows]), label="y")
    assert data.feature_names == ("n", "n is missing")
    assert data.x[:, 1].tolist() == [0.0, 0.0, 0.0, 1.0] + [0.0] * 16


@pytest.mark.parametrize("word", ["1_000", "infinity", "1e999", "٣", "0x10"])
def test_liberties_with_numbers_are_refused(tmp_path: Path, word: str) -> None:
    rows = [f"{k % 5};{'ab'[k % 2]}" for k in range(20)]
    rows[3] = f"{word};a"
    with pytest.raises(DataError, match=f"numbers in column 'n'; got '{word}' in data row 4"):
        read_table(write(tmp_path / "a.csv", ["n;y", *rows]), label="y")


def test_gaps_in_columns_that_had_none_are_counted_in_one_warning() -> None:
    kept = people().assign(town=["Oslo", "Rome"] * 30)  # age has gaps, income and town have none
    encoding = fit_encoding(table_of_frame(kept), label="outcome")
    gaps = kept.iloc[:9].assign(outcome="yes")
    gaps.loc[:3, "income"], gaps.loc[2:3, "town"], gaps["age"] = np.nan, None, np.nan
    with pytest.warns(UserWarning, match="complete in training: 4 in 'income', 2 in 'town' ") as c:
        encoded_table(table_of_frame(gaps), encoding)
    assert len(c) == 1
    encoded_table(table_of_frame(kept), encoding)  # and none without: warnings are errors here


def test_a_column_that_may_name_groups_is_said(tmp_path: Path) -> None:
    rows = [f"{k % 5},P{k // 3},{'ab'[k % 2]}" for k in range(300)]
    with pytest.warns(UserWarning, match=r"'who' has 100 different values.*--group who"):
        read_table(write(tmp_path / "a.csv", ["n,who,y", *rows]), label="y")


def test_a_column_that_lost_all_values_is_said(tmp_path: Path) -> None:
    rows = [f"{k if k % 4 else ''},{k % 3},{'ab'[k % 2]}" for k in range(20)]
    _, encoding = read_table(write(tmp_path / "a.csv", ["crp,n,y", *rows]), label="y")
    later = write(tmp_path / "b.csv", ["n,crp", *(f"{k % 3}," for k in range(12))])
    with pytest.warns(UserWarning, match=r"'crp': no value in 12 rows, but there were values in"):
        x = read_new_table(later, encoding).x
    assert x[:, 1].tolist() == [1.0] * 12
    one = write(tmp_path / "c.csv", ["n,crp", "1,"])
    assert read_new_table(one, encoding).x.shape == (1, 3)


def test_a_gap_in_many_columns_is_told_in_short() -> None:
    wide = pd.DataFrame(np.random.default_rng(0).normal(size=(6, 11)).round(2))
    wide = wide.set_axis([f"c{k}" for k in range(11)], axis=1).assign(y=["a", "b"] * 3)
    encoding = fit_encoding(table_of_frame(wide), label="y")
    wide.loc[0, "c0":"c10"] = np.nan
    with pytest.warns(UserWarning, match=r"1 in 'c7' and 3 more \(of"):
        encoded_table(table_of_frame(wide), encoding)


def decimal_frame(n: int = 60) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    temperature = rng.normal(37, 0.8, n).round(1)
    return pd.DataFrame(
        {"t": temperature, "dose": rng.choice([0.5, 1, 2], n), "y": ["a", "b"] * (n // 2)}
    )


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_decimal_commas_are_numbers_at_fit_and_later(tmp_path: Path, delimiter: str) -> None:
    frame, point, comma = decimal_frame(), tmp_path / "point.csv", tmp_path / "comma.csv"
    frame.to_csv(point, index=False)
    frame.to_csv(comma, index=False, sep=delimiter, decimal=",")
    expected, with_points = read_table(point, label="y")
    data, with_commas = read_table(comma, label="y")
    np.testing.assert_array_equal(data.x, expected.x)
    assert data.feature_names == ("t", "dose")
    again = TableEncoding.from_dict(json.loads(json.dumps(with_commas.as_dict())))
    for path in (point, comma):  # whichever mark there was in training
        np.testing.assert_array_equal(read_new_table(path, again).x, expected.x)
        np.testing.assert_array_equal(read_new_table(path, with_points).x, expected.x)
    write(comma, [delimiter.join(("t", "dose")), delimiter.join(("36,125", "1,5"))])
    assert read_new_table(comma, again).x[0, 0] == pytest.approx(36.125 - frame.t.mean(), 1e-5)
    with pytest.raises(DataError, match=r"'36,125' in data row 1, which may mean 36.125 or 36125"):
        read_new_table(comma, with_points)


def test_a_column_of_thousands_is_refused_unless_it_is_said_what_it_is(tmp_path: Path) -> None:
    rows = [f"{k % 3 + 1},{k % 7}00;{k % 5};{'ab'[k % 2]}" for k in range(30)]
    path = write(tmp_path / "a.csv", ["pay;n;y", *rows])
    with pytest.raises(DataError, match=r"column 'pay' .* may mean 1.000 or 1000, .*--categorical"):
        read_table(path, label="y")
    assert read_table(path, label="y", ignore=["pay"])[0].feature_names == ("n",)
    _, encoding = read_table(path, label="y", categorical=["pay"])
    assert encoding.feature_names[0] == "pay=1,000"


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_decimal_commas_between_commas_are_numbers_too(tmp_path: Path, suffix: str) -> None:
    frame = decimal_frame()
    frame.to_csv(tmp_path / "point.csv", index=False)
    path = tmp_path / f"comma{suffix}"
    comma = frame.astype({"t": str, "dose": str}).replace(r"\.", ",", regex=True)
    comma.to_csv(path, index=False) if suffix == ".csv" else comma.to_parquet(path)
    expected, with_points = read_table(tmp_path / "point.csv", label="y")
    np.testing.assert_array_equal(read_table(path, label="y")[0].x, expected.x)
    np.testing.assert_array_equal(read_new_table(path, with_points).x, expected.x)
    thousands = [f'"{k % 9 + 1},{k % 10}00",{"ab"[k % 2]}' for k in range(30)]
    with pytest.raises(DataError, match=r"column 'pay' .* may mean 1.000 or 1000"):
        read_table(write(tmp_path / "a.csv", ["pay,y", *thousands]), label="y")


def measured(path: Path, cells: dict[str, list[str]]) -> Path:
    """A table of 100 rows: of each column 60 numbers, then the cells given, again and again."""
    n, rng = 100, np.random.default_rng(0)
    frame = pd.DataFrame({"n": rng.normal(size=n), "y": ["a", "b"] * (n // 2)})
    for name, some in cells.items():
        numbers = [f"{value:.2f}" for value in rng.normal(size=60)]
        frame[name] = numbers + [some[k % len(some)] for k in range(n - 60)]
    frame.to_csv(path, index=False)
    return path


@pytest.mark.parametrize(
    "marks",
    [
        ["."],
        ["-"],
        ["unknown", "ND"],
        ["<0.5"],
        [f"<0.{k}" for k in range(1, 10)],
        [f"{k}%" for k in range(40)],
        [f"{k + 1},234.50" for k in range(40)],
        [f"$ {k}" for k in range(40)],
        [f"{k + 1}\N{NARROW NO-BREAK SPACE}234,50" for k in range(20)],
        [f"{k + 1}.234.500" for k in range(20)],
        [f"\N{MINUS SIGN}{k}.5" for k in range(20)],
        ["inf"],
    ],
)
def test_a_column_of_numbers_and_marks_is_refused(tmp_path: Path, marks: list[str]) -> None:
    path = measured(tmp_path / "a.csv", {"size": marks})
    first = re.escape(repr(marks[0]))
    do = (
        "Correct or empty the cell; or, if the column has categories, name it in categorical="
        r".* If it marks missing cells, name it in missing= \(--missing MARK\)"
    )
    if sign := re.search("[%$]", marks[0]):
        do = rf"Remove the sign '\{sign[0]}' from all cells of the column; or, if the column has"
    elif re.match(r"[0-9]+\D[0-9]{3}\b", marks[0]):
        do = "Remove the separators of thousands from all cells of the column; or, if the column"
    elif "\N{MINUS SIGN}" in marks[0]:
        do = "Write the minus sign as '-' in all cells of the column"
    elif marks == ["inf"]:
        do = "Replace infinity by a number, or empty the cell"
    with pytest.raises(
        DataError,
        match=rf"in column 'size'; got {first} in data row 61 \(40 such cells\)\. {do}",
    ):
        read_table(path, label="y")
    found, _ = read_table(path, label="y", missing=marks)
    assert found.feature_names == ("n", "size", "size is missing")
    assert read_table(path, label="y", ignore=["size"])[0].feature_names == ("n",)
    _, encoding = read_table(path, label="y", categorical=["size"])
    assert f"size={marks[0]}" in encoding.feature_names


@pytest.mark.parametrize(
    ("cell", "unit"),
    [("{} kPa", "kPa"), ("{}°C", "°C"), ("{} m/s", "m/s"), ("{} µg", "µg"), ("{}months", "months")],
)
def test_measurements_with_a_unit_are_not_dropped(tmp_path: Path, cell: str, unit: str) -> None:
    values = np.random.default_rng(0).normal(100, 9, 40).round(1)
    rows = [f"{cell.format(value)},{k % 2},{k // 2 % 2}" for k, value in enumerate(values)]
    path = tmp_path / "a.csv"
    path.write_text("\n".join(["size,n,y", *rows]) + "\n")
    expected = rf"got '{re.escape(rows[0].partition(',')[0])}'.* Remove the unit '{unit}' from all"
    with pytest.raises(DataError, match=expected):
        read_table(path, label="y")


def test_the_unit_is_named_if_the_first_cell_has_none(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(100, 9, 40).round(1)
    rows = [f"{value} kPa,{k % 2},{k // 2 % 2}" for k, value in enumerate(values)]
    path = tmp_path / "a.csv"
    path.write_text("\n".join(["size,n,y", "unknown,0,1", *rows]) + "\n")
    expected = (
        rf"got '{values[0]} kPa' in data row 2 \(40 such cells\)\. Remove the unit 'kPa' from"
    )
    with pytest.raises(DataError, match=expected):
        read_table(path, label="y")


def test_a_table_without_column_names_is_explained(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("21.5,0.3,kPa,1\n20.5,0.4,psi,0\n")
    with pytest.raises(DataError, match="The first line seems to be data: add one with column"):
        read_table(path, label="y")


def test_identifiers_and_categories_may_end_in_letters(tmp_path: Path) -> None:
    order = np.random.default_rng(0).permutation(400)[:100]
    rows = [f"{one}NO,{12 * (k % 3 + 1)} months,{k % 2}" for k, one in enumerate(order)]
    path = tmp_path / "a.csv"
    path.write_text("\n".join(["id,term,y", *rows]) + "\n")
    with pytest.warns(UserWarning, match="dropped 'id': nearly every value is unique"):
        data, _ = read_table(path, label="y")
    assert data.feature_names == ("term=12 months", "term=24 months", "term=36 months")


def test_all_columns_of_numbers_and_marks_are_named_at_once(tmp_path: Path) -> None:
    path = measured(tmp_path / "a.csv", {"size": ["."], "dose": ["<0.5", "ND"]})
    with pytest.raises(
        DataError,
        match=r"'size'; got '\.' in data row 61 \(40 such cells\); also '<0.5' in column "
        r"'dose' \(40 cells\)\. Correct or empty the cells; or",
    ):
        read_table(path, label="y")
    path = measured(tmp_path / "b.csv", {f"c{k}": ["."] for k in range(50)})
    with pytest.raises(DataError, match=r"'c8' \(40 cells\) and 41 more\. Correct"):
        read_table(path, label="y")


@pytest.mark.parametrize(
    "cells",
    [
        [f"V{k}" for k in range(10)],  # codes of diseases, of which some are numbers
        [f"2020-01-{k:02d}" for k in range(1, 11)],
    ],
)
def test_codes_of_which_many_are_numbers_stay_categories(tmp_path: Path, cells: list[str]) -> None:
    rows = [f"{401 + k % 20},{k % 7},{'ab'[k % 2]}" for k in range(80)]
    rows += [f"{cells[k % 10]},{k % 7},{'ab'[k % 2]}" for k in range(20)]
    data, _ = read_table(write(tmp_path / "a.csv", ["code,n,y", *rows]), label="y")
    assert len(data.feature_names) == 31


@pytest.mark.parametrize("cells", ["25% 50% 75%", "1 2 3 - .", "0-9 10-19 20-29 30+", "1 2 many"])
def test_few_values_stay_categories(tmp_path: Path, cells: str) -> None:
    some = cells.split()
    rows = [f"{some[k % len(some)]},{k % 7},{'ab'[k % 2]}" for k in range(100)]
    data, _ = read_table(write(tmp_path / "a.csv", ["share,n,y", *rows]), label="y")
    assert set(data.feature_names) == {f"share={cell}" for cell in some} | {"n"}


def test_many_columns_that_are_left_out_or_absent_are_told_in_short() -> None:
    wide = pd.DataFrame(0.0, index=range(8), columns=[f"c{k}" for k in range(3000)])
    wide = wide.assign(n=[1.0, 5.0] * 4, y=["a", "b"] * 4)
    with pytest.warns(UserWarning, match=r"'c0', .*, 'c7' and 2,992 more: constant") as caught:
        encoding = fit_encoding(table_of_frame(wide), label="y")
    assert len(str(caught[0].message)) < 400
    assert len(encoding.left_out) == 3000
    wide.iloc[::2, :3000] = 1.0
    encoding = fit_encoding(table_of_frame(wide), label="y")
    with pytest.raises(DataError, match=r"column\(s\) 'c0', .*, 'c7' and 2,992 more; got 'n'"):
        encoding.features(table_of_frame(wide[["n"]]))


def test_columns_with_nothing_to_learn_are_left_out_aloud(tmp_path: Path) -> None:
    rows = [f"{k + 100},u{k}x,same,7,,{k % 3},{'ab'[k % 2]}" for k in range(30)]
    path = write(tmp_path / "a.csv", ["row,code,text,number,empty,n,y", *rows])
    with pytest.warns(UserWarning, match="dropped") as caught:
        data, encoding = read_table(path, label="y")
    assert caught[0].filename == __file__
    assert data.feature_names == ("n",)
    assert encoding.left_out == {
        "row": "it only numbers the rows",
        "code": "nearly every value is unique",
        "text": "constant",
        "number": "constant",
        "empty": "empty",
    }
    ignored = ["row", "code", "text", "number", "empty"]
    quiet, _ = read_table(path, label="y", ignore=ignored)
    np.testing.assert_array_equal(quiet.x, data.x)


def test_rows_without_any_cell_are_counted_aloud(tmp_path: Path) -> None:
    rows = [f"{k % 7};{'ab'[k % 2]}" for k in range(20)]
    path = write(tmp_path / "a.csv", ["n;y", *rows, ";", " ; "])
    match = r"a\.csv: 2 of 22 rows are empty in every column"
    with pytest.warns(UserWarning, match=match) as caught:
        data, encoding = read_table(path, label="y")
    assert caught[0].filename == __file__
    assert data.y[-2:].tolist() == [-1, -1]
    with pytest.warns(UserWarning, match=match):
        read_new_table(path, encoding)
    read_table(write(path, ["n;y", *rows, ";a", "1;"]), label="y")  # silent


def test_one_word_and_a_gap_are_something_to_learn_from() -> None:
    frame = pd.DataFrame({"w": ["x", None, "x", "x"], "y": ["a", "b", "a", "b"]})
    encoding = fit_encoding(table_of_frame(frame), label="y")
    assert encoding.feature_names == ("w=x", "w is missing")
    assert encoded_table(table_of_frame(frame), encoding).x.tolist() == [
        [1, 0],
        [0, 1],
        [1, 0],
        [1, 0],
    ]


def test_gaps_do_not_make_names_into_categories() -> None:
    names = [f"name {k % 20}" for k in range(30)] + [None] * 30
    frame = pd.DataFrame({"name": names, "n": np.arange(60) % 7, "y": ["a", "b"] * 30})
    with pytest.warns(UserWarning, match="'name': nearly every value is unique"):
        fit_encoding(table_of_frame(frame), label="y")


def test_nine_numbers_in_ten_cells_are_a_column_of_numbers(tmp_path: Path) -> None:
    rows = [f"{k * k},a" for k in range(9)]
    with pytest.raises(DataError, match="numbers in column 'n'; got 'x' in data row 10"):
        read_table(write(tmp_path / "a.csv", ["n,y", *rows, "x,b"]), label="y")


def test_numbers_can_be_named_categories(tmp_path: Path) -> None:
    rows = [f"{(10, 20, 9)[k % 3]},{'ab'[k % 2]}" for k in range(30)]
    path = write(tmp_path / "a.csv", ["code,y", *rows])
    data, _ = read_table(path, label="y", categorical=["code"])
    assert data.feature_names == ("code=10", "code=20", "code=9")
    assert data.x[:3].tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]


def test_a_column_of_one_number_and_gaps_has_no_scale(tmp_path: Path) -> None:
    rows = ["0.1,3,a", "0.1,1,b", "0.1,2,a", ",4,b"]  # the mean of three 0.1 is rounded up
    data, encoding = read_table(write(tmp_path / "a.csv", ["n,m,y", *rows]), label="y")
    assert data.x[:, 0].tolist() == [0.0, 0.0, 0.0, 0.0]
    assert data.x[:, 1].tolist() == [0.0, 0.0, 0.0, 1.0]
    new = read_new_table(write(tmp_path / "b.csv", ["n,m", "0.3,1"]), encoding)
    assert new.x[0, 0] == pytest.approx(0.2)


@pytest.mark.parametrize("kind", [np.float64, np.int64])
def test_numbers_that_differ_in_their_last_digit_are_different_categories(kind) -> None:
    near = np.array([0.3, 0.1 + 0.2, -0.0, 0.0] if kind is np.float64 else [0, 2**60, 2**60 + 1, 0])
    codes = np.tile(near.astype(kind), 5)
    frame = pd.DataFrame({"code": codes, "n": np.arange(20) % 7, "y": ["a", "b"] * 10})
    encoding = fit_encoding(table_of_frame(frame), label="y", categorical=["code"])
    encoded = encoded_table(table_of_frame(frame), encoding).x[:, :3]
    _, expected = np.unique(codes, return_inverse=True)
    assert [len(np.unique(encoded[expected == k], axis=0)) for k in range(3)] == [1, 1, 1]
    assert len(np.unique(encoded, axis=0)) == 3
    names = fit_encoding(table_of_frame(frame), label="code").class_names
    assert (
        names
        == {
            np.float64: ("0", "0.3", "0.30000000000000004"),
            np.int64: ("0", "1152921504606846976", "1152921504606846977"),
        }[kind]
    )


def test_truth_values_are_the_same_in_both_kinds_of_file(tmp_path: Path) -> None:
    truth = np.arange(20) % 3 == 0
    frame = pd.DataFrame({"t": truth, "n": np.arange(20) % 7, "y": np.arange(20) % 2 == 0})
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_parquet(tmp_path / "a.parquet")
    data, encoding = read_table(tmp_path / "a.csv", label="y")
    assert encoding.feature_names == ("t=False", "t=True", "n")
    other = read_new_table(tmp_path / "a.parquet", encoding)
    np.testing.assert_array_equal(other.x, data.x)
    np.testing.assert_array_equal(other.y, data.y)
    parquet, _ = read_table(tmp_path / "a.parquet", label="y")
    assert parquet.class_names == ("False", "True")
    np.testing.assert_array_equal(parquet.y, frame["y"])
    assert parquet.feature_names == data.feature_names


@pytest.mark.parametrize("categorical", [["ward"], []])
def test_a_gap_makes_no_other_category_of_a_whole_number(
    tmp_path: Path, categorical: list[str]
) -> None:
    """A column of whole numbers with a gap is saved with points, and one without it without."""
    whole = pd.DataFrame(
        {"ward": np.arange(20) % 4, "n": np.arange(20) % 7, "y": np.arange(20) % 2}
    )
    gaps = whole.astype({"ward": float, "y": float})
    gaps.loc[3, ["ward", "y"]] = np.nan
    whole.to_csv(tmp_path / "whole.csv", index=False)
    for kind, write_frame in (("csv", gaps.to_csv), ("parquet", gaps.to_parquet)):
        path = tmp_path / f"gaps.{kind}"
        write_frame(path, index=False)
        data, encoding = read_table(path, label="y", categorical=categorical)
        assert data.class_names == ("0", "1")
        later = read_new_table(tmp_path / "whole.csv", encoding)
        others = np.arange(20) != 3
        np.testing.assert_array_equal(later.x[others], data.x[others])
        np.testing.assert_array_equal(later.y, whole["y"])


def test_spellings_of_one_whole_number_are_one_class_and_codes_are_not(tmp_path: Path) -> None:
    spelt = ("1", "1.0", "1.00", "-0.0", "0", "007", "1.10")
    rows = [f"{k % 3},{spelt[k % 7]}" for k in range(21)]
    data, _ = read_table(write(tmp_path / "a.csv", ["n,y", *rows]), label="y")
    assert data.class_names == ("0", "1", "1.10", "007")
    assert data.y[:7].tolist() == [1, 1, 1, 0, 0, 3, 2]


def test_columns_of_other_types_matter_only_where_they_are_used(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    n = np.arange(12)
    columns = {
        "n": pa.array(n % 5),
        "d": pa.array([decimal.Decimal(int(k)) / 4 for k in n % 3]),
        "nested": pa.array([[int(k)] for k in n]),
        "day": pa.array([datetime.date(2020, 1, 1 + int(k)) for k in n]),
        "y": pa.array(["u", "v"] * 6),
        "__index_level_0__": pa.array(n[::-1]),
    }
    pq.write_table(pa.table(columns), path)
    with pytest.raises(DataError, match=r"column 'nested'; got type list.*ignore="):
        read_table(path, label="y")
    data, encoding = read_table(path, label="y", ignore=["nested", "day"])
    assert data.feature_names == ("n", "d")
    np.testing.assert_array_equal(read_new_table(path, encoding).x, data.x)
    pq.write_table(pa.table(columns | {"n": columns["nested"]}), path)
    with pytest.raises(
        DataError, match=r"expected the column\(s\) 'n'.*of numbers or text.*empty cells"
    ):
        read_new_table(path, encoding)


@pytest.mark.parametrize(
    ("options", "where"),
    [
        ({"categorical": ["y"]}, "'y' is in label and in categorical"),
        ({"ignore": ["y"]}, "'y' is in label and in ignore"),
        ({"categorical": ["n"], "ignore": ["n"]}, "'n' is in categorical and in ignore"),
    ],
)
def test_a_column_has_one_part_to_play(options: dict[str, list[str]], where: str) -> None:
    frame = pd.DataFrame({"n": [1, 2, 4], "m": [3, 1, 2], "y": ["a", "b", "a"]})
    with pytest.raises(ValueError, match=f"different columns; {where}"):
        fit_encoding(table_of_frame(frame), label="y", **options)


def test_classes_that_are_numbers_stand_in_their_order(tmp_path: Path) -> None:
    rows = [f"{k % 4},{(10, 9, 2, '')[k % 4]}" for k in range(12)]
    data, _ = read_table(write(tmp_path / "a.csv", ["n,y", *rows]), label="y")
    assert data.class_names == ("2", "9", "10")
    assert data.y[:4].tolist() == [2, 1, 0, -1]
    frame = pd.DataFrame({"n": [0, 1, 2, 3], "y": [1.0, 0.0, np.nan, 1.0]})
    encoding = fit_encoding(table_of_frame(frame), label="y")
    assert encoding.class_names == ("0", "1")
    assert encoding.labels(table_of_frame(frame)).tolist() == [1, 0, -1, 1]


def test_a_table_is_scaled_once_and_by_the_rule_for_arrays(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal((40, 1.7e9, -3), (12, 50, 0.01), (60, 3)), columns=list("abc"))
    frame["y"] = ["p", "q"] * 30
    frame.to_csv(tmp_path / "a.csv", index=False)
    data, _ = read_table(tmp_path / "a.csv", label="y")
    numbers = frame[["a", "b", "c"]].to_numpy()
    np.testing.assert_allclose(data.x.std(0), numbers.std(0, ddof=1), rtol=1e-4)  # not yet scaled
    expected = StandardScaler().fit_transform(numbers)
    np.testing.assert_allclose(scaling_of(data.x).standardised(data.x), expected, atol=1e-5)


@pytest.mark.parametrize("size", [1e30, 1e-30])
def test_values_that_float32_cannot_hold_get_a_unit(tmp_path: Path, size: float) -> None:
    values = np.random.default_rng(0).normal(size=40) * size
    rows = [f"{value!r},{'ab'[k % 2]}" for k, value in enumerate(values.tolist())]
    data, encoding = read_table(write(tmp_path / "a.csv", ["n,y", *rows]), label="y")
    assert math.frexp(encoding.columns[0].scale)[0] == 0.5  # a power of two
    expected = (values - values.mean()) / values.std()
    x = scaling_of(data.x).standardised(data.x)[:, 0]
    np.testing.assert_allclose(x, expected, rtol=1e-4, atol=1e-6)


def test_encodings_of_older_versions_still_divide_by_the_deviation(tmp_path: Path) -> None:
    old = {
        "version": 1, "label": "y", "class_names": ["a", "b"], "left_out": {},
        "columns": [{"kind": "numeric", "name": "n", "median": 3.0, "mean": 2.5, "scale": 0.5,
                     "indicator": True, "decimal_comma": False}],
    }  # fmt: skip
    path = write(tmp_path / "a.csv", ["n,y", "4,a", ",b"])
    assert read_new_table(path, TableEncoding.from_dict(old)).x.tolist() == [[3.0, 0.0], [1.0, 1.0]]


def test_what_is_wrong_with_labels_and_columns_is_said(tmp_path: Path) -> None:
    rows = [f"{k % 4},{'ab'[k % 2]},x" for k in range(12)]
    path = write(tmp_path / "a.csv", ["n,y,c", *rows])
    with pytest.raises(DataError, match=r"a column 'Y'; got 'n', 'y', 'c'\. Did you mean 'y'"):
        read_table(path, label="Y")
    with pytest.raises(DataError, match="a column 'm'"):
        read_table(path, label="y", ignore=["m"])
    with pytest.raises(DataError, match="2 to 1000 classes in the label column 'c'; got 1"):
        read_table(path, label="c")
    data, encoding = read_table(path, label="y", ignore=["c"])
    assert data.class_names == ("a", "b")
    with pytest.raises(DataError, match=r"the column\(s\) 'n'; got 'm', 'y'"):
        read_new_table(write(tmp_path / "b.csv", ["m,y", "1,a"]), encoding)
    with pytest.raises(DataError, match="in column 'y' one of a, b; got 'c'"):
        read_new_table(write(tmp_path / "b.csv", ["n,y", "1,c"]), encoding)
    with pytest.raises(DataError, match=r"numbers in column 'n'; got 'x' in data row 1"):
        read_new_table(write(tmp_path / "b.csv", ["n,y", "x,a"]), encoding)
    with pytest.raises(DataError, match="numbers too large for float32"):
        read_new_table(write(tmp_path / "b.csv", ["n,y", "1e300,a"]), encoding)
    with pytest.raises(DataError, match="numbers of ordinary size in column 'n'"):
        read_table(write(tmp_path / "b.csv", ["n,y", "1e308,a", "-1e308,b"]), label="y")
    with pytest.raises(DataError, match=r"ordinary size in column 'n'; got values up to 2e-200"):
        read_table(write(tmp_path / "b.csv", ["n,y", "1e-200,a", "2e-200,b"]), label="y")


def test_an_encoding_remembers_how_its_table_was_read(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    lines = ["größe,ort,krank", *(f"{k},{'Köln' if k % 2 else '?'},ja" for k in range(1, 12))]
    lines += ["-999,Köln,nein", "4,?,-999", "5,?,nein"]
    path.write_bytes("\n".join(lines).encode("cp1252"))
    data, encoding = read_table(
        path, label="krank", text_encoding="cp1252", missing=("-999", "?"), categorical=["ort"]
    )
    assert data.class_names == ("ja", "nein")
    assert data.y.tolist() == [0] * 11 + [1, -1, 1]
    assert encoding.feature_names == ("größe", "größe is missing", "ort=Köln", "ort is missing")
    assert data.x[11].tolist()[1:] == [1.0, 1.0, 0.0]
    again = TableEncoding.from_dict(json.loads(json.dumps(encoding.as_dict())))
    assert again == encoding
    assert torch.equal(read_new_table(path, again).x, data.x)
    frame = pd.read_csv(path, encoding="cp1252", dtype=str)
    assert torch.equal(torch.from_numpy(again.features(read_frame(frame).table())), data.x)
    with pytest.warns(UserWarning, match="1 of 14 in 'größe', such as -999"):
        changed = read_new_table(path, again, missing=("?",), labels=False)
    assert changed.x[11, 0] < -900
    path.write_text(path.read_bytes().decode("cp1252"), encoding="utf-8-sig")
    assert torch.equal(read_new_table(path, again).x, data.x)

"""Identifiers are told from measurements by repeats that chance would have made."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dessl.data.errors import DataError
from dessl.data.formats.fitting import read_new_table, read_table
from dessl.data.formats.identifiers import COUNTS, IDENTIFIES, numbering

DRAW = np.random.default_rng(0)


@pytest.mark.parametrize(
    "values",
    [
        DRAW.permutation(30),
        DRAW.permutation(100)[:75] + 5000,
        DRAW.permutation(100)[:75] - 50.0,
        np.arange(200, 0, -1),
        np.arange(0, 200, 2),
        np.sort(DRAW.choice(100_000, 5000, replace=False)),
    ],
)
def test_numbers_of_the_rows_are_found_in_any_order(values: np.ndarray) -> None:
    assert numbering(values) == IDENTIFIES
    assert numbering(values + 0.5) is None


def test_the_rows_in_order_need_no_statistics() -> None:
    assert numbering(np.arange(10) + 3) == COUNTS
    assert numbering(np.arange(9)) is None
    assert numbering(np.arange(10) + 0.5) is None


def test_booleans_that_alternate_number_no_rows() -> None:
    assert numbering(np.arange(20) % 2 == 0) is None


@pytest.mark.parametrize(
    "values",
    [
        DRAW.permutation(15),  # too few to tell
        np.append(DRAW.permutation(100), 5),  # one repeat is enough
        np.append(DRAW.permutation(100), 5000),  # chance would have repeated little
        np.arange(0, 40_000, 1000),
        np.append(np.arange(99), np.inf),
        np.unique(DRAW.lognormal(10, 1, 200).round()),  # incomes
    ],
)
def test_measurements_are_not_identifiers(values: np.ndarray) -> None:
    assert numbering(values) is None


def test_chance_makes_no_identifiers() -> None:
    """All columns of 25 to 60 different numbers that chance draws are too wide to be found."""
    ranges = DRAW.integers(25, 2000, 20_000)
    draws = [DRAW.integers(0, high, DRAW.integers(25, 60)) for high in ranges]
    different = [values for values in draws if len(np.unique(values)) == len(values)]
    assert len(different) > 1000
    assert not any(numbering(values) for values in different)


def written(path: Path, **columns: object) -> Path:
    n = 100
    frame = pd.DataFrame({**columns, "n": np.arange(n) % 7, "y": ["a", "b"] * (n // 2)})
    frame.to_csv(path, index=False) if path.suffix == ".csv" else frame.to_parquet(path)
    return path


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("gaps", [False, True])
def test_a_shuffled_row_number_is_dropped_aloud(tmp_path: Path, suffix: str, gaps: bool) -> None:
    rows = pd.Series(np.random.default_rng(1).permutation(100))
    rows = rows.where(rows % 10 > 0) if gaps else rows
    path = written(tmp_path / f"a{suffix}", row=rows)
    expected = (
        "dropped 'row': whole numbers without a repeat, as identifiers are. Pass --ignore row"
    )
    with pytest.warns(UserWarning, match=f"{expected}.*add 0.5 to its numbers"):
        _, encoding = read_table(path, label="y")
    assert encoding.feature_names == ("n",)
    assert encoding.left_out == {"row": IDENTIFIES}
    kept = written(tmp_path / f"b{suffix}", row=rows + 0.5)
    data, encoding = read_table(kept, label="y")
    assert data.feature_names[0] == "row"
    np.testing.assert_array_equal(read_new_table(kept, encoding).x, data.x)


def test_nothing_left_but_identifiers_is_explained(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    lines = [f"{k},{'ab'[k % 2]}" for k in np.random.default_rng(1).permutation(50)]
    path.write_text("\n".join(["rank,y", *lines]))
    with pytest.raises(DataError, match=r"besides the label; got 'rank': whole.*add 0\.5"):
        read_table(path, label="y")

"""Parquet files of numbers: row groups, lists, other types, and files unlike the first."""

import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dessl.data import DataError, StoredStream, open_rows


def saved(path: Path, columns: dict[str, Any], rows: int = 4) -> Path:
    pq.write_table(pa.table(columns), path, row_group_size=rows)
    return path


def test_columns_and_lists_side_by_side(tmp_path: Path) -> None:
    vectors = pa.array([[float(k), float(-k)] for k in range(10)], pa.list_(pa.float32(), 2))
    columns = {"a": np.arange(10), "flag": [k > 5 for k in range(10)], "v": vectors}
    saved(tmp_path / "0.parquet", columns)
    saved(tmp_path / "1.parquet", columns, rows=10)
    stored = open_rows(tmp_path)
    assert (len(stored), stored.shape) == (20, (4,))
    assert stored.ends.tolist() == [4, 8, 10, 20]
    assert stored.rows([9, 16]).tolist() == [[9, 1, 9, -9], [6, 1, 6, -6]]
    assert open_rows(tmp_path, columns=["v"]).rows([3]).tolist() == [[3, -3]]
    assert open_rows(tmp_path, columns=["v"]).identity() != stored.identity()
    stream = StoredStream(stored, 20, seed=0)
    assert sorted(stream.draw()[1].tolist()) == list(range(20))
    stream.close()


def test_an_address(tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    place = f"/{uuid.uuid4().hex}/a.parquet"
    content = saved(tmp_path / "a.parquet", {"a": np.arange(5.0)}).read_bytes()
    fsspec.filesystem("memory").pipe(place, content)
    assert open_rows(f"memory:/{place}").rows([4]).tolist() == [[4]]


@pytest.mark.parametrize(
    ("second", "words"),
    [
        ({"a": ["x", "y"]}, r"expected numbers in column 'a', as .*0\.parquet has; got string"),
        ({"b": [1.0, 2.0]}, r"column\(s\) 'a'"),
        ({"a": [1.0, None]}, "missing cells"),
        ({"a": [1.0, np.inf]}, "infinity .* rows 11"),
    ],
)
def test_a_bad_file_is_named(tmp_path: Path, second: dict[str, Any], words: str) -> None:
    saved(tmp_path / "0.parquet", {"a": np.arange(10.0)})
    saved(tmp_path / "1.parquet", second)
    with pytest.raises(DataError, match=rf"1\.parquet: .*{words}"):
        open_rows(tmp_path).rows([10, 11])


def test_text_lists_of_several_lengths_and_no_rows(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="columns="):
        open_rows(saved(tmp_path / "a.parquet", {"a": ["x"]}))
    with pytest.raises(DataError, match="several lengths"):
        open_rows(saved(tmp_path / "b.parquet", {"a": [[1.0], [1.0, 2.0]]}))
    with pytest.raises(DataError, match="at least one row"):
        open_rows(saved(tmp_path / "c.parquet", {"a": pa.array([], pa.float32())}))
    (tmp_path / "d.parquet").write_bytes(b"PAR1 and nothing")
    with pytest.raises(DataError, match=r"d\.parquet"):
        open_rows(tmp_path / "d.parquet")


def test_a_row_group_that_states_too_many_rows_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved(tmp_path / "a.parquet", {"a": np.zeros(1000)}, rows=1000)
    monkeypatch.setattr("dessl.data.stored.parquet.GROUP", 3999)
    with pytest.raises(DataError, match=r"at most 3,999 bytes.* got one of 4,000"):
        open_rows(tmp_path)

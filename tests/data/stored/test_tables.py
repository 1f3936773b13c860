"""Tables read in blocks: the encoding, the sample, the file of encoded rows, and bad tables."""

import csv
from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dessl.data import DataError, SemiData
from dessl.data.formats.tables import open_table
from dessl.data.stored.large import large_table
from dessl.data.stored.tables import TableRows, read_large_table

ROWS = 3000


def written(path: Path, rows: Iterable[Iterable[Any]]) -> Path:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["id", "age", "town", "sick"], *rows])
    return path


def people(n: int = ROWS) -> list[list[Any]]:
    """Every tenth row has a label; ages are missing now and then."""
    return [
        [
            k,
            "" if k % 97 == 5 else k % 80,
            ("Oslo", "Bergen", "Å")[k % 3],
            ("yes", "no")[k % 2] if not k % 10 or k % 10 == 3 else "",
        ]
        for k in range(n)
    ]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of a few hundred rows."""
    monkeypatch.setattr("dessl.data.formats.csv_dialect.BLOCK_BYTES", 2**12)


def test_shuffled_row_numbers_are_dropped_aloud(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first block tells: 32 rows in memory are too few to expect repeats among 3,000."""
    monkeypatch.setattr("dessl.data.formats.csv_dialect.BLOCK_BYTES", 2**14)
    rows = [row if k < 12 else [*row[:3], ""] for k, row in enumerate(people())]
    order = np.random.default_rng(0).permutation(ROWS)
    path = written(tmp_path / "people.csv", [rows[k] for k in order])
    expected = "dropped 'id': whole numbers without a repeat.* Pass --ignore id .* add 0.5"
    with pytest.warns(UserWarning, match=expected):
        data = large_table(path, place=tmp_path, label="sick", sample=20, seed=1)
    assert data is not None
    assert data.encoding is not None
    assert list(data.encoding.left_out) == ["id"]


@pytest.mark.filterwarnings("ignore:.*it only numbers the rows")
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_rows_are_those_of_the_table_in_memory(tmp_path: Path, kind: str) -> None:
    path = written(tmp_path / "people.csv", people())
    if kind == "parquet":
        import pyarrow.csv
        import pyarrow.parquet

        frame = pyarrow.csv.read_csv(path)
        path = tmp_path / "people.parquet"
        pyarrow.parquet.write_table(frame, path, row_group_size=500)
    whole = SemiData.from_file(path, label="sick")
    data = large_table(path, place=tmp_path, label="sick", sample=400, seed=1)
    assert data is not None
    assert data.encoding is not None
    assert data.encoding.left_out == {"id": "it only numbers the rows"}
    assert (data.n_labelled, len(data.unlabelled_rows)) == (whole.n_labelled, 400)
    assert data.n_unlabelled == whole.n_unlabelled
    assert not list(tmp_path.glob("rows-*"))  # no network has asked for one

    # Under one encoding, what is in memory and what is stored are the rows of the whole table.
    raw = open_table(path)
    expected = data.encoding.features(raw)
    assert isinstance(data.stored, TableRows)
    stored = data.stored.rows(range(data.n_stored))
    together = np.concatenate([data.x.numpy(), stored])
    assert np.array_equal(np.unique(expected, axis=0), np.unique(together, axis=0))
    assert len(together) == ROWS
    order = [np.lexsort(x.T) for x in (expected, together)]
    assert np.array_equal(expected[order[0]], together[order[1]])
    assert len(list(tmp_path.glob("rows-*.npy"))) == 1
    data.stored.remove()
    assert not list(tmp_path.glob("*rows-*"))


@pytest.mark.filterwarnings("ignore:.*it only numbers the rows")
@pytest.mark.parametrize("harm", ["flipped", "cut", "swapped", "sum lost", "sum damaged"])
def test_rows_that_are_not_whole_are_written_again(tmp_path: Path, harm: str) -> None:
    path = written(tmp_path / "people.csv", people())

    def opened(seed: int = 1) -> TableRows:
        found = read_large_table(path, label="sick", place=tmp_path, sample=400, seed=seed)
        assert found is not None
        return found.rest

    first, other = opened(), opened(2)
    expected = first.rows(range(len(first)))
    other.prepare()
    once = first.place.stat().st_mtime_ns
    assert np.array_equal(opened().rows(range(len(first))), expected)
    assert first.place.stat().st_mtime_ns == once  # a whole file is used again
    content, noted = first.place.read_bytes(), first.place.with_suffix(".json")
    if harm == "flipped":
        first.place.write_bytes(content[:-9] + bytes([content[-9] ^ 1]) + content[-8:])
    elif harm == "cut":
        first.place.write_bytes(content[:-400])
    elif harm == "swapped":
        first.place.write_bytes(other.place.read_bytes())
        noted.write_bytes(other.place.with_suffix(".json").read_bytes())
    elif harm == "sum lost":  # as a kill between the two leaves it
        noted.unlink()
    else:
        noted.write_text("{")
    said = nullcontext() if harm == "sum lost" else pytest.warns(UserWarning, match="again")
    with said:
        assert np.array_equal(opened().rows(range(len(first))), expected)
    assert first.place.read_bytes() == content


@pytest.mark.filterwarnings("ignore:.*it only numbers the rows")
def test_the_sample_is_drawn_at_random(tmp_path: Path) -> None:
    path = written(tmp_path / "people.csv", people())
    found = [
        read_large_table(path, label="sick", place=tmp_path, sample=400, seed=seed)
        for seed in (0, 0, 1)
    ]
    first, again, other = (one.raw.x for one in found if one is not None)
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    identities = [one.rest.identity() for one in found if one is not None]
    assert identities[0] == identities[1] != identities[2]


def test_few_unlabelled_rows_are_not_worth_it(tmp_path: Path) -> None:
    path = written(tmp_path / "people.csv", people(200))
    assert large_table(path, place=tmp_path, label="sick", sample=160) is None


@pytest.mark.filterwarnings("ignore:.*it only numbers the rows")
def test_marks_of_missing_labels_are_asked_about(tmp_path: Path) -> None:
    rows = people()
    for row in rows[1::2]:
        row[3] = row[3] or "NA"
    path = written(tmp_path / "people.csv", rows)
    asked: list[dict[str, int]] = []

    def ask(marks: dict[str, int]) -> list[str]:
        asked.append(marks)
        return ["NA"]

    data = large_table(path, place=tmp_path, label="sick", sample=100, ask=ask)
    assert data is not None
    assert asked == [{"NA": 1200}]
    assert data.n_unlabelled == 2400
    assert data.class_names == ("no", "yes")


@pytest.mark.filterwarnings("ignore:.*it only numbers the rows")
def test_a_wrong_cell_outside_the_sample_is_found(tmp_path: Path) -> None:
    rows = people()
    rows[2501][1] = "old"
    path = written(tmp_path / "people.csv", rows)
    data = large_table(path, place=tmp_path, label="sick", sample=100, seed=0)
    assert data is not None
    assert data.stored is not None
    with pytest.raises(DataError, match=r"people\.csv: .*'old'.*counted from data row 2,"):
        data.stored.prepare()
    assert not list(tmp_path.glob("*rows-*"))  # whole or not at all


@pytest.mark.filterwarnings("ignore:.*it only numbers the rows")
def test_unknown_categories_give_one_warning(tmp_path: Path) -> None:
    rows = people()
    for k in range(100, 3000, 211):
        rows[k][2] = f"Rare {k}"
    path = written(tmp_path / "people.csv", rows)
    data = large_table(path, place=tmp_path, label="sick", sample=20, seed=0)
    assert data is not None
    assert data.stored is not None
    with pytest.warns(UserWarning, match="did not occur") as caught:
        data.stored.prepare()
    assert len(caught) == 1


@pytest.mark.filterwarnings("ignore:.*it only numbers the rows")
def test_a_table_that_changes_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "people.csv", people())
    data = large_table(path, place=tmp_path, label="sick", sample=100)
    written(path, people(ROWS + 100))
    assert data is not None
    assert data.stored is not None
    with pytest.raises(DataError, match=r"people\.csv: expected the same number of rows"):
        data.stored.prepare()


def test_bad_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "people.csv", people(200))
    with pytest.raises(DataError, match="Did you mean 'sick'"):
        large_table(path, place=tmp_path, label="Sick")
    monkeypatch.setattr("dessl.data.stored.tables.MAX_CLASSES", 1)
    with pytest.raises(DataError, match="classes in the label column 'id'"):
        large_table(path, place=tmp_path, label="id")
    monkeypatch.setattr("dessl.data.stored.tables.MOST_LABELLED", 3)
    with pytest.raises(DataError, match="at most 3 labelled rows"):
        large_table(path, place=tmp_path, label="sick", sample=10)
    ragged = tmp_path / "ragged.csv"
    ragged.write_text("a,b\n1,2\n1,2,3\n")
    with pytest.raises(DataError, match=r"ragged\.csv"):
        large_table(ragged, place=tmp_path, label="b")


@pytest.mark.filterwarnings("ignore:.*it only numbers the rows")
def test_a_full_disk_is_said_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path / "people.csv", people())
    data = large_table(path, place=tmp_path, label="sick", sample=100)
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=10))
    assert data is not None
    assert data.stored is not None
    with pytest.raises(DataError, match=r"room for its .* 10 bytes free"):
        data.stored.prepare()


def test_rows_in_blocks_are_read_as_in_memory(tmp_path: Path) -> None:
    """Another encoding of text, and marks of missing cells, in the labels too."""
    rows = [[k, age or "-999", town, sick or "?"] for k, age, town, sick in people()]
    path = written(tmp_path / "a.csv", rows)
    path.write_bytes(path.read_text(encoding="utf-8").encode("cp1252"))
    how = {"text_encoding": "cp1252", "missing": ("-999", "?")}
    whole = SemiData.from_file(path, label="sick", ignore=["id"], **how)  # type: ignore[arg-type]
    large = large_table(path, label="sick", place=tmp_path, ignore=["id"], sample=100, **how)
    assert large is not None
    assert large.stored is not None
    assert large.encoding is not None
    assert (large.encoding.missing, large.encoding.text_encoding) == (("-999", "?"), "cp1252")
    assert "town=Å" in large.encoding.feature_names
    assert large.n_labelled == whole.n_labelled
    assert large.n_unlabelled == whole.n_unlabelled
    found = np.empty((len(large.stored), *large.stored.shape), np.float32)
    large.stored.read(0, len(large.stored), found)
    missing = large.encoding.feature_names.index("age is missing")
    assert whole.encoding is not None
    marked = whole.encoding.feature_names.index("age is missing")
    total = found[:, missing].sum() + large.x[:, missing].sum()
    assert total == whole.x[:, marked].sum() > 0

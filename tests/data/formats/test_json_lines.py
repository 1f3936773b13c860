"""Tables of JSON lines: types, gaps, what is refused, and the same model as from a CSV."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from dessl import SemiData
from dessl.data import DataError
from dessl.data.formats.json_lines import json_lines_table
from dessl.data.formats.tables import open_table


def written(path: Path, *rows: object, encoding: str = "utf-8") -> Path:
    lines = (row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) for row in rows)
    path.write_bytes("\n".join(lines).encode(encoding))
    return path


def test_keys_are_columns_and_gaps_are_empty(tmp_path: Path) -> None:
    path = written(
        tmp_path / "a.jsonl",
        {"age": 1, "town": "Å", "on": True, "mixed": 1, "large": 2**70},
        "",
        {"age": 2.5, "town": None, "mixed": "x", "late": -1, "large": 1},
        {"on": False, "mixed": True},
    )
    table = open_table(path)
    assert list(table.columns) == ["age", "town", "on", "mixed", "large", "late"]
    assert table.n_rows == 3
    age, late = (table.columns[name].numbers for name in ("age", "late"))
    assert np.array_equal(age, [1, 2.5, np.nan], equal_nan=True)
    assert np.array_equal(late, [np.nan, -1, np.nan], equal_nan=True)
    texts = json_lines_table(path).to_pydict()
    assert texts["town"] == ["Å", None, None]
    assert texts["on"] == [True, None, False]
    assert texts["mixed"] == ["1", "x", "True"]
    assert texts["large"] == [str(2**70), "1", None]


def test_lists_and_objects_are_not_read(tmp_path: Path) -> None:
    deep = {"a": 1, "nested": {"b": [1, {"c": 2}]}, "list": [1]}
    table = open_table(written(tmp_path / "a.ndjson", deep, {"a": 2, "nested": "text"}))
    assert list(table.columns) == ["a"]
    assert set(table.unread) == {"nested", "list"}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (['{"a": 1}', '{"a": 1'], "in line 2"),
        (['[{"a": 1}]'], "a list in line 1.*a JSON list has to be split"),
        (['{"a": 1, "a": 2}'], "the key 'a' twice in line 1"),
        (['{"a": "\\ud800"}'], "text that UTF-8 can write"),
        ([f'{{"a": {"[" * 100_000}'], "in line 1"),
        ([f'{{"a": {"9" * 10_000}}}'], "in line 1"),
        (["  "], "at least one row|without a name"),
        (['{"": 1}'], "without a name"),
    ],
)
def test_what_is_no_table_is_refused(rows: list[str], message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        open_table(written(tmp_path / "a.jsonl", *rows))


def test_other_encodings_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", {"a": "é"}, encoding="latin-1")
    with pytest.raises(DataError, match="JSON lines in UTF-8"):
        open_table(path)
    marked = written(tmp_path / "b.jsonl", {"a": "é"}, encoding="utf-8-sig")
    assert list(open_table(marked).columns) == ["a"]


def test_it_gives_the_same_rows_as_a_csv(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    rows = [
        {"age": round(float(random.normal(50, 10)), 2), "town": ["Oslo", "Bergen"][k % 3 % 2],
         "ill": ["no", "yes"][k % 2] if k < 40 else None}
        for k in range(120)
    ]  # fmt: skip
    lines = [",".join(rows[0]), *(",".join(str(v or "") for v in row.values()) for row in rows)]
    (tmp_path / "people.csv").write_text("\n".join(lines) + "\n")
    one = SemiData.from_file(tmp_path / "people.csv", label="ill")
    other = SemiData.from_file(written(tmp_path / "people.jsonl", *rows), label="ill")
    assert torch.equal(one.x, other.x)
    assert torch.equal(one.y, other.y)


def test_the_command_line_reads_and_predicts_it(
    cli: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    random = np.random.default_rng(0)
    rows = []
    for k in range(160):
        x = float(random.normal())
        truth = "spam" if x > 0 else "ham"
        rows.append({"x": x, "llm": truth if k % 5 else "ham", "gold": truth if k < 60 else None})
    data, run = written(tmp_path / "answers.jsonl", *rows), tmp_path / "run"
    options = ("--label", "gold", "--teacher", "llm", "--steps", 30, "--out", run)
    code, _, err = cli("fit", data, *options)
    assert code == 0, err
    out = tmp_path / "predictions.jsonl"
    code, _, err = cli("predict", run, data, "--out", out, "--keep", "gold")
    assert code == 0, err
    found = [json.loads(line) for line in out.read_text().splitlines()]
    right = [one["prediction"] == one["gold"] for one in found if one["gold"]]
    assert len(found) == 160
    assert np.mean(right) > 0.9
    code, _, err = cli("fit", data, "--label", "gold", "--stream", "--out", tmp_path / "other")
    assert code == 2
    assert "--stream is for one CSV, Parquet or .npy file" in " ".join(err.split())

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dessl.data.formats import cells
from dessl.data.formats.cells import Column
from dessl.data.formats.fitting import read_table

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

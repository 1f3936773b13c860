from pathlib import Path

import numpy as np
import pyarrow as pa

from dessl.data.formats.columns import numbers, numeric_share
from dessl.data.formats.tables import Column, Table


def test_numbers_are_those_of_a_table_without_a_programs_liberties() -> None:
    """Python's float is the judge of what is left."""
    right = ["1", "1.", ".5", "+3", "-2e3", "1E5", "-.5e-3", "007", "1e-400"]
    wrong = ["1e400", "0x1", "1_0", "inf", "٣", "+-3", "++3", "1e", "1,5", ".", "e5"]
    missing = ["nan", "NA", "?", ""]
    spelt = right + wrong + missing
    column = Column.of_texts("a", pa.array(spelt), np.arange(len(spelt)))
    assert [column.cell(row) for row in range(len(spelt))] == spelt
    assert numeric_share(column) == len(right) / len(right + wrong)
    table = Table(Path("t"), {}, {}, len(right) + 1)
    column = Column.of_texts("a", pa.array([*right, ""]), np.arange(len(right) + 1))
    np.testing.assert_array_equal(numbers(table, column), [*map(float, right), np.nan])

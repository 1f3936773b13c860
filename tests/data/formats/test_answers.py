from pathlib import Path

import numpy as np
import pytest

from dessl.data.errors import DataError
from dessl.data.formats.answers import read_answers, teacher_columns
from dessl.data.formats.tables import Table, open_table


@pytest.fixture
def table(tmp_path: Path) -> Table:
    (tmp_path / "a.csv").write_text(
        "llm,q_no,q_yes,r(yes),r(no)\nyes,0.25,0.75,1,0\n,,,0.5,0.5\nNA,1,0,0,1\n"
    )
    return open_table(tmp_path / "a.csv")


def test_classes_and_probabilities_in_the_order_of_the_classes(table: Table) -> None:
    columns = {name: teacher_columns(table.columns, name, "a.csv") for name in ("llm", "q", "r")}
    assert columns["r"] == ("r(yes)", "r(no)")
    found = read_answers(table, columns, ("no", "yes"), missing=("NA",))
    assert found["llm"] == ["yes", None, None]
    np.testing.assert_array_equal(found["q"], [[0.25, 0.75], [np.nan, np.nan], [1, 0]])
    np.testing.assert_array_equal(found["r"], [[0, 1], [0.5, 0.5], [1, 0]])


@pytest.mark.parametrize(
    ("classes", "told"),
    [
        (("no", "yes", "maybe"), r"a column 'q\(maybe\)' or 'q_maybe'"),
        (("no",), "'q_yes' as well"),
    ],
)
def test_one_column_for_each_class(table: Table, classes: tuple[str, ...], told: str) -> None:
    with pytest.raises(DataError, match=told):
        read_answers(table, {"q": ("q_no", "q_yes")}, classes)


def test_a_misspelt_teacher(table: Table) -> None:
    with pytest.raises(DataError, match="Did you mean 'llm'"):
        teacher_columns(table.columns, "Llm", "a.csv")

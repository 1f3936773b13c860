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


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (["A.", "A.", "(A)", "N/A", "NA", "unknown", "eh"],
         "got 'A.' in 2 rows, '(A)' in 1 row, 'N/A' in 1 row, 'NA' in 1 row, 'unknown' in 1 row, "
         "'eh' in 1 row. Did you mean 'A' by 'A.', '(A)'? If 'N/A', 'NA', 'unknown' and 1 more "
         "mean no answer, pass --missing-label 'N/A' --missing-label 'NA' --missing-label "
         "'unknown' ..., or --other-answers missing for all such answers."),
        (["A.", "B:"], "Did you mean 'A' by 'A.'? Did you mean 'B' by 'B:'? Write the classes as "
         "in the gold labels, or pass --other-answers missing."),
        (["0.15", "B"], "got '0.15' in 1 row. If '0.15' means no answer, pass --missing-label"),
        (["0", "1"], "got '0' in 1 row, '1' in 1 row. If '0', '1' mean no answer, pass"),
        (["?"], "got '?' in 1 row. If '?' means no answer, pass --missing-label '?', or"),
    ],
)  # fmt: skip
def test_no_mark_is_suggested_for_what_resembles_a_class(
    tmp_path: Path, said: list[str], told: str
) -> None:
    (tmp_path / "a.csv").write_text("\n".join(["x,llm", *(f"1,{one}" for one in said), "2,B"]))
    table = open_table(tmp_path / "a.csv")
    with pytest.raises(DataError) as error:
        read_answers(table, {"llm": ["llm"]}, ("A", "B"), fitting=True)
    assert told in str(error.value)


@pytest.mark.parametrize(
    ("name", "classes", "said", "told"),
    [
        ("llm", ("no", "yes"), ["0.15", "0.85", "1", "NA"],
         "in place of 'llm': 'llm_no', 'llm_yes'; and pass --teacher llm."),
        ("llm", ("0", "1"), ["0.15", "1", "0"], "'llm': 'llm_0', 'llm_1'; and pass --teacher llm."),
        ("p_yes", ("no", "yes"), ['"0,15"', '"0,85"'],
         "in place of 'p_yes': 'p_no', 'p_yes'; and pass --teacher p."),
    ],
)  # fmt: skip
def test_probabilities_of_one_class_are_not_taken_for_marks(
    tmp_path: Path, name: str, classes: tuple[str, ...], said: list[str], told: str
) -> None:
    """To empty such cells would discard all answers."""
    (tmp_path / "a.csv").write_text("\n".join([f"x,{name}", *(f"1,{one}" for one in said)]))
    table = open_table(tmp_path / "a.csv")
    with pytest.raises(DataError) as error:
        read_answers(table, {name: [name]}, classes, fitting=True)
    assert "These look like probabilities of one class. Give one column for" in str(error.value)
    assert told in str(error.value)
    assert "missing" not in str(error.value)

"""The comparison of committed numbers: words may change, numbers may not."""

from pathlib import Path
from types import ModuleType

import pytest
from matplotlib.figure import Figure

RESULTS = Path(__file__).parents[2] / "results"


@pytest.fixture
def same_numbers(script) -> ModuleType:
    return script("same_numbers")


TABLE = "Over 5 splits.\n\n| method | ECE, % |\n|---|---|\n| EntMin | 5.2 ± 0.3 |\n"


@pytest.mark.parametrize(
    ("after", "place"),
    [
        (TABLE.replace("5.2", "5.3"), "row 3, column 2"),
        (TABLE.replace("0.3", ""), "row 3, column 2"),
        (TABLE.replace("5 splits", "6 splits"), "text"),
        (TABLE + "| PiModel | 7.1 |\n", "row 4, column 2"),
        (TABLE.replace("Over 5 splits", "The mean over 5 splits").replace("EntMin", "DeEnt"), None),
    ],
)
def test_a_number_of_a_table(
    same_numbers: ModuleType, tmp_path: Path, after: str, place: str | None
) -> None:
    files = [tmp_path / "before.md", tmp_path / "after.md"]
    for file, text in zip(files, (TABLE, after), strict=True):
        file.write_text(text)
    found = same_numbers.against(*files)
    assert len(found) == (place is not None)
    assert all(place in line for line in found)


def test_an_entry_of_a_summary(same_numbers: ModuleType, tmp_path: Path) -> None:
    before, after = tmp_path / "a.json", tmp_path / "b.json"
    before.write_text('{"runs": [{"ece": 0.25, "nan": NaN, "said": "about 3 %"}]}')
    after.write_text(before.read_text().replace("about", "nearly"))
    assert same_numbers.against(before, after) == []
    after.write_text(before.read_text().replace("0.25", "0.26").replace("3 %", "4 %"))
    assert [line.split(":")[0] for line in same_numbers.against(before, after)] == [
        "/runs/0/ece",
        "/runs/0/said",
    ]
    assert same_numbers.against(before, tmp_path / "c.json")


def drawing(file: Path, height: float, title: str) -> Path:
    figure = Figure(layout="constrained")
    axes = figure.subplots()
    axes.plot([0, 1, 2], [0, height, 4], marker="o", label=title)
    axes.fill_between([0, 1], [0, height], alpha=0.5)
    axes.set_title(title)
    axes.set_ylabel(title)
    axes.legend()
    figure.savefig(file)
    return file


def test_a_point_of_a_figure(same_numbers: ModuleType, tmp_path: Path) -> None:
    before = drawing(tmp_path / "a.svg", 2.0, "ECE")
    other_words = drawing(tmp_path / "b.svg", 2.0, "expected\ncalibration\nerror")
    assert before.read_text() != other_words.read_text()
    assert same_numbers.against(before, other_words) == []
    assert len(same_numbers.against(before, drawing(tmp_path / "c.svg", 2.1, "ECE"))) == 3
    committed = same_numbers.numbers(RESULTS / "mnist" / "figure.svg")
    assert sum(map(len, committed.values())) > 900

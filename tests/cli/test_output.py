"""Names from files on a terminal: shown, never obeyed."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from rich.table import Table
from tests.teachers.three_clouds import data as three_clouds
from tests.teachers.three_clouds import taught

from dessl.cli.main import main
from dessl.cli.output import PlainConsole, say, show, show_facts
from dessl.results.taught import taught_facts

BAD = "\x1b]0;title\x07[/red]:smile:\x9b2J"
SEEN = "\ufffd]0;title\ufffd[/red]:smile:\ufffd2J"


def test_a_name_is_neither_markup_nor_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    show(BAD)
    say(BAD)
    table = Table(title=BAD)
    table.add_column(BAD, no_wrap=True)
    table.add_row(BAD)
    PlainConsole().print(table)
    out, err = capsys.readouterr()
    assert err == f"{SEEN}\n"
    assert out.startswith(f"{SEEN}\n")
    assert out.count(SEEN) == 4
    assert not {"\x1b", "\x07", "\x9b"} & set(out)


@pytest.mark.parametrize("averaging", [0.0, 0.02])
def test_a_count_out_of_fold_is_told_from_the_adjusted_interval(
    averaging: float, capsys: pytest.CaptureFixture[str]
) -> None:
    """The count may lie outside the interval, which is of the mean over the folds."""
    facts = taught_facts(taught("good"), three_clouds(), command="dessl fit", seconds=1.0)
    assert facts.taught is not None
    student = dataclasses.replace(facts.taught.student, averaging=averaging)
    report = dataclasses.replace(facts.taught, student=student)
    show_facts(dataclasses.replace(facts, taught=report))
    adjusted = ", adjusted for averaging over folds" if averaging else ""
    shown = capsys.readouterr().out
    assert f"(95 % interval{adjusted}; out of fold " in shown
    assert "of 60 gold rows correct)." in shown


@pytest.mark.parametrize("command", [("audit", "--cheap"), ("plan", "--width", "0.2")])
def test_odd_columns_and_classes(
    command: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chance = np.random.default_rng(0)
    lines = [f"{BAD},y", *(f"{chance.normal():.3f},{BAD * (k % 2)}" for k in range(40))]
    text = "\n".join(lines + [f"{chance.normal():.3f},b" for _ in range(30)])
    (tmp_path / "a.csv").write_text(text + "\n")
    with pytest.raises(SystemExit) as left:
        main([command[0], str(tmp_path / "a.csv"), "--label", "y", *command[1:]])
    assert not left.value.code
    out, err = capsys.readouterr()
    assert not {"\x1b", "\x07", "\x9b"} & set(out + err)

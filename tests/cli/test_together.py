"""``dessl fit`` on several ranks: the files of one process, and everything said once."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.training.several_ranks import Ran, run_launched
from torch import distributed

from dessl.cli.main import main
from dessl.saved import load_model

pytestmark = pytest.mark.skipif(
    not distributed.is_gloo_available(), reason="this PyTorch has no gloo"
)
OPTIONS = ("--label", "outcome", "--steps", 12, "--no-refit")


def write_people(path: Path, seed: int = 0) -> Path:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(120, 2, generator=generator)
    labels = ["ill" if value > 0 else "well" for value in x[:, 0]]
    rows = [f"{a:.3f},{b:.3f},{labels[i] if i % 3 == 0 else ''}" for i, (a, b) in enumerate(x)]
    path.write_text("\n".join(["age,pulse,outcome", *rows]) + "\n")
    return path


def one_process(*arguments: object) -> None:
    with pytest.raises(SystemExit) as left:
        main([str(argument) for argument in arguments])
    assert not left.value.code


def facts(out: Path) -> dict[str, Any]:
    """What a run found, without its clock and its name."""
    found: dict[str, Any] = json.loads((out / "facts.json").read_text())
    for name in ("seconds", "command", "audit"):
        del found[name]
    for run in found["runs"]:
        del run["history"]
    return found


def test_networks_are_spread_and_end_as_in_one_process(tmp_path: Path) -> None:
    people, alone, both = write_people(tmp_path / "people.csv"), tmp_path / "1", tmp_path / "2"
    options = (*OPTIONS, "--networks", 3)
    one_process("fit", people, *options, "--out", alone)
    first, second = run_launched(2, ["fit", people, *options, "--out", both], tmp_path)
    assert (first.code, second.code) == (0, 0), first.err + second.err
    assert "Report:" in first.out
    assert second.out + second.err == ""
    for path in (*(alone / "model").iterdir(), *(alone / "complete-case").iterdir()):
        assert (both / path.relative_to(alone)).read_bytes() == path.read_bytes(), path.name
    assert facts(both) == facts(alone)
    again = run_launched(2, ["fit", people, *options, "--out", both], tmp_path)
    assert "nothing was trained" in again[0].err
    assert again[1][1:] == ("", "")


def test_one_network_is_trained_by_all_ranks(tmp_path: Path) -> None:
    people, alone, both = write_people(tmp_path / "people.csv"), tmp_path / "1", tmp_path / "2"
    options = (*OPTIONS, "--networks", 1, "--surrogate", "entropy", "--lam", 0.5)
    one_process("fit", people, *options, "--out", alone)
    first, _ = run_launched(2, ["fit", people, *options, "--out", both], tmp_path)
    assert first.code == 0, first.err
    rows = torch.randn(50, 2, generator=torch.Generator().manual_seed(1))
    one, other = (load_model(out / "model").predict_proba(rows) for out in (alone, both))
    # Dropout draws apart; that the weights agree without it is shown in tests/training.
    assert (one.argmax(1) == other.argmax(1)).double().mean() > 0.9
    assert (one - other).abs().max() < 0.2
    assert not torch.equal(one, other)  # as it would be if rank 0 had trained alone


def only_line(ran: list[Ran], code: int = 2) -> str:
    """The one line that all ranks together said."""
    assert [one.code for one in ran] == [code] * len(ran)
    assert not any(one.out for one in ran)
    (line,) = "".join(one.err for one in ran).splitlines()
    return line


def test_an_error_of_all_ranks_is_said_once(tmp_path: Path) -> None:
    ran = run_launched(2, ["fit", "nothing.csv", "--out", tmp_path / "run"], tmp_path)
    assert "nothing.csv" in only_line(ran)


def test_an_error_of_rank_0_ends_the_others_too(tmp_path: Path) -> None:
    people, out = write_people(tmp_path / "people.csv"), tmp_path / "run"
    out.mkdir()
    (out / "report.html").touch()
    ran = run_launched(2, ["fit", people, *OPTIONS, "--out", out], tmp_path)
    assert "dessl fit did not write" in only_line(ran)


def test_ranks_that_read_other_rows_are_refused(tmp_path: Path) -> None:
    for number in range(2):
        (tmp_path / f"rank-{number}").mkdir()
        write_people(tmp_path / f"rank-{number}" / "people.csv", seed=number)
    ran = run_launched(2, ["fit", "people.csv", *OPTIONS, "--out", tmp_path / "run"], tmp_path)
    line = only_line(ran)
    assert "must be the same on every rank (files:" in line
    assert not (tmp_path / "run").exists()


def test_other_commands_are_for_one_process(tmp_path: Path) -> None:
    line = only_line(run_launched(2, ["audit", "people.csv"], tmp_path))
    assert "dessl audit runs in one process" in line


def test_a_wrong_option_is_said_by_rank_0(tmp_path: Path) -> None:
    first, second = run_launched(2, ["fit", "people.csv", "--steps", "many"], tmp_path)
    assert (first.code, second.code) == (2, 2)
    assert "'--steps'" in first.err
    assert second.err == ""


def test_a_launcher_that_says_too_little_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    with pytest.raises(SystemExit) as left:
        main(["fit", "people.csv", "--out", "run"])
    assert left.value.code == 2
    assert "MASTER_ADDR" in capsys.readouterr().err

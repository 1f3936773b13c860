"""``dessl reproduce``: the list, one experiment, all of them, a break, and what goes wrong."""

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from dessl_paper import command
from dessl_paper.catalogue import experiment_names

Cli = Callable[..., tuple[int, str, str]]
SMOKE = ("--profile", "smoke")


@pytest.fixture(autouse=True)
def _nothing_at_hand(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    no_public_sets: Callable[[], AbstractContextManager[None]],
) -> Iterator[None]:
    """Public sets are nowhere on disk, and the working folder is empty."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with no_public_sets():
        yield


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """As if there were two experiments; all of them would take long."""
    names = ["mnist-label-noise", "toy"]
    monkeypatch.setattr("dessl_paper.catalogue.experiment_names", lambda: names)
    return names


def test_the_list_names_the_experiments(cli: Cli) -> None:
    code, out, _ = cli("reproduce", "list", "--json")
    assert code == 0
    rows = {row["name"]: row for row in json.loads(out)}
    assert list(rows) == experiment_names()
    assert rows["toy"]["paper"] == "figure 1 and appendix A"
    assert rows["mnist"]["runs"]["paper"] == 10 * (1 + 2 * 10)  # splits, methods, λ
    assert rows["medmnist"]["runs"]["fast"] == 5 * 5 * 3  # sets, splits, methods
    code, out, _ = cli("reproduce", "list")
    assert code == 0
    assert all(name in out for name in rows)
    assert "figure 1 and appendix A" in out


def test_toy_leaves_records_and_a_report_with_the_papers_numbers(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "toy"
    code, out, err = cli("reproduce", "toy", *SMOKE, "--out", folder)
    assert code == 0, err
    assert "DePseudoLabel" in out
    assert "(0.120)" in out  # the paper's, of PseudoLabel
    assert "toy ━━━━──────────────────── 1/5" in err
    assert len(list((folder / "runs").glob("*.json"))) == 5
    for name in ("table.md", "report.html"):
        assert f"Written: {folder / name}" in out
        assert (folder / name).stat().st_size > 0
    assert (folder / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert "smoke run" in out


@pytest.mark.slow
def test_json_is_all_that_stands_on_stdout(cli: Cli, tmp_path: Path) -> None:
    code, out, err = cli(
        "reproduce", "toy", *SMOKE, "--seeds", 2, "--json", "--out", tmp_path / "t"
    )
    assert code == 0, err
    summary = json.loads(out)
    assert (summary["experiment"], summary["profile"]) == ("toy", "smoke")
    assert {mean["n"] for mean in summary["means"]} == {2}


def test_no_number_is_cut_off_on_a_narrow_terminal(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    code, out, err = cli("reproduce", "lambda-opt", *SMOKE, "--out", tmp_path / "l")
    assert code == 0, err
    assert "…" not in out
    for mean in json.loads((tmp_path / "l" / "summary.json").read_text())["means"]:
        assert f"{mean['mean']:.3f}".replace("-", "−") in out


def test_the_same_command_goes_on_and_does_nothing_twice(cli: Cli, tmp_path: Path) -> None:
    assert cli("reproduce", "toy", *SMOKE)[0] == 0
    runs = Path("runs/toy/runs")  # the folder, where none is given
    before = {path.name: path.read_bytes() for path in runs.iterdir()}
    code, out, err = cli("reproduce", "toy", *SMOKE)
    assert (code, err) == (0, "toy: runs/toy already has every run. Nothing was trained.\n")
    assert "DeEntMin" in out
    assert {path.name: path.read_bytes() for path in runs.iterdir()} == before
    code, out, err = cli("reproduce", "toy", *SMOKE, "--no-resume")
    assert (code, out) == (2, "")
    assert "or resume with --resume." in err
    code, _, err = cli("reproduce", "toy", "--out", "runs/toy")
    assert code == 2
    assert "got other settings: profile" in err


def test_a_break_says_how_to_go_on(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "a folder"
    announce = command.Announcer.__call__

    def stop(self: Any, name: str, done: int, total: int) -> None:
        announce(self, name, done, total)
        if done == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(command.Announcer, "__call__", stop)
        code, out, err = cli("reproduce", "toy", *SMOKE, "--out", folder)
    assert (code, out) == (130, "")
    again = f"dessl reproduce toy --profile smoke --out '{folder}'"
    assert f"{folder}; to resume: {again}" in err
    assert len(list((folder / "runs").iterdir())) == 2
    assert not (folder / "report.html").exists()
    code, _, err = cli("reproduce", "toy", *SMOKE, "--out", folder)
    assert code == 0
    assert [line.split()[2][0] for line in err.splitlines()] == ["2", "3", "4"]
    assert (folder / "report.html").exists()


@pytest.mark.slow
def test_all_runs_one_after_another(cli: Cli, tmp_path: Path, two: list[str]) -> None:
    code, out, err = cli("reproduce", "all", *SMOKE, "--out", tmp_path / "all", "--json")
    assert code == 0, err
    found = json.loads(out)
    assert list(found["experiments"]) == two
    assert found["failed"] == {}
    assert {path.name for path in (tmp_path / "all").iterdir()} == set(two)


@pytest.mark.usefixtures("two")
def test_one_that_fails_does_not_stop_the_others(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "all").mkdir()
    (tmp_path / "all" / "mnist-label-noise").write_text("in the way")
    code, out, err = cli("reproduce", "all", *SMOKE, "--out", tmp_path / "all")
    assert code == 1
    assert "toy, 500 labels" in out
    assert err.splitlines()[-1].startswith("dessl: mnist-label-noise failed. ")
    assert "A file with this name exists" in err
    assert (tmp_path / "all" / "toy" / "report.html").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("minst",), "got 'minst'. Did you mean 'mnist'?"),
        (("xyzzy",), "got 'xyzzy'. See dessl reproduce list."),
        (("toy", "--device", "gpu7"), "--device must be usable here; got gpu7: "),
        (("toy", "--out", "file/toy"), "A file with this name exists: choose another folder."),
    ],
)
def test_what_can_be_mended_is_one_line(cli: Cli, arguments: tuple[str, ...], says: str) -> None:
    Path("file").write_text("mine")
    code, out, err = cli("reproduce", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith("dessl: ")
    assert err.count("\n") == 1
    assert says in err
    assert [path.name for path in Path().iterdir()] == ["file"]


@pytest.mark.parametrize(
    "arguments",
    [(), ("toy", "--profile", "slow"), ("toy", "--seeds", "0"), ("toy", "--steps", "3")],
)
def test_bad_options_are_exit_code_2(cli: Cli, arguments: tuple[str, ...]) -> None:
    code, out, err = cli("reproduce", *arguments)
    assert code == 2
    assert "Traceback" not in out + err


def test_time_left_is_told_from_the_runs_of_this_command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    now = iter([0.0, 600.0, 610.0])
    monkeypatch.setattr(command.time, "perf_counter", lambda: next(now))
    announce = command.Announcer("mnist", began=0.0)
    next(now)
    announce("a", 10, 20)  # ten were done before
    announce("b", 15, 20)  # five in ten minutes, five to go
    announce("c", 20, 20)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].endswith("10/20  a")
    assert lines[1].endswith("15/20, about 10 min left  b")
    assert lines[2].endswith("20/20, less than a minute left  c")


@pytest.mark.slow
def test_all_there_is_runs_at_smoke(cli: Cli, tmp_path: Path) -> None:
    code, out, err = cli("reproduce", "all", *SMOKE, "--out", tmp_path / "all", "--json")
    assert code == 0, err
    assert list(json.loads(out)["experiments"]) == experiment_names()

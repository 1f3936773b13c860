"""``dessl reproduce``: the toy example's figure and numbers."""

import json
from collections.abc import Callable
from pathlib import Path

Cli = Callable[..., tuple[int, str, str]]


def test_toy_writes_a_figure_and_its_numbers(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "toy"
    code, out, err = cli("reproduce", "toy", "--steps", 20, "--out", folder)
    assert code == 0, err
    assert "DePseudoLabel" in out
    assert "truth" in out
    assert str(folder / "toy.png") in out
    facts = json.loads((folder / "toy.json").read_text())
    assert facts["plan"]["steps"] == 20
    assert (folder / "toy.png").read_bytes().startswith(b"\x89PNG")


def test_json_is_all_that_stands_on_stdout(cli: Cli, tmp_path: Path) -> None:
    code, out, _ = cli("reproduce", "toy", "--steps", 5, "--json", "--out", tmp_path)
    assert code == 0
    assert json.loads(out)["experiment"] == "toy"


def test_the_list_names_the_experiments(cli: Cli) -> None:
    assert list(json.loads(cli("reproduce", "list", "--json")[1])) == ["toy"]
    assert "figure 1" in cli("reproduce", "list")[1]
    assert cli("reproduce")[0] == 2

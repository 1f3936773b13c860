"""``dessl datasets``: what the catalogue holds and where it lies."""

import json
from collections.abc import Callable
from pathlib import Path

from dessl.data import DATASETS

Cli = Callable[..., tuple[int, str, str]]


def test_the_list_has_every_set_and_says_what_is_here(cli: Cli) -> None:
    rows = {row["name"]: row for row in json.loads(cli("datasets", "list", "--json")[1])}
    assert list(rows) == list(DATASETS)
    assert rows["digits"]["here"] == "built in"
    assert rows["digits"]["rows"] == {"train": 1437, "validation": 0, "test": 360}
    assert "MNIST" in rows["mnist"]["title"]
    assert all(f" {name} " in cli("datasets", "list")[1] for name in ("breastmnist", "digits"))


def test_fetching_what_is_built_in_needs_no_network(cli: Cli, tmp_path: Path) -> None:
    assert cli("datasets", "fetch", "digits", "--root", tmp_path) == (
        0,
        "digits is built in.\n",
        "",
    )


def test_an_unknown_name_is_one_line(cli: Cli) -> None:
    code, _, err = cli("datasets", "fetch", "digitz")
    assert code == 2
    assert "name must be one of" in err
    assert "'digits'" in err


def test_the_bare_command_explains_itself(cli: Cli) -> None:
    code, out, _ = cli("datasets")
    assert code == 2
    assert "fetch" in out


def test_a_rebuilt_file_is_told_from_the_publishers(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "medmnist").mkdir()
    (tmp_path / DATASETS["dermamnist"].rebuilt[0].path).write_bytes(b"")
    (tmp_path / "medmnist" / "breastmnist.npz").write_bytes(b"")
    shown = json.loads(cli("datasets", "list", "--root", tmp_path, "--json")[1])
    here = {row["name"]: row["here"] for row in shown}
    assert (here["dermamnist"], here["breastmnist"]) == ("rebuilt", "yes")

"""Help and bad options: every command shows an example, and a slip is exit code 2."""

import re
import subprocess
import sys
from collections.abc import Callable

import pytest
import torch

from dessl import SURROGATES, SemiData, recipe_for
from dessl.cli import fit
from dessl.cli.app import COMMANDS as TABLE
from dessl.cli.app import imported
from dessl.evaluation.verdict import MARGIN
from dessl.recipes.defaults import NETWORKS

Cli = Callable[..., tuple[int, str, str]]
COMMANDS = [
    ("demo",),
    ("audit",),
    ("plan",),
    ("fit",),
    ("audit",),
    ("plan",),
    ("predict",),
    ("evaluate",),
    ("export",),
    ("report",),
    ("datasets", "list"),
    ("datasets", "fetch"),
    ("reproduce", "list"),
    ("reproduce", "toy"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_has_an_example_and_json(cli: Cli, command: tuple[str, ...]) -> None:
    code, out, _ = cli(*command, "--help")
    assert code == 0
    assert f"Example: dessl {' '.join(command)}" in out
    assert "--json" in out


def test_the_first_page_names_every_command(cli: Cli) -> None:
    code, out, _ = cli("--help")
    assert code == 0
    assert all(f" {command[0]} " in out for command in COMMANDS)


def test_help_names_the_surrogates_that_a_name_is_not_enough_for(cli: Cli) -> None:
    told = " ".join(cli("fit", "--help")[1].replace("│", " ").split())
    data = SemiData(torch.zeros(4, 2), [0, 1, -1, -1])
    for name in SURROGATES:
        named = re.search(rf"except .*\b{name}\b.*, which need more than a name", told)
        try:
            recipe_for(data, surrogate=name)
        except ValueError:
            assert named, name
        else:
            assert not named, name


@pytest.mark.parametrize(
    "arguments",
    [
        ("demo", "--steps", "0"),
        ("demo", "--seed", "x"),
        ("dance",),
        (),
    ],
)
def test_bad_options_are_exit_code_2(cli: Cli, arguments: tuple[str, ...]) -> None:
    code, out, err = cli(*arguments)
    assert code == 2
    assert "Traceback" not in out + err


@pytest.mark.parametrize("arguments", [("demo",), ("fit", "digits", "--out", "runs/digits")])
def test_a_seed_has_63_bits(cli: Cli, arguments: tuple[str, ...]) -> None:
    code, _, err = cli(*arguments, "--seed", 2**63)
    assert code == 2
    assert "9223372036854775807" in err


def test_the_first_page_says_what_each_command_says_of_itself(cli: Cli) -> None:
    assert TABLE.keys() == {command[0] for command in COMMANDS}
    for place, words in TABLE.values():
        said = imported(place).__doc__ if place != "dessl.cli.datasets:datasets_app" else words
        assert str(said).split("\n\n")[0].strip() == words


def test_help_and_version_need_no_torch() -> None:
    pages = [["--help"], ["--version"]]
    pages += [[*words, "--help"] for words in COMMANDS]
    code = (
        "import contextlib, sys\n"
        "from dessl.cli.main import main\n"
        f"for page in {pages!r}:\n"
        "    with contextlib.suppress(SystemExit):\n"
        "        main(page)\n"
        "print([name for name in ('torch', 'numpy', 'scipy', 'pyarrow') if name in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.count("Example: dessl") >= len(pages) - 2
    assert shown.stdout.splitlines()[-1] == "[]"


def test_options_know_the_library_s_own_numbers() -> None:
    assert fit.MOST_NETWORKS == NETWORKS
    assert fit.MARGIN == MARGIN

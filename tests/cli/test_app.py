"""Help and bad options: every command shows an example, and a slip is exit code 2."""

import subprocess
import sys
from collections.abc import Callable

import pytest

from dessl.cli import app
from dessl.cli.app import COMMANDS as TABLE
from dessl.cli.app import imported

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


def test_only_what_was_typed_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def noted(place: str) -> Callable[[], None]:
        asked.append(place)
        return lambda: None

    monkeypatch.setattr(app, "imported", noted)
    for typed in (("--version",), (), ("dance",), ("--help", "plan", "fit")):
        assert len(app.app_for(typed).registered_commands) == len(TABLE)
    assert asked == [TABLE["plan"][0]]


def test_a_command_of_several_is_a_group() -> None:
    made = app.app_for(("datasets", "list"))
    assert [group.name for group in made.registered_groups] == ["datasets"]
    assert len(made.registered_commands) == len(TABLE) - 1

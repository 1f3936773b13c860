"""``dessl demo``: what it passes on."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Cli = Callable[..., Any]


@pytest.mark.parametrize(
    ("typed", "passed"),
    [
        ((), (Path("runs/demo"), None, None, False)),
        (("--seed", 0, "--steps", 1), (Path("runs/demo"), 0, 1, False)),
        (("--out", "a b", "--json"), (Path("a b"), None, None, True)),
        (("--seed", 2**63 - 1), (Path("runs/demo"), 2**63 - 1, None, False)),
    ],
)
def test_options_reach_the_demonstration(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, typed: tuple[object, ...], passed: tuple[Any, ...]
) -> None:
    calls = []

    def made(out: Path, *, seed: int | None, steps: int | None, as_json: bool) -> None:
        calls.append((out, seed, steps, as_json))

    monkeypatch.setattr("dessl_paper.demo.made_demo", made)
    assert cli("demo", *typed).code == 0
    assert calls == [passed]


@pytest.mark.parametrize("typed", [("--steps", 0), ("--seed", -1), ("--seed", 2**63), ("--fast",)])
def test_what_it_cannot_do_is_refused_before_it_begins(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, typed: tuple[object, ...]
) -> None:
    monkeypatch.setattr("dessl_paper.demo.made_demo", lambda *_, **__: pytest.fail("it began"))
    code, out, err = cli("demo", *typed)
    assert (code, out) == (2, "")
    assert str(typed[0]) in err

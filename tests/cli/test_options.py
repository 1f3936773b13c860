"""Options that several commands share."""

from collections.abc import Callable

import pytest
import torch

from dessl.cli.options import LARGEST_SEED, device_named

Cli = Callable[..., tuple[int, str, str]]


@pytest.mark.parametrize("arguments", [("demo",), ("fit", "digits", "--out", "runs/digits")])
def test_a_seed_has_63_bits(cli: Cli, arguments: tuple[str, ...]) -> None:
    code, _, err = cli(*arguments, "--seed", 2**63)
    assert code == 2
    assert "9223372036854775807" in err


@pytest.mark.parametrize("there", [False, True])
def test_auto_is_the_gpu_if_there_is_one(monkeypatch: pytest.MonkeyPatch, *, there: bool) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: there)
    assert device_named("auto") == torch.device("cuda" if there else "cpu")
    assert device_named("cpu") == torch.device("cpu")


def test_the_largest_seed_is_one_that_torch_takes() -> None:
    assert torch.Generator().manual_seed(LARGEST_SEED).initial_seed() == LARGEST_SEED == 2**63 - 1


@pytest.mark.parametrize("name", ["gpu", "", "cuda:99"])
def test_a_device_that_does_not_exist_is_named(name: str) -> None:
    with pytest.raises(ValueError, match=f"--device.*{name}"):
        device_named(name)


def test_one_gpu_for_several_ranks_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dessl.training.ranks.ranks", lambda: 4)
    monkeypatch.setattr("dessl._checks.device", lambda _, name: torch.device(name))
    with pytest.raises(ValueError, match="each of the 4 ranks needs its own"):
        device_named("cuda:1")
    assert device_named("cuda") == torch.device("cuda")

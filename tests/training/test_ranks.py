"""Several ranks on one machine, by gloo: the gradients, weights and state of one process."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.training.several_ranks import data, network, plan, run_ranks, weights
from torch import Tensor, distributed, nn

from dessl.training import TrainPlan, train
from dessl.training.ranks import (
    LostRankError,
    from_each,
    from_first,
    process_group,
    rank,
    ranks,
)
from dessl.training.shared_model import share

pytestmark = pytest.mark.skipif(
    not distributed.is_gloo_available(), reason="this PyTorch has no gloo"
)

TERMS = (
    "entropy",
    "fixmatch",
    "vat",
    "mixmatch",
    "freematch",
    "temporal_ensembling",
)
RISKS: dict[str, dict[str, Any]] = {
    "complete_case": {"risk": "complete_case"},
    "ssl": {"risk": "ssl"},
    "debiased": {"risk": "debiased"},
    "nonnegative": {"risk": "debiased", "bound": "nonnegative"},
    "on all": {"risk": "debiased", "on": "all"},
    "inverse propensity": {"risk": "inverse_propensity"},
}


def plain_step(**more: Any) -> TrainPlan:
    """One step of plain descent at rate 1, which moves the weights by minus the gradient."""
    return plan(1, learning_rate=1.0, momentum=0.0, nesterov=False, **more)


def trained_by_all(**more: Any) -> dict[str, Tensor]:
    """What every case ends in: one step of each risk, ten steps of each term."""
    found = {}
    for name, its in RISKS.items():
        rows = data(weighed=its["risk"] == "inverse_propensity")
        found[name] = weights(train(network, "entropy", rows, plain_step(**its), **more).model)
    for term in TERMS:
        found[term] = weights(
            train(network, term, data(), plan(10, bound="nonnegative"), **more).model
        )
    return found


def _train_all(folder: Path) -> None:
    torch.save(trained_by_all(progress=False), folder / f"{ranks()}-{rank()}.pt")


@pytest.fixture(scope="module")
def alone() -> dict[str, Tensor]:
    return trained_by_all()


@pytest.mark.parametrize("n", [2, 3])
def test_ranks_train_as_one_process_does(n: int, tmp_path: Path, alone: dict[str, Tensor]) -> None:
    assert run_ranks(n, _train_all, tmp_path) == [0] * n
    for number in range(n):
        found = torch.load(tmp_path / f"{n}-{number}.pt", weights_only=True)
        for name, expected in alone.items():
            close = 1e-6 if name in RISKS else 1e-5  # ten steps add up rounding
            torch.testing.assert_close(
                found[name], expected, atol=close, rtol=0, msg=lambda m, name=name: f"{name}: {m}"
            )


def _interrupted(folder: Path, dies_at: int | None) -> None:
    """Train with checkpoints; one rank kills itself in the middle of a step."""
    calls = 0

    def term(model: nn.Module, x: Tensor) -> Tensor:
        nonlocal calls
        calls += torch.is_grad_enabled()
        if calls == dies_at and rank() == ranks() - 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return model(x).square().mean(1)

    try:
        result = train(
            network, term, data(), plan(20, evaluate_every=4), out=folder / "run", progress=False
        )
    except LostRankError as error:
        (folder / f"lost-{rank()}").write_text(str(error))
        os._exit(7)
    if rank() == 0:
        torch.save(weights(result.model), folder / "end.pt")


def test_a_killed_rank_ends_the_run_which_resumes_on_other_ranks(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    whole.mkdir()
    _interrupted(whole, None)
    expected = torch.load(whole / "end.pt", weights_only=True)
    broken = tmp_path / "broken"
    broken.mkdir()
    assert run_ranks(2, _interrupted, broken, 11) == [7, -signal.SIGKILL]
    assert "any number of ranks" in (broken / "lost-0").read_text()
    for n in (1, 2, 3):
        again = tmp_path / f"again-{n}"
        shutil.copytree(broken, again)
        assert run_ranks(n, _interrupted, again, None) == [0] * n
        found = torch.load(again / "end.pt", weights_only=True)
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
        lines = (again / "run" / "history.jsonl").read_text().splitlines()
        assert len(lines) == 5


def _shares(folder: Path) -> None:
    own = share(7).tolist()
    (folder / f"share-{rank()}").write_text(json.dumps([own, from_each(rank()), from_first(rank)]))


def test_rows_are_shared_out_once(tmp_path: Path) -> None:
    assert run_ranks(3, _shares, tmp_path) == [0] * 3
    found = [json.loads((tmp_path / f"share-{number}").read_text()) for number in range(3)]
    assert sorted(row for own, _, _ in found for row in own) == list(range(7))
    assert all(every == [0, 1, 2] and first == 0 for _, every, first in found)


def _one_row(folder: Path) -> None:
    """Fewer labelled rows than ranks: still the same gradient."""
    its = TrainPlan(
        steps=1, labelled_batch=1, unlabelled_batch=1, learning_rate=1.0, momentum=0.0,
        nesterov=False,
    )  # fmt: skip
    result = train(network, "entropy", data(), its, progress=False)
    torch.save(weights(result.model), folder / f"one-{ranks()}-{rank()}.pt")


def test_fewer_rows_than_ranks(tmp_path: Path) -> None:
    _one_row(tmp_path)
    assert run_ranks(3, _one_row, tmp_path) == [0] * 3
    expected = torch.load(tmp_path / "one-1-0.pt", weights_only=True)
    found = torch.load(tmp_path / "one-3-2.pt", weights_only=True)
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)


@pytest.mark.slow
def test_torchrun_starts_ranks_that_train_together(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\n"
        "sys.path[:0] = sys.argv[2:]\n"
        "from tests.training.test_ranks import _one_row\n"
        "from dessl.training.ranks import process_group\n"
        "from pathlib import Path\n"
        "with process_group() as device:\n"
        "    assert str(device) == 'cpu'\n"
        "    _one_row(Path(sys.argv[1]))\n"
    )
    _one_row(tmp_path)
    paths = [str(Path(__file__).parents[2]), str(Path(__file__).parents[2] / "src")]
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    subprocess.run([*command, str(script), str(tmp_path), *paths], check=True, capture_output=True)
    expected = torch.load(tmp_path / "one-1-0.pt", weights_only=True)
    found = torch.load(tmp_path / "one-2-1.pt", weights_only=True)
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)


def test_without_torchrun_there_is_no_group() -> None:
    with process_group() as device:
        assert device is None
        assert (rank(), ranks()) == (0, 1)

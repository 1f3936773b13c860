"""Weights divided among ranks by FSDP2: as in one process, resumed on any number of ranks."""

import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.training.several_ranks import data, dying, network, plan, run_ranks
from torch import Tensor, distributed, nn

from dessl.training import CheckpointError, LostRankError, train
from dessl.training.checkpoint import load_checkpoint
from dessl.training.ranks import rank, ranks
from dessl.training.sharded import is_sharded, is_wrapped, read_shards, whole

pytestmark = pytest.mark.skipif(
    not distributed.is_gloo_available(), reason="this PyTorch has no gloo"
)
PLAN = plan(12, optimiser="adamw", learning_rate=0.01, evaluate_every=3, select="cross_entropy")


def layers(*, norm: bool) -> nn.Sequential:
    return nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4) if norm else nn.Tanh(), network())


def divided(*, norm: bool = False) -> nn.Module:
    """A network that is divided among the ranks, if there are any: as one, or its last part alone.

    With a norm as one, whose weights PyTorch leaves whole after an evaluation.
    """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    model = layers(norm=norm)
    if ranks() > 1:
        mesh = init_device_mesh("cpu", (ranks(),))
        if not norm:
            fully_shard(model[2], mesh=mesh)
        fully_shard(model, mesh=mesh)
    return model


def weights(model: nn.Module) -> Tensor:
    values = [*model.parameters(), *model.buffers()]
    return torch.cat([whole(value.detach()).flatten().float() for value in values])


def _trained(folder: Path, dies_at: int | None, norm: bool = False) -> None:
    """Train with checkpoints; the last rank kills itself in the middle of a step."""
    try:
        result = train(
            lambda: divided(norm=norm),
            dying(dies_at),
            data(),
            PLAN,
            out=folder / "run",
            progress=False,
        )
    except LostRankError:
        os._exit(7)
    assert is_sharded(result.model) == (ranks() > 1)
    found = weights(result.model)
    if rank() == 0:
        torch.save(found, folder / "end.pt")


def ended(folder: Path) -> Tensor:
    found: Tensor = torch.load(folder / "end.pt", weights_only=True)
    return found


def test_a_killed_sharded_run_resumes_on_other_ranks(tmp_path: Path) -> None:
    _trained(tmp_path, None)
    expected = ended(tmp_path)
    broken = tmp_path / "broken"
    broken.mkdir()
    assert run_ranks(2, _trained, broken, 8) == [7, -signal.SIGKILL]
    (place,) = (broken / "run" / "checkpoints").glob("step-*6")
    assert sorted(path.name for path in place.glob("*.safetensors")) == [
        f"shard-0000{number}-model-00001-of-00001.safetensors" for number in (1, 2)
    ]
    for n in (1, 3):
        again = shutil.copytree(broken, tmp_path / f"again-{n}")
        assert run_ranks(n, _trained, again, None) == [0] * n
        torch.testing.assert_close(ended(again), expected, atol=1e-5, rtol=0)
        assert len((again / "run" / "history.jsonl").read_text().splitlines()) == 4
    shard = next(place.glob("shard-00002*"))
    shard.write_bytes(shard.read_bytes()[:-1] + b"?")
    with pytest.raises(CheckpointError, match=r"shard-00002.* does not have the sha256"):
        load_checkpoint(place)


def test_shards_that_are_none_are_refused_in_a_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "shard-00001-model-00001-of-00001.safetensors").write_bytes(b"nothing")
    with pytest.raises(RuntimeError, match="do not have the tensors of this run") as raised:
        read_shards(tmp_path, {"model": {"weight": torch.zeros(2)}})
    assert "\n" not in str(raised.value)
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.slow
def test_a_run_of_one_process_resumes_sharded(tmp_path: Path) -> None:
    whole_run, cut = tmp_path, tmp_path / "cut"
    _trained(whole_run, None)
    shutil.copytree(whole_run / "run", cut / "run")
    shutil.rmtree(cut / "run" / "checkpoints" / "step-000000012")
    assert run_ranks(2, _trained, cut, None) == [0, 0]
    torch.testing.assert_close(ended(cut), ended(whole_run), atol=1e-5, rtol=0)


@pytest.mark.slow
def test_buffers_are_those_of_rank_0_and_are_saved(tmp_path: Path) -> None:
    assert run_ranks(2, _trained, tmp_path, None, True) == [0, 0]
    cut = shutil.copytree(tmp_path, tmp_path.with_name("cut"))
    for place in (cut / "run" / "checkpoints").iterdir():
        assert len(list(place.glob("shard-*"))) == 2  # of a model that is divided as one
    shutil.rmtree(cut / "run" / "checkpoints" / "step-000000012")
    assert run_ranks(2, _trained, cut, None, True) == [0, 0]
    assert torch.equal(ended(cut), ended(tmp_path))


def _replicated(folder: Path) -> None:
    from torch.distributed._composable.replicate import replicate

    model = replicate(network()) if ranks() > 1 else network()
    assert is_wrapped(model) == (ranks() > 1)
    torch.manual_seed(3)
    for value in model.parameters():
        nn.init.normal_(value, std=0.3)
    result = train(model, "fixmatch", data(), PLAN, out=folder / f"run-{ranks()}", progress=False)
    torch.save(weights(result.model), folder / f"{ranks()}-{rank()}.pt")


def test_a_model_wrapped_with_replicate_trains_as_in_one_process(tmp_path: Path) -> None:
    _replicated(tmp_path)
    assert run_ranks(2, _replicated, tmp_path) == [0, 0]
    alone, first, second = (
        torch.load(tmp_path / f"{name}.pt", weights_only=True) for name in ("1-0", "2-0", "2-1")
    )
    assert torch.equal(first, second)
    torch.testing.assert_close(first, alone, atol=1e-5, rtol=0)


def _refused(folder: Path) -> None:
    cases: dict[str, tuple[str, dict[str, Any]]] = {
        "ema=0.9": ("entropy", {"ema": 0.9}),
        "MeanTeacher": ("mean_teacher", {}),
    }
    for what, (term, more) in cases.items():
        with pytest.raises(ValueError, match=f"{what} needs a copy of the model"):
            train(divided, term, data(), plan(1, **more), progress=False)
    (folder / f"refused-{rank()}").touch()


def test_copies_of_a_sharded_model_are_refused(tmp_path: Path) -> None:
    assert run_ranks(2, _refused, tmp_path) == [0, 0]
    assert len(list(tmp_path.glob("refused-*"))) == 2

"""BatchNorm over the rows of all ranks."""

from pathlib import Path

import pytest
import torch
from tests.training.several_ranks import data, plan, run_ranks, weights
from torch import Tensor, distributed, multiprocessing, nn

from dessl.training import train
from dessl.training.ranks import rank, ranks
from dessl.training.shared_model import replace_norms, restore_norms, synchronise_norms


def normed() -> nn.Sequential:
    last = nn.Sequential(nn.BatchNorm1d(8), nn.Linear(8, 3))
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), last)


def test_layers_are_replaced_and_put_back_with_what_was_learnt() -> None:
    model = normed()
    before = list(model.modules())
    replaced = replace_norms(model)
    stand_in = model[1]
    assert isinstance(stand_in, nn.SyncBatchNorm)
    assert [type(one.layer) for one in replaced] == [nn.BatchNorm1d] * 2
    with torch.no_grad():
        stand_in.weight.fill_(7)
        stand_in.running_mean.fill_(3)
    restore_norms(replaced)
    assert list(model.modules()) == before
    assert model[1].weight.tolist() == [7] * 8
    assert model[1].running_mean.tolist() == [3] * 8


def test_a_layer_in_two_places_stays_one() -> None:
    norm = nn.BatchNorm1d(2)
    model = nn.ModuleList([nn.Sequential(norm), nn.Sequential(norm)])
    replace_norms(model)
    assert model[0][0] is model[1][0]


def test_one_process_keeps_its_layers() -> None:
    assert synchronise_norms(normed()) == []


def _refused(folder: Path) -> None:
    with pytest.raises(ValueError, match="SyncBatchNorm does not run on the CPU"):
        train(normed, "entropy", data(), plan(1), sync_batch_norm=True, progress=False)
    (folder / str(rank())).touch()


@pytest.mark.skipif(not distributed.is_gloo_available(), reason="this PyTorch has no gloo")
def test_the_cpu_is_refused(tmp_path: Path) -> None:
    assert run_ranks(2, _refused, tmp_path) == [0, 0]
    assert (tmp_path / "1").exists()


def _on_gpu(number: int, n: int, folder: Path) -> None:
    """Ten steps on one GPU that all ranks share, through gloo."""
    if n > 1:
        store = f"file://{folder / 'store'}"
        distributed.init_process_group("gloo", init_method=store, rank=number, world_size=n)
    torch.backends.cuda.matmul.allow_tf32 = False
    model = normed()
    layers = list(model.modules())
    torch.manual_seed(3)
    for value in model.parameters():
        nn.init.normal_(value, std=0.5)
    its = plan(10, compile="off", graph="off")
    result = train(model, "entropy", data().to("cuda"), its, sync_batch_norm=True, progress=False)
    assert list(result.model.modules()) == layers
    found: Tensor = torch.cat([weights(model), *[one.flatten().float() for one in model.buffers()]])
    torch.save(found.cpu(), folder / f"{ranks()}-{rank()}.pt")
    if n > 1:
        distributed.destroy_process_group()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("n", [2, 3])
def test_statistics_are_those_of_one_process(n: int, tmp_path: Path) -> None:
    _on_gpu(0, 1, tmp_path)
    multiprocessing.spawn(_on_gpu, (n, tmp_path), nprocs=n)
    alone = torch.load(tmp_path / "1-0.pt", weights_only=True)
    for number in range(n):
        found = torch.load(tmp_path / f"{n}-{number}.pt", weights_only=True)
        torch.testing.assert_close(found, alone, atol=1e-4, rtol=1e-4)

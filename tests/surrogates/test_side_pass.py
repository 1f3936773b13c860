"""A side pass computes what the model computes and changes nothing in it."""

import torch
from torch import nn

from dessl.surrogates.side_pass import side_pass
from dessl.surrogates.smooth import SmoothedModel


def normed() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 3))


def test_same_logits_and_gradients_but_no_trace() -> None:
    x = torch.randn(8, 4, generator=torch.Generator().manual_seed(1))
    quiet, loud = normed(), normed()
    before = [buffer.clone() for buffer in quiet.buffers()]
    side_pass(quiet)(x).square().sum().backward()
    loud(x).square().sum().backward()
    assert all(torch.equal(a, b) for a, b in zip(before, quiet.buffers(), strict=True))
    assert loud[1].num_batches_tracked == 1
    for mine, other in zip(quiet.parameters(), loud.parameters(), strict=True):
        assert torch.equal(mine.grad, other.grad)


def test_it_reaches_through_smoothing() -> None:
    x, model = torch.randn(8, 4), normed()
    smoothed = SmoothedModel(model, 0.1)
    quiet = side_pass(smoothed)(x)
    assert model[1].num_batches_tracked == 0
    assert torch.equal(quiet, smoothed(x))
    assert model[1].num_batches_tracked == 1


def test_a_plain_function_is_itself() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return x

    assert side_pass(model) is model

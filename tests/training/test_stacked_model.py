import copy
from typing import Any

import pytest
import torch
from torch import nn

from dessl.data import LabelDraw
from dessl.models import MLP, LeNet, MedCNN
from dessl.training import PopulationRun, train_population
from dessl.training.stacked_model import StackedModel

NETWORKS = {
    "mlp": (lambda: MLP(5, 3, hidden=(8,), dropout=0.0), (5,)),
    "lenet": (lambda: LeNet(3, size=8), (1, 8, 8)),
    "medcnn": (lambda: MedCNN(3, 1), (1, 28, 28)),
}


@pytest.fixture(params=NETWORKS)
def networks(request):
    torch.manual_seed(0)
    make, shape = NETWORKS[request.param]
    return [make() for _ in range(3)], torch.randn(3, 4, *shape)


@pytest.mark.parametrize("fast", [False, True])
def test_a_pass_is_every_models_own_running_statistics_included(networks, fast: bool) -> None:
    models, x = networks
    stacked = StackedModel(models, fast=fast)
    out = stacked(x)
    out.square().sum().backward()
    for k, model in enumerate(models):
        expected = model.train()(x[k])
        expected.square().sum().backward()
        torch.testing.assert_close(out[k], expected)
        for name, parameter in model.named_parameters():
            torch.testing.assert_close(
                stacked.parameters[name].grad[k], parameter.grad, rtol=1e-4, atol=1e-5
            )
        for name, buffer in model.named_buffers():
            torch.testing.assert_close(stacked.buffers[name][k], buffer)
    assert stacked.buffers.keys() == dict(models[0].named_buffers()).keys()


def test_half_precision_reaches_batch_norm() -> None:
    """A layer without bias hands bf16 on, which PyTorch's vmap refused beside its statistics."""
    torch.manual_seed(0)
    models = [nn.Sequential(nn.Linear(5, 4, bias=False), nn.BatchNorm1d(4)) for _ in range(3)]
    stacked, x = StackedModel(models), torch.randn(3, 8, 5)
    with torch.autocast("cpu", torch.bfloat16, cache_enabled=False):
        out = stacked(x)
        for k, model in enumerate(models):
            torch.testing.assert_close(out[k], model(x[k]).float(), rtol=0.02, atol=0.02)
            torch.testing.assert_close(stacked.buffers["1.running_var"][k], model[1].running_var)


def test_evaluation_moves_nothing(networks) -> None:
    models, x = networks
    stacked = StackedModel(models)
    before = copy.deepcopy(stacked.buffers)
    found = stacked.predicted(x)
    torch.testing.assert_close(stacked.buffers, before, rtol=0, atol=0)
    for k, model in enumerate(models):
        torch.testing.assert_close(found[k], model.eval()(x[k]))


def test_views_of_all_rows_reach_their_models() -> None:
    torch.manual_seed(0)
    models, n = [nn.Linear(2, 3) for _ in range(4)], 5
    weak, strong = torch.randn(2, 4 * n, 2)
    found = StackedModel(models).on_rows_of_each(n)(torch.cat([weak, strong]))
    for number, x in enumerate((weak, strong)):
        expected = torch.cat([model(x[k * n : (k + 1) * n]) for k, model in enumerate(models)])
        torch.testing.assert_close(found[number * 4 * n : (number + 1) * 4 * n], expected)


def test_architectures_are_not_mixed() -> None:
    with pytest.raises(ValueError, match="number 1 differs from number 0"):
        StackedModel([nn.Linear(2, 3), nn.Linear(2, 4)])
    with pytest.raises(ValueError, match="at least one model; got none"):
        StackedModel([])


def test_weights_of_another_type_are_refused_as_for_one_run(make_data: Any, make_plan: Any) -> None:
    data = make_data()
    draw = LabelDraw(data.labelled_rows, data.validation_rows, data.unlabelled_rows)
    with pytest.raises(TypeError, match="the model cannot compute on float32 rows"):
        train_population(
            lambda: nn.Linear(4, 2).double(),
            "entropy",
            data,
            [PopulationRun(0, draw, 0.5, "debiased")],
            make_plan(),
        )

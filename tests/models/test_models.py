"""What every network of the room must do, whatever its architecture."""

import copy
import importlib
import inspect
import pkgutil

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call, grad, stack_module_state, vmap

import dessl.models
from dessl.models import MODELS

# (options, shape of one row, classes) for each network, small enough for one core; WRN-28-8 is
# WRN-28-2 but for its width, and has its own tests
CASES = {
    "mlp": ({"n_features": 7, "n_classes": 3}, (7,), 3),
    "toy_mlp": ({}, (1,), 2),
    "lenet": ({}, (1, 28, 28), 10),
    "medcnn": ({"n_classes": 7}, (3, 28, 28), 7),
    "cnn13": ({}, (3, 16, 16), 10),
    "wrn_28_2": ({}, (3, 16, 16), 10),
    "wrn_37_2": ({}, (3, 32, 32), 10),
    "fast_cifar": ({}, (3, 16, 16), 10),
}
SMALL = ("mlp", "toy_mlp", "lenet", "medcnn")
IMAGES = [name for name, (_, shape, _) in CASES.items() if len(shape) == 3]


def built(name: str, seed: int = 0) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return MODELS[name](**CASES[name][0])


def rows(name: str, n: int = 4) -> torch.Tensor:
    return torch.randn(n, *CASES[name][1], generator=torch.Generator().manual_seed(1))


def test_every_network_of_the_room_is_in_the_dict() -> None:
    defined = {
        cls
        for module in pkgutil.iter_modules(dessl.models.__path__, "dessl.models.")
        for _, cls in inspect.getmembers(importlib.import_module(module.name), inspect.isclass)
        if issubclass(cls, nn.Module)
        and cls.__module__ == module.name
        and not cls.__name__.startswith("_")  # blocks of a network
    }
    assert {type(built(name)) for name in CASES} == defined
    assert set(CASES) == set(MODELS) - {"wrn_28_8"}


@pytest.mark.parametrize("name", CASES)
def test_rows_become_logits(name: str) -> None:
    logits = built(name)(rows(name))
    assert logits.shape == (4, CASES[name][2])
    assert logits.dtype == torch.float32
    assert torch.isfinite(logits).all()


@pytest.mark.parametrize("name", CASES)
def test_every_parameter_learns(name: str) -> None:
    model = built(name)
    F.cross_entropy(model(rows(name, 8)), torch.arange(8) % 2).backward()
    for key, parameter in model.named_parameters():
        assert parameter.grad is not None, key
        assert torch.isfinite(parameter.grad).all(), key
        # batch normalisation undoes a kernel's length, so its gradient is rounding only
        assert key.endswith("length") or parameter.grad.any(), key


@pytest.mark.parametrize("name", CASES)
def test_in_evaluation_a_row_is_judged_alone_and_always_alike(name: str) -> None:
    model = built(name)
    with torch.no_grad():
        model(rows(name))  # moves the running statistics off their start
        model.eval()
        together = model(rows(name))
        assert torch.equal(model(rows(name)), together)
        alone = torch.cat([model(row[None]) for row in rows(name)])
    torch.testing.assert_close(alone, together, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_a_seed_gives_one_start(name: str) -> None:
    first, again, other = (built(name, seed).state_dict() for seed in (0, 0, 1))
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert any(not torch.equal(first[key], other[key]) for key in first)


@pytest.mark.parametrize("name", CASES)
def test_a_copy_and_a_loaded_state_answer_alike(name: str) -> None:
    model = built(name).eval()
    other = built(name, seed=1).eval()
    other.load_state_dict(model.state_dict())
    with torch.no_grad():
        expected = model(rows(name, 2))
        assert torch.equal(copy.deepcopy(model)(rows(name, 2)), expected)
        assert torch.equal(other(rows(name, 2)), expected)


@pytest.mark.parametrize("name", IMAGES)
def test_grey_and_colour_images_are_read(name: str) -> None:
    options, shape, classes = CASES[name]
    channels = 4 - shape[0]
    model = MODELS[name](**options, in_channels=channels).eval()
    assert model(torch.rand(2, channels, *shape[1:])).shape == (2, classes)


@pytest.mark.parametrize("name", CASES)
def test_wrong_rows_are_refused_with_what_was_expected(name: str) -> None:
    model, x = built(name), rows(name)
    wanted = x.shape[1]
    with pytest.raises(ValueError, match=rf"of shape \(n, {wanted}.*; got \(4, 2\b"):
        model(x.new_zeros(4, 2, *x.shape[2:]) if wanted != 2 else x)
    with pytest.raises(ValueError, match=rf"got \({wanted}"):
        model(x[0])
    with pytest.raises(TypeError, match=r"normalised floats; got torch\.uint8"):
        model(x.to(torch.uint8))


@pytest.mark.parametrize("name", ["cnn13", "fast_cifar"])
def test_images_too_small_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"sides of at least \d+; got \(2, 3, 7, 40\)"):
        built(name)(torch.rand(2, 3, 7, 40))


@pytest.mark.parametrize("name", CASES)
def test_many_copies_run_as_one(name: str) -> None:
    n_copies = 2 if name not in SMALL else 3
    models = [built(name, seed).eval() for seed in range(n_copies)]
    weights, buffers = stack_module_state(models)
    x = rows(name, 2)

    def logits(weights, buffers):
        return functional_call(models[0], (weights, buffers), (x,))

    with torch.no_grad():
        together = vmap(logits)(weights, buffers)
        apart = torch.stack([model(x) for model in models])
    torch.testing.assert_close(together, apart, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("name", SMALL)
def test_many_copies_train_as_one(name: str) -> None:
    """In training mode too: gradients, and the running statistics of batch normalisation."""
    models = [built(name, seed) for seed in range(3)]
    for module in (module for model in models for module in model.modules()):
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    weights, buffers = stack_module_state(models)
    x, y = rows(name, 6), torch.arange(6) % 2

    def loss(weights, buffers):
        return F.cross_entropy(functional_call(models[0], (weights, buffers), (x,)), y)

    together = vmap(grad(loss))(weights, buffers)
    for number, model in enumerate(models):
        F.cross_entropy(model(x), y).backward()
        for key, parameter in model.named_parameters():
            torch.testing.assert_close(
                together[key][number], parameter.grad, rtol=1e-3, atol=1e-5, msg=key
            )
        for key, buffer in model.named_buffers():
            torch.testing.assert_close(buffers[key][number], buffer, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", [name for name in CASES if name != "wrn_37_2"])  # as wrn_28_2
def test_a_network_compiles_in_one_graph(name: str) -> None:
    model = built(name).eval()
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    with torch.no_grad():
        torch.testing.assert_close(compiled(rows(name)), model(rows(name)))

"""Every surrogate under torch.compile, and for many models at once under torch.func."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, stack_module_state, vmap

from dessl.surrogates import SURROGATES, Rows, Scores, Surrogate, as_is

each_surrogate = pytest.mark.parametrize("name", list(SURROGATES))


@each_surrogate
# Dynamo's own, where it breaks a graph between two tensors that carry a gradient.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")
@pytest.mark.filterwarnings("ignore:`torch.jit.script_method`:DeprecationWarning")  # torch 2.11's
def test_compiled_and_plain_agree(
    name: str, build: Any, make_network: Any, make_rows: Any, train_a_little: Any
) -> None:
    """In one graph where H has no draws of its own; Dynamo breaks the graph at a generator."""
    model, rows = make_network(), make_rows()
    surrogate = train_a_little(build(name, view=as_is), model, rows)
    whole = torch.equal(surrogate(model, rows).h, surrogate(model, rows).h)
    state = surrogate.state_dict()
    plain = surrogate(model, rows)
    surrogate.load_state_dict(state)
    torch.compiler.reset()

    @torch.compile(backend="eager", fullgraph=whole)
    def compiled(rows: Rows) -> Scores:
        scores: Scores = surrogate(model, rows)
        return scores

    fast = compiled(rows)
    torch.testing.assert_close(fast.h, plain.h)
    torch.testing.assert_close(fast.logits, plain.logits)
    gradients = torch.autograd.grad(fast.h.mean(), list(model.parameters()), allow_unused=True)
    expected = torch.autograd.grad(plain.h.mean(), list(model.parameters()), allow_unused=True)
    for got, wanted in zip(gradients, expected, strict=True):
        torch.testing.assert_close(got, wanted)


def one_run(
    surrogate: Surrogate, model: nn.Module, rows: Rows
) -> Callable[[dict[str, Tensor]], Tensor]:
    def mean_h(parameters: dict[str, Tensor]) -> Tensor:
        h: Tensor = surrogate(lambda x: functional_call(model, parameters, (x,)), rows).h
        return h.mean()

    return mean_h


@each_surrogate
def test_many_runs_at_once(name: str, build: Any, make_network: Any, make_rows: Any) -> None:
    """H and its gradient for a stack of models, against one model after the other."""
    models, x = [make_network(seed).double() for seed in range(3)], make_rows().x.double()
    rows = Rows(x, torch.arange(12))
    surrogate = build(name, view=as_is)
    surrogate.prepare(models[0], 12, 3)
    state = {name for name, _ in surrogate.named_buffers()}
    if state - {"probabilities", "surrogate.probabilities"}:  # a given table is every run's
        pytest.skip("its state is of one run")
    stacked, _ = stack_module_state(models)
    stacked = {key: value.detach() for key, value in stacked.items()}
    mean_h = one_run(surrogate, models[0], rows)
    start = surrogate.state_dict()
    # Every run has the same draws, as each has when it starts from the same state alone.
    many = vmap(grad(mean_h), randomness="same")(stacked)
    for number, model in enumerate(models):
        surrogate.load_state_dict(start)
        alone = grad(mean_h)({k: v.detach() for k, v in model.named_parameters()})
        for key, value in alone.items():
            torch.testing.assert_close(many[key][number], value)

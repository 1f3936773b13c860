"""K models of one architecture as one: their parameters stacked, their passes one computation."""

import copy
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from dessl.training.stacked_convolution import with_mapped_convolutions

State = dict[str, Tensor]
"""Parameters or buffers by name, each stacked along a first dimension of K models."""


class StackedModel:
    """K models whose parameters are tensors (K, ...).

    Args:
        models: Of one architecture, each with its own state. They are copied.
        fast: Whether convolutions go through :func:`~dessl.training.stacked_convolution.conv2d`
            rather than PyTorch's grouped convolution; the same values either way.

    >>> models = [nn.Linear(2, 3) for _ in range(4)]
    >>> x = torch.ones(4, 5, 2)
    >>> stacked = StackedModel(models)
    >>> logits = stacked(x)
    >>> logits.shape, bool(torch.allclose(logits[1], models[1](x[1])))
    (torch.Size([4, 5, 3]), True)
    """

    def __init__(self, models: Sequence[nn.Module], *, fast: bool = False) -> None:
        _check_alike(models)
        self.parameters, self.buffers = stack_module_state(list(models))  # type: ignore[arg-type]
        self.size = len(models)
        template = with_mapped_convolutions(models[0]) if fast else copy.deepcopy(models[0])
        self._template = template.to("meta").train()
        self._pass: Callable[[State, State, Tensor], Tensor] = vmap(
            self._one, randomness="different"
        )

    def _one(self, parameters: State, buffers: State, x: Tensor) -> Tensor:
        logits: Tensor = functional_call(self._template, (parameters, buffers), (x,))
        return logits

    def compile(self) -> None:
        """Fuse what lies between the products, from the next pass on."""
        self._pass = torch.compile(self._pass, fullgraph=True, dynamic=False)

    def __call__(self, x: Tensor) -> Tensor:
        """Logits (K, n, classes) of rows (K, n, ...), in training mode: BatchNorm moves on."""
        return self._pass(self.parameters, self.buffers, x)

    def on_rows_of_each(self, n: int) -> Callable[[Tensor], Tensor]:
        """The models as a function of all their rows in one dimension, for a surrogate.

        Args:
            n: Rows of each model: the first n rows of x are the first model's, and so on.
                Several views of them are one after the other: (views · K · n, ...).
        """

        def logits(x: Tensor) -> Tensor:
            rows = x.unflatten(0, (-1, self.size, n)).transpose(0, 1).flatten(1, 2)
            of_views = self(rows).unflatten(1, (-1, n)).transpose(0, 1)
            return of_views.flatten(0, 2)

        return logits

    @torch.no_grad()
    def predicted(self, x: Tensor, parameters: State | None = None) -> Tensor:
        """Logits (K, n, classes) of rows (K, n, ...), in evaluation mode; nothing moves."""
        self._template.eval()
        try:
            return vmap(self._one)(parameters or self.parameters, self.buffers, x)
        finally:
            self._template.train()


def _check_alike(models: Sequence[nn.Module]) -> None:
    if not models:
        raise ValueError("models must hold at least one model; got none.")
    shapes = [
        {name: (value.shape, value.dtype) for name, value in model.state_dict().items()}
        for model in models
    ]
    for number, other in enumerate(shapes):
        if other != shapes[0] or type(models[number]) is not type(models[0]):
            raise ValueError(
                f"all models must be of one architecture; number {number} differs from number 0. "
                "Train populations of one architecture each."
            )

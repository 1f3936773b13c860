"""K models of one architecture as one: stacked parameters, and one computation per pass.

Anything that cannot be computed for K models at once is rejected before training starts.
"""

import copy
import warnings
from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from dessl import _checks
from dessl.data import SemiData
from dessl.evaluation.metrics.from_predictions import evaluating
from dessl.surrogates.base import Rows, Scores, Surrogate, checked_scores
from dessl.surrogates.state import device_of
from dessl.training.guard import check_classes, check_dtype
from dessl.training.model_state import (
    begin_training,
    check_all_in_tensors,
    check_initialised,
    state_of,
)
from dessl.training.stacked_convolution import with_mapped_convolutions

State: TypeAlias = dict[str, Tensor]
"""Parameters or buffers by name, each stacked along a first dimension of K models."""

Mapped: TypeAlias = Callable[[State, State, Tensor], Tensor]

PROBED = 6  # rows of each model to try
CONFIDENT = 20.0  # scale of logits, so that untrained models exceed thresholds too
ALONE = "Train its runs one by one, with dessl.train."


class StackedModel:
    """K models whose parameters are tensors (K, ...).

    Args:
        models: Models of one architecture, each with its own state. They are copied.
        fast: Whether convolutions go through :func:`~dessl.training.stacked_convolution.conv2d`
            rather than PyTorch's grouped convolution; the values are the same.

    >>> models = [nn.Linear(2, 3) for _ in range(4)]
    >>> x = torch.ones(4, 5, 2)
    >>> stacked = StackedModel(models)
    >>> logits = stacked(x)
    >>> logits.shape, bool(torch.allclose(logits[1], models[1](x[1])))
    (torch.Size([4, 5, 3]), True)
    """

    def __init__(self, models: Sequence[nn.Module], *, fast: bool = False) -> None:
        _check_same_architecture(models)
        self.parameters, self.buffers = stack_module_state(list(models))
        self.size = len(models)
        template = with_mapped_convolutions(models[0]) if fast else copy.deepcopy(models[0])
        self._template = begin_training(template.to("meta"))
        if device_of(models[0]).type == "cpu":
            for layer in self._template.modules():
                if isinstance(layer, nn.modules.batchnorm._NormBase):
                    layer.register_forward_pre_hook(_fine_enough)
        self._twins = _twins(models[0])  # on "meta", layers no longer share parameters
        self._mapped: Mapped = vmap(self._one, randomness="different")
        self._compiled: Mapped | None = None
        self._strict = False

    def _one(self, parameters: State, buffers: State, x: Tensor) -> Tensor:
        twins = {name: parameters[first] for name, first in self._twins.items()}
        logits: Tensor = functional_call(self._template, (parameters, twins, buffers), (x,))
        return logits

    def compile(self, *, strict: bool = False) -> None:
        """Compile the passes, from the next one on, to fuse the operations between the products.

        Args:
            strict: Whether a failing compiler is an error; otherwise it is a warning, and passes
                run uncompiled.
        """
        self._compiled = torch.compile(self._mapped, fullgraph=True, dynamic=False)
        self._strict = strict

    def __call__(self, x: Tensor) -> Tensor:
        """Logits (K, n, classes) of rows (K, n, ...), in training mode: updates BatchNorm."""
        if self._compiled is not None:
            try:
                return self._compiled(self.parameters, self.buffers, x)
            except RuntimeError as error:
                if self._strict or isinstance(error, torch.OutOfMemoryError):
                    raise
                warnings.warn(f"the population runs uncompiled: {error}", stacklevel=2)
                self._compiled = None
        return self._mapped(self.parameters, self.buffers, x)

    def on_rows_of_each(self, n: int, *, training: bool = True) -> Callable[[Tensor], Tensor]:
        """The models as a function of all their rows in one dimension, for a surrogate.

        Args:
            n: Number of rows of each model: the first n rows of x are the first model's, and so on.
                Several views of them follow each other: (views · K · n, ...).
            training: Whether this is a training pass; otherwise :meth:`predicted` is used.
        """
        of_stack = self if training else self.predicted

        def logits(x: Tensor) -> Tensor:
            rows = x.view(-1, self.size, n, *x.shape[1:]).transpose(0, 1).flatten(1, 2)
            out = of_stack(rows)
            return out.view(self.size, -1, n, out.shape[-1]).transpose(0, 1).flatten(0, 2)

        return logits

    @property
    def is_compiled(self) -> bool:
        """Whether passes run compiled."""
        return self._compiled is not None

    @torch.no_grad()
    def predicted(self, x: Tensor, parameters: State | None = None) -> Tensor:
        """Logits (K, n, classes) of rows (K, n, ...), in evaluation mode; nothing is updated."""
        with evaluating(self._template):
            return vmap(self._one)(parameters or self.parameters, self.buffers, x)


def _fine_enough(layer: nn.Module, given: tuple[Tensor, ...]) -> tuple[Tensor, ...]:  # noqa: ARG001
    """On a CPU, BatchNorm under vmap does not accept half precision with float32 statistics."""
    x, *rest = given
    return (_checks.summable(x), *rest)


def _twins(model: nn.Module) -> dict[str, str]:
    """Other names of parameters that layers share, with the first name of each."""
    first = {id(parameter): name for name, parameter in model.named_parameters()}
    every = model.named_parameters(remove_duplicate=False)
    return {name: first[id(p)] for name, p in every if first[id(p)] != name}


def _check_same_architecture(models: Sequence[nn.Module]) -> None:
    if not models:
        raise ValueError("models must have at least one model; got none.")
    shapes = [
        {name: (value.shape, value.dtype) for name, value in state_of(model).items()}
        for model in models
    ]
    for number, other in enumerate(shapes):
        if other != shapes[0] or type(models[number]) is not type(models[0]):
            raise ValueError(
                f"all models must have one architecture; number {number} differs from number 0. "
                "Train populations of one architecture each."
            )


def check_stackable(
    surrogate: Surrogate, models: Sequence[nn.Module], data: SemiData, *, fast: bool
) -> None:
    """Reject models that cannot be stacked, and surrogates whose H would differ in a stack.

    A surrogate reports itself whether it has state. Random draws, rows that depend on each other
    and passes that must not change buffers are found by a trial: two models' rows together must
    give the same values as each model's rows alone.

    Args:
        surrogate: The surrogate to check.
        models: At least two models, or one that is then used twice; on the data's device.
        data: The data, whose first rows are tried.
        fast: Same as in :class:`StackedModel`.
    """
    check_initialised(models[0])
    check_all_in_tensors(models[0])
    if reason := surrogate.needs_own_run():
        raise ValueError(f"{reason} {ALONE}")
    pair = [models[0], models[-1]]
    n = min(PROBED, len(data) // 2)
    both = Rows(data.x[: 2 * n], data.ids[: 2 * n])
    together = StackedModel(pair, fast=fast).on_rows_of_each(n, training=False)
    with torch.no_grad():
        try:
            found = surrogate(lambda x: CONFIDENT * together(x), both)
        except RuntimeError as error:
            check_dtype(models[0].parameters(), both.x, error)
            raise
        h, logits = checked_scores(type(surrogate).__name__, found, len(both.x))
        check_classes(logits, data.n_classes)
        for number, model in enumerate(pair):
            its = slice(number * n, (number + 1) * n)
            joint = Scores(h[its], logits[:, its])
            _check_alone(surrogate, model, Rows(both.x[its], both.ids[its]), joint)


def _check_alone(surrogate: Surrogate, model: nn.Module, rows: Rows, joint: Scores) -> None:
    name, probe = type(surrogate).__name__, _Probe(model)
    alone = surrogate(probe, rows)
    if probe.passes != int(probe.traces) and any(True for _ in model.buffers()):
        raise ValueError(
            f"{name} makes passes that must not change a model's buffers, such as BatchNorm's "
            f"statistics; stacked models cannot do that. {ALONE}"
        )
    if not bool(torch.isfinite(alone[0]).all()):
        raise ValueError(
            f"{name} is NaN or infinite for the first rows of the data: look for log(0), 0/0 or "
            "overflow in it."
        )
    pairs = zip(joint, alone, strict=True)
    if not all(torch.allclose(one, other, rtol=1e-3, atol=1e-3) for one, other in pairs):
        raise ValueError(
            f"{name} gives different values for the rows of two models together than for each "
            "model's alone: it draws at random, or its rows depend on each other, so its runs "
            f"cannot be trained as a population. {ALONE}"
        )


class _Probe(nn.Module):
    """A model in evaluation mode, with confident outputs, that counts its passes in two ways.

    A pass on copies of its buffers increases ``passes`` but not ``traces``.
    """

    traces: Tensor

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = copy.deepcopy(model).eval()
        self.passes = 0
        self.register_buffer("traces", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        """Logits (n, classes)."""
        self.passes += 1
        self.traces += 1
        logits: Tensor = CONFIDENT * self.model(x)
        return logits

"""The convolution of K models at once as a PyTorch operator, with gradients and vmap support.

``torch.func.vmap`` turns K convolutions into one grouped convolution, which cuDNN computes slowly
for the few channels of small networks. This module has its own batching rule: on CUDA the kernels
of :mod:`dessl.training.convolution_launch`, elsewhere model by model.
"""

import copy
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.grad import conv2d_weight


@torch.library.custom_op("dessl::stacked_conv2d", mutates_args=())
def stacked_conv2d(x: Tensor, weight: Tensor, bias: Tensor, padding: int, relu: bool) -> Tensor:
    """Convolve x (K, n, C, H, W) with weights (K, O, C, kh, kw), stride 1, zero padding.

    Args:
        x: Rows of each model.
        weight: Weights of each model.
        bias: Biases of each model, (K, O).
        padding: Number of zeros on each side.
        relu: Whether negative results become zero.

    >>> x, weight = torch.ones(3, 2, 1, 4, 4), torch.ones(3, 5, 1, 2, 2)
    >>> stacked_conv2d(x, weight, torch.zeros(3, 5), 0, False).shape
    torch.Size([3, 2, 5, 3, 3])
    """
    if x.is_cuda:
        from dessl.training.convolution_launch import convolved

        return convolved(x, weight, bias, padding, relu=relu)
    triples = zip(x, weight, bias, strict=True)
    out = torch.stack([F.conv2d(rows, w, b, padding=padding) for rows, w, b in triples])
    return out.relu_() if relu else out


@torch.library.custom_op("dessl::stacked_conv2d_weight", mutates_args=())
def stacked_conv2d_weight(
    x: Tensor, slope: Tensor, height: int, width: int, padding: int
) -> Tensor:
    """Gradient (K, O, C, height, width) of the weights from x and the outputs' gradient."""
    if x.is_cuda:
        from dessl.training.convolution_launch import weight_gradient

        return weight_gradient(x, slope, (height, width), padding)
    shape = (slope.shape[2], x.shape[2], height, width)
    pairs = zip(x, slope, strict=True)
    weight_of: Callable[..., Tensor] = conv2d_weight
    return torch.stack([weight_of(rows, shape, g, padding=padding) for rows, g in pairs])


@stacked_conv2d.register_fake
def _(x: Tensor, weight: Tensor, bias: Tensor, padding: int, relu: bool) -> Tensor:  # noqa: ARG001
    sides = (x.shape[i] + 2 * padding - weight.shape[i] + 1 for i in (3, 4))
    return x.new_empty(x.shape[0], x.shape[1], weight.shape[1], *sides)


@stacked_conv2d_weight.register_fake
def _(x: Tensor, slope: Tensor, height: int, width: int, padding: int) -> Tensor:  # noqa: ARG001
    return x.new_empty(x.shape[0], slope.shape[2], x.shape[2], height, width)


def _remember(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, weight, _, ctx.padding, ctx.relu = inputs
    ctx.save_for_backward(x, weight, *([output] if ctx.relu else []))


def _gradients(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
    x, weight, *out = ctx.saved_tensors
    if ctx.relu:
        slope = torch.where(out[0] > 0, slope, 0.0)
    to_x, to_weight, to_bias = None, None, None
    if ctx.needs_input_grad[0]:
        # A convolution of the slopes with the rotated windows, zero-padded to the input's size.
        turned = weight.flip(3, 4).transpose(1, 2)
        nothing = weight.new_zeros(turned.shape[:2])
        to_x = stacked_conv2d(slope, turned, nothing, weight.shape[3] - 1 - ctx.padding, False)
    if ctx.needs_input_grad[1]:
        to_weight = stacked_conv2d_weight(x, slope, *weight.shape[3:], ctx.padding)
    if ctx.needs_input_grad[2]:
        to_bias = slope.sum((1, 3, 4))
    return to_x, to_weight, to_bias, None, None


stacked_conv2d.register_autograd(_gradients, setup_context=_remember)


@torch.library.custom_op("dessl::conv2d", mutates_args=())
def conv2d(x: Tensor, weight: Tensor, bias: Tensor, padding: int, relu: bool) -> Tensor:
    """One model's convolution; under ``vmap`` it is :func:`stacked_conv2d`."""
    out = F.conv2d(x, weight, bias, padding=padding)
    return out.relu_() if relu else out


@conv2d.register_fake
def _(x: Tensor, weight: Tensor, bias: Tensor, padding: int, relu: bool) -> Tensor:  # noqa: ARG001
    sides = (x.shape[i] + 2 * padding - weight.shape[i] + 1 for i in (2, 3))
    return x.new_empty(x.shape[0], weight.shape[0], *sides)


@conv2d.register_vmap
def _(info: Any, in_dims: tuple[int | None, ...], *given: Any) -> tuple[Tensor, int]:
    stacked = (
        part.expand(info.batch_size, *part.shape) if dim is None else part.movedim(dim, 0)
        for part, dim in zip(given[:3], in_dims, strict=False)
    )
    return stacked_conv2d(*stacked, *given[3:]), 0


class MappedConv2d(nn.Module):
    """A ``Conv2d`` with square windows and stride 1, and the ReLU after it, by :func:`conv2d`.

    Args:
        original: The layer, whose parameters are shared.
        relu: Whether a ReLU follows, which the kernel then includes.
    """

    def __init__(self, original: nn.Conv2d, *, relu: bool) -> None:
        super().__init__()
        self.weight, self.bias = original.weight, original.bias
        self.padding, self.relu = int(original.padding[0]), relu

    def forward(self, x: Tensor) -> Tensor:
        """Convolve (n, C, H, W)."""
        bias = self.weight.new_zeros(len(self.weight)) if self.bias is None else self.bias
        out: Tensor = conv2d(x, self.weight, bias, self.padding, self.relu)
        return out


def fits(layer: nn.Module) -> bool:
    """Whether :class:`MappedConv2d` computes the same as a layer.

    >>> fits(nn.Conv2d(1, 6, 5)), fits(nn.Conv2d(1, 6, 5, stride=2))
    (True, False)
    """
    return (
        type(layer) is nn.Conv2d
        and layer.stride == layer.dilation == (1, 1)
        and layer.groups == 1
        and layer.padding_mode == "zeros"
        and layer.kernel_size[0] == layer.kernel_size[1]
        and not isinstance(layer.padding, str)
        and layer.padding[0] == layer.padding[1] <= layer.kernel_size[0] - 1
    )


def with_mapped_convolutions(model: nn.Module) -> nn.Module:
    """A copy of the model with the same state, in which every supported layer is mapped fast."""
    model = copy.deepcopy(model)
    for parent in list(model.modules()):
        children = [*parent.named_children(), ("", nn.Identity())]
        for (name, layer), (after, follower) in pairwise(children):
            if isinstance(layer, nn.Conv2d) and fits(layer):
                # Only a Sequential guarantees that the next entry is also called next.
                relu = isinstance(parent, nn.Sequential) and type(follower) is nn.ReLU
                setattr(parent, name, MappedConv2d(layer, relu=relu))
                if relu:
                    setattr(parent, after, nn.Identity())
    return model

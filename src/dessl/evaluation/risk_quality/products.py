"""Convolutions as matrix products, so per-sample gradients of their weights are products too.

``vmap`` computes the weight gradients of n rows as one convolution with n groups, which has no fast
kernel. Unfolded, a convolution is W · columns(x), and those gradients are δ · columns(x)ᵀ, a
batched product.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode


class ConvolutionsAsProducts(TorchFunctionMode):
    """Inside this context, 2-D convolutions with one group are matrix products.

    >>> x, weight = torch.rand(2, 3, 8, 8), torch.rand(4, 3, 3, 3)
    >>> with ConvolutionsAsProducts():
    ...     product = F.conv2d(x, weight, padding=1)
    >>> torch.testing.assert_close(product, F.conv2d(x, weight, padding=1))
    """

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call a PyTorch function, or its replacement."""
        if func is torch.conv2d:
            return _convolved(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


def _convolved(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: int | tuple[int, int] = 1,
    padding: str | int | tuple[int, int] = 0,
    dilation: int | tuple[int, int] = 1,
    groups: int = 1,
) -> Tensor:
    if groups != 1 or isinstance(padding, str) or x.ndim != 4:
        return F.conv2d(x, weight, bias, stride, padding, dilation, groups)
    steps, pads, gaps = _two(stride), _two(padding), _two(dilation)
    sides = weight.shape[2:]
    columns = F.unfold(x, sides, dilation=gaps, padding=pads, stride=steps)
    height = (x.shape[2] + 2 * pads[0] - gaps[0] * (sides[0] - 1) - 1) // steps[0] + 1
    convolved = (weight.flatten(1) @ columns).reshape(len(x), len(weight), height, -1)
    return convolved if bias is None else convolved + bias[:, None, None]


def _two(value: int | tuple[int, int]) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else (value[0], value[-1])

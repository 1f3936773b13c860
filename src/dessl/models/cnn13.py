"""CNN-13, the network of the pseudo-label experiments on CIFAR: 128×3, 256×3, 512-256-128."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dessl.models.inputs import check_images


class CNN13(nn.Module):
    """Nine convolutions, LeakyReLU 0.1, batch and weight normalisation, dropout, global average.

    Three 3 × 3 convolutions of 128 maps, three of 256, then an unpadded one of 512 and 1 × 1 ones
    of 256 and 128; max pooling and dropout after each of the first two groups. The convolutions
    have no bias, since batch normalisation would cancel it.

    Args:
        n_classes: Columns of the logits.
        in_channels: 1 for grey images, 3 for colour.
        dropout: Dropout probability.

    Shape:
        (n, in_channels, height, width) to (n, n_classes), sides of at least 12.

    Example:
        >>> CNN13()(torch.rand(2, 3, 32, 32)).shape
        torch.Size([2, 10])
    """

    def __init__(self, n_classes: int = 10, in_channels: int = 3, *, dropout: float = 0.5) -> None:
        super().__init__()
        self.in_channels = in_channels
        self.maps = nn.Sequential(
            *_convolution(in_channels, 128, 3, padding=1),
            *_convolution(128, 128, 3, padding=1),
            *_convolution(128, 128, 3, padding=1),
            nn.MaxPool2d(2),
            nn.Dropout(dropout),
            *_convolution(128, 256, 3, padding=1),
            *_convolution(256, 256, 3, padding=1),
            *_convolution(256, 256, 3, padding=1),
            nn.MaxPool2d(2),
            nn.Dropout(dropout),
            *_convolution(256, 512, 3),
            *_convolution(512, 256, 1),
            *_convolution(256, 128, 1),
        )
        self.head = _NormedLinear(128, n_classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits (n, n_classes) of images (n, in_channels, height, width)."""
        check_images(x, self.in_channels, least_side=12)
        logits: Tensor = self.head(self.maps(x).mean((2, 3)))
        return logits


class _NormedConv(nn.Conv2d):
    """A convolution with weight w · length / |w|, one length per output channel.

    Implemented here because PyTorch's weight normalisation has no batching rule for ``vmap``.
    """

    def __init__(self, before: int, after: int, side: int, padding: int) -> None:
        super().__init__(before, after, side, padding=padding, bias=False)
        self.length = nn.Parameter(_norm(self.weight.detach()))

    def forward(self, x: Tensor) -> Tensor:
        weight = self.weight * (self.length / _norm(self.weight))
        return F.conv2d(x, weight, padding=self.padding)


class _NormedLinear(nn.Linear):
    """A linear layer with weight w · length / |w|, one length per class."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__(before, after)
        self.length = nn.Parameter(_norm(self.weight.detach()))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight * (self.length / _norm(self.weight)), self.bias)


def _norm(weight: Tensor) -> Tensor:
    dims = tuple(range(1, weight.ndim))
    norm: Tensor = torch.linalg.vector_norm(weight, dim=dims, keepdim=True)
    return norm


def _convolution(before: int, after: int, side: int, padding: int = 0) -> list[nn.Module]:
    return [
        _NormedConv(before, after, side, padding),
        nn.BatchNorm2d(after),
        nn.LeakyReLU(0.1),
    ]

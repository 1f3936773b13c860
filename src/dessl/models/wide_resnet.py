"""Wide residual networks as FixMatch trains them: WRN-28-2, WRN-28-8, and WRN-37-2 for STL-10."""

from collections.abc import Sequence

import torch.nn.functional as F
from torch import Tensor, nn

from dessl.models.inputs import check_images

STEM = 16  # channels of the first convolution
SLOPE = 0.1  # of the leaky ReLU


class WideResNet(nn.Module):
    """Groups of residual blocks, each wider than the last and, after the first, half its size.

    Layers are counted as in FixMatch: the first convolution, two per block and one on the shortcut
    of each group, so three groups of four blocks are 1 + 24 + 3 = 28 layers.

    Args:
        n_classes: Columns of the logits.
        in_channels: 1 for grey images, 3 for colour.
        widths: Channels of each group.
        strides: Stride of each group's first block.
        blocks: Blocks in a group.
        bn_momentum: Weight of the newest batch in the running statistics (PyTorch's convention).
            FixMatch's 0.001 averages over about a thousand steps: raise it for shorter runs.

    Shape:
        (n, in_channels, height, width) to (n, n_classes).
    """

    def __init__(
        self,
        n_classes: int,
        in_channels: int = 3,
        *,
        widths: Sequence[int],
        strides: Sequence[int],
        blocks: int = 4,
        bn_momentum: float = 0.001,
    ) -> None:
        super().__init__()
        self.in_channels = in_channels
        self.stem = nn.Conv2d(in_channels, STEM, 3, padding=1, bias=False)
        groups: list[nn.Module] = []
        before = STEM
        for group, (width, stride) in enumerate(zip(widths, strides, strict=True)):
            for block in range(blocks):
                shared = group == 0 and block == 0
                step = stride if block == 0 else 1
                groups.append(_Block(before, width, step, bn_momentum, shared=shared))
                before = width
        self.groups = nn.Sequential(*groups)
        self.norm = nn.BatchNorm2d(before, momentum=bn_momentum)
        self.head = nn.Linear(before, n_classes)
        self._initialise()

    def _initialise(self) -> None:
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, a=SLOPE, mode="fan_out")
        nn.init.xavier_normal_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, x: Tensor) -> Tensor:
        """Logits (n, n_classes) of images (n, in_channels, height, width)."""
        check_images(x, self.in_channels)
        maps = F.leaky_relu(self.norm(self.groups(self.stem(x))), SLOPE)
        logits: Tensor = self.head(maps.mean((2, 3)))
        return logits


class _Block(nn.Module):
    """Norm, activation and convolution, twice, added to the input or to a shortcut from it.

    In the network's first block (``shared``) the shortcut starts after the first activation.
    """

    def __init__(
        self, before: int, after: int, stride: int, bn_momentum: float, *, shared: bool
    ) -> None:
        super().__init__()
        self.shared = shared
        self.norm1 = nn.BatchNorm2d(before, momentum=bn_momentum)
        self.conv1 = nn.Conv2d(before, after, 3, stride, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(after, momentum=bn_momentum)
        self.conv2 = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.short: nn.Module = nn.Identity()
        if before != after or stride != 1:
            self.short = nn.Conv2d(before, after, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        active = F.leaky_relu(self.norm1(x), SLOPE)
        maps = self.conv2(F.leaky_relu(self.norm2(self.conv1(active)), SLOPE))
        added: Tensor = maps + self.short(active if self.shared else x)
        return added


def wrn_28_2(
    n_classes: int = 10, in_channels: int = 3, *, bn_momentum: float = 0.001
) -> WideResNet:
    """WRN-28-2: 1,467,610 parameters for 10 classes; CIFAR-10 and SVHN.

    Example:
        >>> sum(p.numel() for p in wrn_28_2().parameters())
        1467610
    """
    return WideResNet(
        n_classes, in_channels, widths=(32, 64, 128), strides=(1, 2, 2), bn_momentum=bn_momentum
    )


def wrn_28_8(
    n_classes: int = 100, in_channels: int = 3, *, bn_momentum: float = 0.001
) -> WideResNet:
    """WRN-28-8: four times as wide; CIFAR-100.

    Example:
        >>> wrn_28_8().head
        Linear(in_features=512, out_features=100, bias=True)
    """
    return WideResNet(
        n_classes, in_channels, widths=(128, 256, 512), strides=(1, 2, 2), bn_momentum=bn_momentum
    )


def wrn_37_2(
    n_classes: int = 10, in_channels: int = 3, *, bn_momentum: float = 0.001
) -> WideResNet:
    """WRN-37-2 for 96 × 96 images: a fourth group, and a stride of 2 in the first; STL-10.

    Example:
        >>> import torch
        >>> wrn_37_2()(torch.rand(2, 3, 96, 96)).shape
        torch.Size([2, 10])
    """
    return WideResNet(
        n_classes,
        in_channels,
        widths=(32, 64, 128, 256),
        strides=(2, 2, 2, 2),
        bn_momentum=bn_momentum,
    )

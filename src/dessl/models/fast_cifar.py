"""A fast network for small images: nine wide layers that keep the device busy."""

from collections.abc import Sequence

from torch import Tensor, nn

from dessl.models.inputs import check_images

LOGIT_SCALE = 0.125  # keeps the initial logits small, so a high learning rate is safe


class FastCifar(nn.Module):
    """Eight 3 × 3 convolutions with batch normalisation and GELU, two shortcuts, global maximum.

    A convolution with w channels, then 2w, 4w and 8w, each followed by max pooling; a residual pair
    after the 2w and the 8w. Every width is a multiple of 8, which suits tensor cores, and most work
    is in a few large convolutions, unlike a wide ResNet's many small ones.

    Args:
        n_classes: Columns of the logits.
        in_channels: 1 for grey images, 3 for colour.
        width: Channels w of the first convolution.
        residuals: Number of residual pairs after the 2w, the 4w and the 8w.

    Shape:
        (n, in_channels, height, width) to (n, n_classes), sides of at least 8.

    Example:
        >>> import torch
        >>> FastCifar(width=8)(torch.rand(2, 3, 32, 32)).shape
        torch.Size([2, 10])
    """

    def __init__(
        self,
        n_classes: int = 10,
        in_channels: int = 3,
        *,
        width: int = 64,
        residuals: Sequence[int] = (1, 0, 1),
    ) -> None:
        super().__init__()
        if len(residuals) != 3 or min(residuals) < 0:
            raise ValueError(
                "residuals must be three counts, the residual pairs after each pooled convolution, "
                f"such as (1, 0, 1); got {residuals!r}."
            )
        self.in_channels = in_channels
        maps: list[nn.Module] = [_convolution(in_channels, width)]
        for pairs in residuals:
            maps.append(_convolution(width, 2 * width, pool=True))
            width *= 2
            maps += [_Residual(width) for _ in range(pairs)]
        self.maps = nn.Sequential(*maps)
        self.head = nn.Linear(width, n_classes, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Logits (n, n_classes) of images (n, in_channels, height, width)."""
        check_images(x, self.in_channels, least_side=8)
        # Not amax: its gradient compares values with the maximum, and is NaN if the compiler
        # recomputed them in another precision; max stores the index.
        maxima = self.maps(x).flatten(2).max(2).values
        logits: Tensor = LOGIT_SCALE * self.head(maxima)
        return logits


class _Residual(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.maps = nn.Sequential(_convolution(width, width), _convolution(width, width))

    def forward(self, x: Tensor) -> Tensor:
        added: Tensor = x + self.maps(x)
        return added


def _convolution(before: int, after: int, *, pool: bool = False) -> nn.Sequential:
    # Pooling first leaves batch normalisation a quarter of the values.
    return nn.Sequential(
        nn.Conv2d(before, after, 3, padding=1, bias=False),
        *([nn.MaxPool2d(2)] if pool else []),
        nn.BatchNorm2d(after),
        nn.GELU(),
    )

"""A fast network for small images: nine layers, few and wide, so that the device is kept busy."""

from collections.abc import Sequence

from torch import Tensor, nn

from dessl.models.inputs import check_images

LOGIT_SCALE = 0.125  # keeps the first logits small, so that a high learning rate is safe


class FastCifar(nn.Module):
    """Eight 3 × 3 convolutions with batch normalisation and GELU, two short cuts, global maximum.

    A convolution of w maps; of 2w, 4w and 8w, each followed by max pooling; a residual pair after
    the 2w and the 8w. Every width is a multiple of 8, as tensor cores like it, and most work is in
    few large convolutions, unlike a wide ResNet's many small ones.

    Args:
        n_classes: Columns of the logits.
        in_channels: 1 for grey images, 3 for colour.
        width: Maps w of the first convolution.
        residuals: How many pairs follow the 2w, the 4w and the 8w.

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
                "residuals must say how many pairs follow each of the three pooled convolutions, "
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
        # Not amax: its gradient looks for the maximum's value among numbers that a compiler may
        # have computed anew in another precision, and is NaN; max remembers the place.
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
    # Pooling before normalisation leaves it a quarter of the values to go through.
    return nn.Sequential(
        nn.Conv2d(before, after, 3, padding=1, bias=False),
        *([nn.MaxPool2d(2)] if pool else []),
        nn.BatchNorm2d(after),
        nn.GELU(),
    )

"""Large images made small by averaging areas, for networks and teachers that need no detail."""

import torch
from torch import Tensor, nn

LEAST_SIDE = 8  # of the result: what the networks for images need


def reduced_sides(sides: tuple[int, int], longest: int) -> tuple[int, int]:
    """Return height and width with the longer side at most ``longest``, in proportion.

    >>> reduced_sides((100, 200), 32), reduced_sides((28, 28), 32), reduced_sides((9, 900), 32)
    ((16, 32), (28, 28), (8, 32))
    """
    factor = longest / max(sides)
    if factor >= 1:
        return sides
    height, width = (min(side, max(LEAST_SIDE, round(factor * side))) for side in sides)
    return height, width


def area_averaged(images: Tensor, longest: int) -> Tensor:
    """Return images (n, channels, height, width) with the longer side at most ``longest``.

    Each new pixel is the mean of the area that it covers, so nothing aliases. Bytes become floats
    with the same levels; images that are small enough are returned unchanged.

    >>> area_averaged(torch.tensor([[[[0, 2, 4, 6]] * 4]]).to(torch.uint8), 2)[0, 0]
    tensor([[0, 2, 4, 6],
            [0, 2, 4, 6],
            [0, 2, 4, 6],
            [0, 2, 4, 6]], dtype=torch.uint8)
    >>> area_averaged(torch.arange(16.0).expand(1, 1, 16, 16), 8)[0, 0, 0]
    tensor([ 0.5000,  2.5000,  4.5000,  6.5000,  8.5000, 10.5000, 12.5000, 14.5000])
    """
    before = (images.shape[2], images.shape[3])
    after = reduced_sides(before, longest)
    if after == before:
        return images
    dtype = images.dtype if images.is_floating_point() else torch.float32
    down = _averages(before[0], after[0], images.device, dtype)
    across = _averages(before[1], after[1], images.device, dtype)
    return down @ (images.to(dtype) @ across.T)


def _averages(before: int, after: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    """The share (after, before) of each old pixel in each new one; rows sum to 1."""
    width = before / after
    new = torch.arange(after, device=device, dtype=torch.float64)[:, None] * width
    old = torch.arange(before, device=device, dtype=torch.float64)
    covered = torch.minimum(new + width, old + 1) - torch.maximum(new, old)
    return (covered.clamp(min=0) / width).to(dtype)


class Reduced(nn.Module):
    """A network that sees images reduced by averaging areas.

    Args:
        network: From small images to logits.
        longest: Most pixels of the longer side that it sees.

    Shape:
        (n, channels, height, width) to the network's (n, n_classes).

    Example:
        >>> from dessl.models.lenet import LeNet
        >>> Reduced(LeNet(size=(16, 32)), 32)(torch.rand(2, 1, 100, 200)).shape
        torch.Size([2, 10])
    """

    def __init__(self, network: nn.Module, longest: int) -> None:
        super().__init__()
        self.network = network
        self.longest = longest

    def forward(self, x: Tensor) -> Tensor:
        """Logits (n, n_classes) of images (n, channels, height, width)."""
        logits: Tensor = self.network(area_averaged(x, self.longest))
        return logits

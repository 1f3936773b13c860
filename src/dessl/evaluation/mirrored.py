"""Test-time augmentation by a horizontal flip."""

import torch
from torch import Tensor, nn


class Mirrored(nn.Module):
    """Average a trained network's logits over an image and its horizontal flip.

    Doubles the cost of prediction and needs no training: an image and its flip get the same
    prediction, and averaging the two reduces noise. Do not use it for images where left and right
    differ in meaning, such as letters. It starts in the network's own mode; in training mode it is
    the network itself.

    Args:
        model: Network from images (n, channels, height, width) to logits (n, classes). Not copied.

    Shape:
        Same as the network's.

    Example:
        >>> import torch
        >>> left = nn.Sequential(nn.Flatten(), nn.Linear(4, 1, bias=False))
        >>> _ = left[1].weight.data.copy_(torch.tensor([[1.0, 0.0, 1.0, 0.0]]))
        >>> x = torch.tensor([[[[5.0, 1.0], [5.0, 1.0]]]])
        >>> left(x).item(), Mirrored(left.eval())(x).item()
        (10.0, 6.0)
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.training = model.training

    def forward(self, x: Tensor) -> Tensor:
        """Logits (n, classes) of images (n, channels, height, width)."""
        if self.training:
            own: Tensor = self.model(x)
            return own
        if x.ndim != 4:
            raise ValueError(
                "only images (n, channels, height, width) can be flipped; got shape "
                f"{tuple(x.shape)}."
            )
        one, other = self.model(torch.cat([x, x.flip(-1)])).chunk(2)
        mean: Tensor = (one + other) / 2
        return mean

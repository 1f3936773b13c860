"""A network that looks at an image and at its mirror image."""

import torch
from torch import Tensor, nn


class Mirrored(nn.Module):
    """A trained network whose logits are the mean of an image's and its mirror image's.

    Twice the work and no training: an image and its mirror image get the same answer, and what one
    of the two looks like by chance counts half. Not for images whose left and right differ in
    meaning, such as letters. It begins in the network's own mode; in training mode it is the
    network itself.

    Args:
        model: From images (n, channels, height, width) to logits (n, classes). It is not copied.

    Shape:
        As the network's.

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
                "only images (n, channels, height, width) have mirror images; got shape "
                f"{tuple(x.shape)}."
            )
        one, other = self.model(torch.cat([x, x.flip(-1)])).chunk(2)
        mean: Tensor = (one + other) / 2
        return mean

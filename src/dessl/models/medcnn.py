"""The MedMNIST experiments' five-layer network: 16-16-pool-64-64-64-pool, then 128-128-K."""

from torch import Tensor, nn

from dessl.models.inputs import check_image_size

SIDE = 28  # of MedMNIST images; gives 64 maps of 4 × 4


class MedCNN(nn.Module):
    """Five 3 × 3 convolutions, each with batch normalisation and ReLU, and three linear layers.

    Args:
        n_classes: Columns of the logits.
        in_channels: 1 for grey images, 3 for colour.

    Shape:
        (n, in_channels, 28, 28) to (n, n_classes).

    Example:
        >>> import torch
        >>> MedCNN(n_classes=7)(torch.rand(2, 3, 28, 28)).shape
        torch.Size([2, 7])
    """

    def __init__(self, n_classes: int, in_channels: int = 3) -> None:
        super().__init__()
        self.in_channels = in_channels
        self.maps = nn.Sequential(
            *_convolution(in_channels, 16),
            *_convolution(16, 16),
            nn.MaxPool2d(2),
            *_convolution(16, 64),
            *_convolution(64, 64),
            *_convolution(64, 64, padding=1),
            nn.MaxPool2d(2),
            nn.Flatten(),
        )
        self.head = nn.Sequential(
            nn.Linear(64 * 4 * 4, 128),
            nn.ReLU(),
            nn.Linear(128, 128),
            nn.ReLU(),
            nn.Linear(128, n_classes),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Logits (n, n_classes) of images (n, in_channels, 28, 28)."""
        check_image_size(x, self.in_channels, (SIDE, SIDE))
        logits: Tensor = self.head(self.maps(x))
        return logits


def _convolution(before: int, after: int, padding: int = 0) -> list[nn.Module]:
    return [nn.Conv2d(before, after, 3, padding=padding), nn.BatchNorm2d(after), nn.ReLU()]

"""LeNet as in the paper's MNIST experiments: 6@5 - pool - 16@5 - pool - 120 - 84 - K."""

from collections.abc import Sequence

from torch import Tensor, nn

from dessl import _checks
from dessl.models.inputs import check_image_size


class LeNet(nn.Module):
    """Two convolutions with ReLU and max pooling, then three linear layers.

    As in the paper the convolutions are not padded, so 28 × 28 images give 16 maps of 4 × 4. Images
    with a side below 16 would be too small: for them both convolutions are padded by 2, which keeps
    the size, so 8 × 8 images give 16 maps of 2 × 2.

    Args:
        n_classes: Columns of the logits.
        in_channels: 1 for grey images, 3 for colour.
        size: Height and width of the images, or the side of square ones; at least 4.
        padding: Zero padding of the images and of the first pooled maps. LeNet-5, which padded
            28 × 28 digits to 32 × 32, used (2, 0). The default is described above.

    Shape:
        (n, in_channels, height, width) to (n, n_classes).

    Example:
        >>> import torch
        >>> LeNet()(torch.rand(2, 1, 28, 28)).shape
        torch.Size([2, 10])
        >>> LeNet(size=8)(torch.rand(2, 1, 8, 8)).shape
        torch.Size([2, 10])
    """

    def __init__(
        self,
        n_classes: int = 10,
        in_channels: int = 1,
        *,
        size: int | tuple[int, int] = 28,
        padding: Sequence[int] | None = None,
    ) -> None:
        super().__init__()
        self.in_channels = in_channels
        self.size = (size, size) if isinstance(size, int) else size
        _checks.whole_number("size", min(self.size), low=4)
        if padding is None:
            padding = (2, 2) if min(self.size) < 16 else (0, 0)
        first, second = (_checks.whole_number("padding", zeros, high=4) for zeros in padding)
        height, width = (((side - 4 + 2 * first) // 2 - 4 + 2 * second) // 2 for side in self.size)
        if min(height, width) < 1:
            raise ValueError(
                f"padding {first, second} is too small for images of size {self.size}. Increase "
                "it, or omit it."
            )
        self.maps = nn.Sequential(
            nn.Conv2d(in_channels, 6, 5, padding=first),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(6, 16, 5, padding=second),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
        )
        self.head = nn.Sequential(
            nn.Linear(16 * height * width, 120),
            nn.ReLU(),
            nn.Linear(120, 84),
            nn.ReLU(),
            nn.Linear(84, n_classes),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Logits (n, n_classes) of images (n, in_channels, height, width)."""
        check_image_size(x, self.in_channels, self.size)
        logits: Tensor = self.head(self.maps(x))
        return logits

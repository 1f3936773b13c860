"""Fully connected networks: one for tables, and the network of the paper's toy example."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from dessl import _checks
from dessl.models.inputs import check_table


class MLP(nn.Module):
    """Linear layers with ReLU and dropout between them, for standardised tables.

    Args:
        n_features: Columns of x.
        n_classes: Columns of the logits.
        hidden: Widths of the hidden layers.
        dropout: Dropout probability after each hidden layer.

    Shape:
        (n, n_features) to (n, n_classes).

    Example:
        >>> MLP(4, 3)(torch.rand(5, 4)).shape
        torch.Size([5, 3])
    """

    def __init__(
        self,
        n_features: int,
        n_classes: int,
        *,
        hidden: Sequence[int] = (256, 256, 256),
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.n_features = _checks.whole_number("n_features", n_features, low=1)
        dropout = _checks.number("dropout", dropout, low=0, high=1, open_high=True)
        widths = [n_features, *hidden]
        layers: list[nn.Module] = []
        for before, after in zip(widths, hidden, strict=False):
            layers += [nn.Linear(before, after), nn.ReLU()]
            layers += [nn.Dropout(dropout)] if dropout else []
        self.layers = nn.Sequential(*layers, nn.Linear(widths[-1], n_classes))

    def forward(self, x: Tensor) -> Tensor:
        """Logits (n, n_classes) of rows (n, n_features)."""
        check_table(x, self.n_features)
        logits: Tensor = self.layers(x)
        return logits


class ToyMLP(nn.Module):
    """The toy example's network 1-20-100-20-1 with ReLU, for two classes.

    Its single output z becomes the two logits (0, z), whose softmax is the sigmoid of z, so it can
    be used like any two-class network.

    Shape:
        (n, 1) to (n, 2).

    Example:
        >>> logits = ToyMLP()(torch.rand(5, 1))
        >>> logits.shape, bool((logits[:, 0] == 0).all())
        (torch.Size([5, 2]), True)
    """

    def __init__(self) -> None:
        super().__init__()
        self.score = MLP(1, 1, hidden=(20, 100, 20), dropout=0.0)

    def forward(self, x: Tensor) -> Tensor:
        """Logits (n, 2) of points (n, 1)."""
        z = self.score(x)
        return torch.cat([torch.zeros_like(z), z], dim=1)

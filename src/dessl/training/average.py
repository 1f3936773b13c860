"""Averaged weights: θ̄ ← θ̄ + (1 − d)(θ − θ̄) after every step, d = min(decay, 1 − 1/(t + 1))."""

import copy

import torch
from torch import nn

from dessl.surrogates.ema import move_average
from dessl.surrogates.state import device_of


class WeightAverage:
    """The exponential moving average of a model's weights, for evaluation only.

    The law is that of the mean teacher: the first steps all weigh alike, so that the initial
    weights are soon forgotten. Buffers, such as BatchNorm's running statistics, are copied, and so
    are whole numbers. Trained weights in half precision are refused: the average would stand still.
    (PyTorch's ``swa_utils`` does not fit: it looks at a counter on the device, and so waits.)

    Args:
        model: Whose weights are averaged; a deep copy of it is made.
        decay: In (0, 1).

    >>> model = nn.Linear(1, 1, bias=False)
    >>> average = WeightAverage(model, decay=0.9)
    >>> before = model.weight.item()
    >>> _ = nn.init.constant_(model.weight, before + 1)
    >>> average.follow(model)
    >>> round(average.model.weight.item() - before, 4)
    0.5
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.model = copy.deepcopy(model).requires_grad_(False).eval()
        self.steps = torch.zeros((), dtype=torch.int64, device=device_of(model))

    @torch.no_grad()
    def follow(self, model: nn.Module) -> None:
        """Move towards the model after its step."""
        move_average(list(self.model.parameters()), list(model.parameters()), self)
        for dtype in {buffer.dtype for buffer in self.model.buffers()}:
            ours = [buffer for buffer in self.model.buffers() if buffer.dtype == dtype]
            theirs = [buffer for buffer in model.buffers() if buffer.dtype == dtype]
            torch._foreach_copy_(ours, theirs)

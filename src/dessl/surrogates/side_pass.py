"""Passes that change no buffers, such as BatchNorm's running statistics."""

from torch import Tensor, nn
from torch.func import functional_call

from dessl.surrogates.base import Model
from dessl.surrogates.smooth import SmoothedModel


def side_pass(model: Model) -> Model:
    """Return the model with separate buffers, copied for each pass and discarded after it.

    In training mode BatchNorm uses the batch's statistics as usual, but does not update the running
    ones. Parameters are the model's own and get gradients. The model itself is not modified, so
    this can be compiled and captured in a CUDA graph. A plain function is returned unchanged: its
    buffers, if it has any, are not visible.

    >>> import torch
    >>> norm = nn.BatchNorm1d(2)
    >>> y = side_pass(norm)(torch.randn(8, 2) + 5)
    >>> norm.running_mean, norm.num_batches_tracked
    (tensor([0., 0.]), tensor(0))
    """
    if isinstance(model, SmoothedModel):
        return SmoothedModel(side_pass(model.model), model.epsilon)
    if not isinstance(model, nn.Module):
        return model

    def call(x: Tensor) -> Tensor:
        buffers = {name: buffer.clone() for name, buffer in model.named_buffers()}
        logits: Tensor = functional_call(model, buffers, (x,))
        return logits

    return call

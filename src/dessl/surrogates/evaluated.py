"""A pass in evaluation mode, as the model is used later: running statistics, no dropout."""

import torch
from torch import Tensor, nn

from dessl.surrogates.base import Model
from dessl.surrogates.smooth import SmoothedModel


def evaluated(model: Model) -> Model:
    """Return the model in evaluation mode, without gradients; each pass restores its own mode.

    Only the modules' ``training`` is switched, so this can be compiled and captured in a CUDA
    graph. A plain function is called unchanged.

    >>> norm = nn.BatchNorm1d(1)
    >>> evaluated(norm)(torch.tensor([[3.0], [5.0]])).round().flatten().tolist()
    [3.0, 5.0]
    >>> norm.training, norm.num_batches_tracked.item()
    (True, 0)
    """
    if isinstance(model, SmoothedModel):
        return SmoothedModel(evaluated(model.model), model.epsilon)
    if not isinstance(model, nn.Module):
        return torch.no_grad()(model)

    def call(x: Tensor) -> Tensor:
        modes = [(module, module.training) for module in model.modules()]
        try:
            for module, _ in modes:
                module.training = False
            with torch.no_grad():
                logits: Tensor = model(x)
        finally:
            for module, mode in modes:
                module.training = mode
        return logits

    return call

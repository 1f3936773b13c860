"""Other passes through a model: one that changes no buffers, and one in evaluation mode.

Evaluation mode asks that BatchNorm follows the weights, so its check is here too.
"""

import torch
from torch import Tensor, nn
from torch.func import functional_call

from dessl.surrogates.base import Model, Surrogate
from dessl.surrogates.smooth import SmoothedModel

LEAST_MOMENTUM = 0.05  # of BatchNorm, for targets in evaluation mode


def side_pass(model: Model) -> Model:
    """Return the model with separate buffers, copied for each pass and discarded after it.

    In training mode BatchNorm uses the batch's statistics as usual, but does not update the running
    ones. Parameters are the model's own and get gradients. The model itself is not modified, so
    this can be compiled and captured in a CUDA graph. A plain function is returned unchanged: its
    buffers, if it has any, are not visible.

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


def evaluated(model: Model) -> Model:
    """Return the model in evaluation mode, without gradients: no dropout, running statistics.

    Only the modules' ``training`` is switched, and restored after each pass, so this can be
    compiled and captured in a CUDA graph. A plain function is called unchanged.

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


def slow_statistics(model: nn.Module, surrogate: Surrogate) -> str | None:
    """A warning if BatchNorm lags behind the weights and targets depend on it, or None.

    In evaluation mode BatchNorm uses running statistics. With FixMatch's momentum of 0.001 they
    remember about 1,000 steps: in the first hundreds a wide ResNet then gives nearly all rows one
    class with a confidence near 1 (``benchmarks/batch_memory.py``), and learns it. The statistics
    of a layer in evaluation mode, which is frozen, do not follow the weights at all.

    >>> from dessl.surrogates import FixMatch, MeanTeacher
    >>> slow = nn.BatchNorm1d(2, momentum=0.001)
    >>> slow_statistics(slow, MeanTeacher())[:34]
    'BatchNorm has a momentum of 0.001,'
    >>> slow_statistics(slow, FixMatch(targets="joint"))
    """
    parts = [part for part in surrogate.parts() if part.evaluates_targets]
    if not parts:
        return None
    norms = (m for m in model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm))
    momenta = [norm.momentum or 0.0 for norm in norms if norm.training and norm.track_running_stats]
    if not momenta or min(momenta) >= LEAST_MOMENTUM:
        return None
    joint = ", or pass targets='joint'" if all(hasattr(part, "targets") for part in parts) else ""
    return (
        f"BatchNorm has a momentum of {min(momenta):g}, so its running statistics lag far behind "
        "the weights, and targets that are predicted with them, in evaluation mode, can collapse "
        f"to one class. Build the model with momentum=0.1 (wide ResNets: bn_momentum=0.1){joint}."
    )

"""All of a model that training keeps: its parameters and every buffer, by name."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from dessl.training.sharded import like

NORMS = (nn.modules.batchnorm._NormBase, nn.LayerNorm, nn.GroupNorm)


def state_of(model: nn.Module) -> dict[str, Tensor]:
    """Return parameters and buffers by name, shared ones once.

    Unlike ``state_dict``, this includes buffers registered with ``persistent=False``: the
    model's predictions may depend on them too.

    >>> list(state_of(nn.BatchNorm1d(3, affine=False)))
    ['running_mean', 'running_var', 'num_batches_tracked']
    """
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


@torch.no_grad()
def load_state_into(model: nn.Module, state: Mapping[str, Tensor]) -> None:
    """Copy a whole state into a model, and refuse one of another architecture.

    Args:
        model: Model to load the state into.
        state: Result of :func:`state_of` for a model of the same architecture.
    """
    own = state_of(model)
    expected, given = ({(name, v.shape) for name, v in part.items()} for part in (own, state))
    if expected != given:
        name, shape = min(expected ^ given)
        where = "missing from it" if (name, shape) in expected else "not in the model"
        raise ValueError(
            f"the saved state does not fit the model: {name!r} of shape {tuple(shape)} is {where}. "
            "Build the model as it was when the state was saved, or start over in another folder."
        )
    for name, value in state.items():
        own[name].copy_(like(own[name], value))


def check_initialised(model: nn.Module) -> None:
    """Refuse lazy layers that have not seen a batch: their weights have no shape yet.

    >>> check_initialised(nn.LazyLinear(2))
    Traceback (most recent call last):
    ValueError: the model's 'weight' has no shape yet, so it cannot be trained. Pass \
one batch through the model first.
    """
    for name, value in state_of(model).items():
        if is_lazy(value):
            raise ValueError(
                f"the model's {name!r} has no shape yet, so it cannot be trained. Pass "
                "one batch through the model first."
            )


def check_all_in_tensors(model: nn.Module) -> None:
    """Refuse a model with state outside its parameters and buffers."""
    for part in model.modules():
        if type(part).get_extra_state is not nn.Module.get_extra_state:
            raise ValueError(
                f"{type(part).__name__} has state outside its parameters and buffers "
                "(get_extra_state), which is not saved, selected or averaged. Keep it in buffers, "
                "or use dessl.train without out and with select='last' and ema=0."
            )


def begin_training(model: nn.Module) -> nn.Module:
    """Switch to training mode, except normalisation layers that are frozen, and return the model.

    They are taken for frozen if they alone are in evaluation mode: their running statistics then
    must not change. A backbone that was loaded in evaluation mode as a whole is trained as usual.

    >>> model = nn.Sequential(nn.Dropout(), nn.BatchNorm1d(2).eval())
    >>> [layer.training for layer in begin_training(model)]
    [True, False]
    >>> [layer.training for layer in begin_training(model.eval())]
    [True, True]
    """
    still = [module for module in model.modules() if not module.training]
    model.train()
    if all(isinstance(layer, NORMS) for layer in still):
        for layer in still:
            layer.eval()
    return model

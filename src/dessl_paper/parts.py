"""What a cell is trained with: its network, its unlabelled term, and what both see of a row."""

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from dessl import _checks
from dessl.augment import Strong, Weak, noisy
from dessl.data import SemiData
from dessl.models import MODELS
from dessl.surrogates import SURROGATES, Surrogate

Transform = Callable[[Tensor], Tensor]


class NoisyView:
    """A weak view with Gaussian noise after normalisation: Oliver et al.'s for CIFAR-10.

    Args:
        noise: Standard deviation.
        weak: Settings of :class:`dessl.augment.Weak`.
    """

    def __init__(self, noise: float, **weak: Any) -> None:
        self.noise = noise
        self.weak = Weak(**weak)

    def __call__(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Return the view of uint8 images, as floats."""
        return noisy(self.weak(x, generator), self.noise, generator)


def network(settings: Mapping[str, Any], data: SemiData) -> Callable[[], nn.Module]:
    """A function that builds the network for the data's images and classes.

    >>> from dessl_paper.sources import generated
    >>> network({"name": "lenet"}, generated("mnist", 4))()(torch.zeros(1, 1, 28, 28)).shape
    torch.Size([1, 10])
    """
    own = dict(settings)
    name = own.pop("name")
    _checks.one_of("model", name, tuple(MODELS))
    return partial(MODELS[name], n_classes=data.n_classes, in_channels=data.x.shape[1], **own)


def term(settings: Mapping[str, Any], views: Mapping[str, Any], *, seed: int = 0) -> Surrogate:
    """The unlabelled term, each of its views with the experiment's settings.

    Args:
        settings: Its name and settings.
        views: The experiment's.
        seed: Of the draws of its views.

    >>> views = {"mean": 0.5, "std": 1.0, "view": {"flip": False, "shift": 0}}
    >>> type(term({"name": "pseudo_label", "threshold": 0.9}, views)).__name__
    'PseudoLabel'
    """
    own = dict(settings)
    name = own.pop("name")
    _checks.one_of("surrogate", name, tuple(SURROGATES))
    takes = inspect.signature(SURROGATES[name]).parameters
    for which in ("view", "weak", "strong"):
        if which in takes:
            own[which] = _view(which, views)
    return SURROGATES[name](seed=seed, **own)


def shown(views: Mapping[str, Any]) -> Transform:
    """What a model sees of a row at evaluation: normalised, nothing drawn."""
    plain = Weak(flip=False, shift=0, **_normalisation(views))
    return lambda x: plain(x, torch.Generator(x.device))


def _view(which: str, views: Mapping[str, Any]) -> Callable[..., Tensor]:
    settings = {**views.get(which, {}), **_normalisation(views)}
    if which == "strong":
        return Strong(**settings)
    return NoisyView(**settings) if "noise" in settings else Weak(**settings)


def _normalisation(views: Mapping[str, Any]) -> dict[str, Any]:
    return {key: views[key] for key in ("mean", "std") if key in views}

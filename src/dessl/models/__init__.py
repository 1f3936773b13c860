"""The paper's networks and a fast one; any other ``nn.Module`` from x to logits works as well.

All take normalised floats, not bytes. Weights are initialised from PyTorch's global generator: call
``torch.manual_seed`` before building a network, inside ``torch.random.fork_rng()`` to leave the
global state unchanged.
"""

from collections.abc import Callable

from torch import nn

from dessl.models.cnn13 import CNN13
from dessl.models.fast_cifar import FastCifar
from dessl.models.lenet import LeNet
from dessl.models.medcnn import MedCNN
from dessl.models.mlp import MLP, ToyMLP
from dessl.models.wide_resnet import WideResNet, wrn_28_2, wrn_28_8, wrn_37_2

MODELS: dict[str, Callable[..., nn.Module]] = {
    "mlp": MLP,
    "toy_mlp": ToyMLP,
    "lenet": LeNet,
    "medcnn": MedCNN,
    "cnn13": CNN13,
    "wrn_28_2": wrn_28_2,
    "wrn_28_8": wrn_28_8,
    "wrn_37_2": wrn_37_2,
    "fast_cifar": FastCifar,
}

__all__ = [
    "CNN13",
    "MLP",
    "MODELS",
    "FastCifar",
    "LeNet",
    "MedCNN",
    "ToyMLP",
    "WideResNet",
    "wrn_28_2",
    "wrn_28_8",
    "wrn_37_2",
]

"""The default network for rows of a shape, and what it sees of large images."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import nn

from dessl import _checks
from dessl.data import SemiData
from dessl.models import MODELS
from dessl.models.reduced import reduced_sides
from dessl.teachers.rows import LARGEST_SIDE

LARGEST_TINY = 16  # side of images for which training is cheap, colour or not
LARGEST_LENET = 32  # side of greyscale images for which training is cheap
HIDDEN, LEAST_HIDDEN = 512, 16  # units of a table's network
SMALL_WIDTH, LARGE_WIDTH = 16, 64  # of FastCifar on a CPU and on a GPU
MOST_WEIGHTS = 512 * 4096  # of its first layer: with more columns, it has fewer units


@dataclass(frozen=True)
class Architecture:
    """A network of ``dessl.MODELS`` by name and options, as stored in a saved model."""

    name: str
    options: dict[str, Any]

    def __call__(self) -> nn.Module:
        """Build the network; its weights come from PyTorch's global generator."""
        return MODELS[self.name](**self.options)


def architecture_for(
    data: SemiData, model: str | Callable[[], nn.Module] | None, shape: tuple[int, ...]
) -> Callable[[], nn.Module]:
    """Return what builds the network: the user's function, or a network that suits the rows.

    Args:
        data: The data.
        model: A function that builds a network, a name in ``dessl.MODELS``, or None.
        shape: The shape of a row as the network sees it, see :func:`seen_shape`.
    """
    if model is not None and not isinstance(model, str):
        if isinstance(model, nn.Module) or not callable(model):
            raise TypeError(
                "model must be a name or a function that builds a network, since several are "
                f"trained; got {type(model).__name__}. Pass lambda: copy.deepcopy(model)."
            )
        return model
    _checks.one_of("model", model, (None, *MODELS))
    name = model or _network_name(shape)
    options: dict[str, Any] = {"n_classes": data.n_classes}
    if len(shape) == 3:
        options["in_channels"] = shape[0]
    if name == "mlp":
        columns = shape[0]
        width = min(HIDDEN, max(LEAST_HIDDEN, MOST_WEIGHTS // columns))
        options |= {"n_features": columns, "hidden": [width], "dropout": 0.3}
    elif name == "lenet":
        options["size"] = shape[1:]
    elif name == "fast_cifar":
        options["width"] = LARGE_WIDTH if data.device.type == "cuda" else SMALL_WIDTH
    return Architecture(name, options)


def seen_shape(data: SemiData, *, whole: bool) -> tuple[int, ...]:
    """The shape of a row as its network sees it: on a CPU, large images are reduced.

    Args:
        data: The data.
        whole: Whether every pixel is needed: the user chose the network or the views.
    """
    shape = tuple(data.x.shape[1:])
    if whole or len(shape) != 3 or data.device.type != "cpu" or min(shape[1:]) < 4:
        return shape
    return shape[0], *reduced_sides(shape[1:], LARGEST_SIDE)


def _network_name(shape: tuple[int, ...]) -> str:
    if len(shape) == 1:
        return "mlp"
    if len(shape) != 3 or min(shape[1:]) < 4:
        images = (
            " Convert greyscale images of 0 to 255 with .astype('uint8'); add a channel axis to "
            "float images with x[:, None]."
        )
        if len(shape) == 3 and shape[2] in (1, 3):
            images = " Float images need their channels first: x.transpose(0, 3, 1, 2)."
        raise ValueError(
            f"defaults exist for tables (n, features) and for images (n, channels, height, "
            f"width) with sides of at least 4; got rows of shape {shape}. "
            "Pass model= (module= in DeSSLClassifier), a function that builds your network."
            + (images if len(shape) == 2 or shape[2:] in ((1,), (3,)) else "")
        )
    small = max(shape[1:]) <= LARGEST_LENET and shape[0] == 1
    return "lenet" if small or min(shape[1:]) < 8 else "fast_cifar"


def is_cheap(shape: tuple[int, ...]) -> bool:
    """Whether rows of this shape are images that cost little to train on."""
    if len(shape) != 3:
        return False
    return max(shape[1:]) <= (LARGEST_LENET if shape[0] == 1 else LARGEST_TINY)

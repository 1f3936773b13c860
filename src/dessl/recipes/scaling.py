"""The scaling of inputs: one mean and deviation for each column of a table or channel of an image.

Both are computed from all rows, labelled or not. Columns on a common scale, such as pixels, share
one deviation: one for each would amplify the noise of nearly constant columns.
"""

import copy
from typing import NamedTuple

import torch
from torch import Tensor

from dessl.augment import Weak
from dessl.data import Part, SemiData
from dessl.surrogates import Surrogate

LEAST_DEVIATION = 1e-6  # of the largest entry: a smaller one is only rounding
ROWS = 20_000  # of images that the levels are taken from: enough for a mean


class Scaling(NamedTuple):
    """(features,) or (channels, 1, 1) each: what is subtracted, and what is divided by."""

    mean: Tensor
    std: Tensor

    def standardised(self, x: Tensor) -> Tensor:
        """Return floats of mean 0 and deviation 1; uint8 images are levels / 255 first."""
        levels = x.float() / 255 if x.dtype == torch.uint8 else x
        return (levels - self.mean) / self.std


def scaling_of(x: Tensor) -> Scaling:
    """Return the scaling of rows (n, features), or of images (n, channels, height, width).

    A column without variation is divided by 1. Columns count as on a common scale if half of them
    have at least half the range, from smallest to largest value, of the column with the largest.

    >>> scaling = scaling_of(torch.tensor([[0.0, 5.0], [2.0, 5.0]]))
    >>> scaling.mean.tolist(), scaling.std.tolist()
    ([1.0, 5.0], [1.0, 1.0])
    """
    images = x.ndim == 4
    rows = x[:: -(-len(x) // ROWS)] if images else x
    levels = rows.double() / 255 if x.dtype == torch.uint8 else rows.double()
    dims = (0, 2, 3) if images else (0,)
    mean, std = levels.mean(dims), levels.std(dims, correction=0)
    size = levels.abs().amax(dims)
    varies = std > LEAST_DEVIATION * size
    if not images and _measured_alike(rows[:, varies]):
        std = std[varies].square().mean().sqrt().expand_as(std)
    std = torch.where(varies, std, 1.0)
    shape = (-1, 1, 1) if images else mean.shape
    return Scaling(mean.view(shape).float(), std.view(shape).float())


def _measured_alike(rows: Tensor) -> bool:
    if rows.shape[1] < 2:
        return False
    reach = rows.amax(0) - rows.amin(0)
    return bool(reach.median() >= reach.max() / 2)


def scaling_shown_by(surrogate: Surrogate) -> Scaling:
    """Return the scaling of uint8 images in a surrogate's views: that of a ``Weak``, if any.

    New images must be scaled as those that the network was trained on.

    >>> from dessl.surrogates import PseudoLabel
    >>> scaling = scaling_shown_by(PseudoLabel(view=Weak(mean=0.5, std=0.25)))
    >>> scaling.mean.flatten().tolist(), scaling.std.flatten().tolist()
    ([0.5], [0.25])
    """
    shown: tuple[tuple[float, ...], tuple[float, ...]] = ((0.0,), (1.0,))
    for module in surrogate.modules():
        for view in (getattr(module, "weak", None), getattr(module, "view", None)):
            if isinstance(view, Weak):
                shown = view.mean, view.std
    return Scaling(*(torch.tensor(values).view(-1, 1, 1) for values in shown))


def standardised_data(data: SemiData, scaling: Scaling) -> SemiData:
    """Return the data with every part's features standardised; all else is shared."""
    new = copy.copy(data)
    new.x = scaling.standardised(data.x)
    for name, value in vars(data).items():
        if isinstance(value, Part):
            setattr(new, name, Part(scaling.standardised(value.x), value.y))
    return new

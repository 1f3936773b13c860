"""Input scaling: one mean and deviation for each column of a table or channel of an image.

Both use all rows, labelled or not. Columns follow the rule of the teachers
(:mod:`dessl.teachers.space`), and a table is scaled only here: its encoding only subtracts.

Many columns that vary together, as pixels do, are divided once more. A step of Adam moves every
weight by as much as the learning rate, so all of these columns push a hidden unit the same way, and
a network is sure of everything after ten steps. With ν the variance of the leading principal
component of more than 100 scaled columns, all are divided by max(1, ν/16).
"""

import copy
import hashlib
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from dessl.augment import Strong, Weak
from dessl.data import Part, SemiData
from dessl.data.stored.rows import Changed
from dessl.models.reduced import area_averaged
from dessl.surrogates import Surrogate, View
from dessl.teachers.space import LEAST_DEVIATION, column_mean, column_scale

ROWS = 20_000  # images used for the mean and deviation
PIXELS = ROWS * 3 * 32 * 32  # of all these images together: fewer of them if they are large
LEAST_ROWS = 100
MANY = 100  # columns, above which they are divided again if they vary together
MOST_TOGETHER = 16.0  # the leading component's variance that needs no such division
ENTRIES = 2**22  # of the rows from which that variance is estimated

Change = Callable[[Tensor], Tensor]


class Scaling(NamedTuple):
    """The mean to subtract and the deviation to divide by, (features,) or (channels, 1, 1) each."""

    mean: Tensor
    std: Tensor

    def standardised(self, x: Tensor) -> Tensor:
        """Return floats of mean 0 and deviation 1; uint8 images are divided by 255 first."""
        levels = x.float() / 255 if x.dtype == torch.uint8 else x
        return (levels - self.mean).div_(self.std)  # in place, to avoid a second copy


def scaling_of(x: Tensor, reduced_to: int | None = None) -> Scaling:
    """Return the scaling of rows (n, features), or of images (n, channels, height, width).

    Columns are divided as in :func:`dessl.teachers.space.column_scale`, constant ones by 1, and
    many that vary together once more; the pixels of a channel share one deviation. Images are taken
    as reduced, if they will be.

    >>> scaling = scaling_of(torch.tensor([[0.0, 5.0], [2.0, 5.0]]))
    >>> scaling.mean.tolist(), scaling.std.tolist()
    ([1.0, 5.0], [1.0, 1.0])
    """
    if x.ndim != 4:
        mean, std = column_mean(x), column_scale(x, one_hot_together=False)
        if x.shape[1] > MANY:
            std = std * max(1.0, leading_variance(x, mean, std) / MOST_TOGETHER)
        return Scaling(mean.float(), std.float())
    pixels = x[0].numel() if reduced_to is None else 3 * reduced_to**2
    most = min(ROWS, max(LEAST_ROWS, PIXELS // pixels))
    rows = x[:: -(-len(x) // most)]
    if reduced_to is not None:
        rows = area_averaged(rows, reduced_to)
    levels = rows.double() / 255 if x.dtype == torch.uint8 else rows.double()
    mean, std = levels.mean((0, 2, 3)), levels.std((0, 2, 3), correction=0)
    std = torch.where(std > LEAST_DEVIATION * levels.abs().amax((0, 2, 3)), std, 1.0)
    return Scaling(mean.view(-1, 1, 1).float(), std.view(-1, 1, 1).float())


def leading_variance(x: Tensor, mean: Tensor, std: Tensor) -> float:
    """Return the variance of scaled rows (n, d) along their leading principal component.

    The component is that of every other row of a sample, and its variance that of the rest: on its
    own rows it would be too large where there are more columns than rows.

    >>> factor = torch.linspace(-1, 1, 100)[:, None]
    >>> round(leading_variance(factor.expand(-1, 80), torch.zeros(80), factor.std(0, correction=0)))
    80
    """
    most = min(1000, max(LEAST_ROWS, ENTRIES // x.shape[1]))
    rows = x[:: -(-len(x) // most)].cpu().double()
    rows = (rows - mean.cpu()) / std.cpu()
    own, others = rows[::2], rows[1::2]
    if not len(others):
        return 1.0
    component = torch.linalg.eigh(own @ own.T).eigenvectors[:, -1] @ own
    length = component.norm()
    return float((others @ component).square().mean() / length**2) if length > 0 else 1.0


def scaling_shown_by(surrogate: Surrogate) -> Scaling:
    """Return the scaling of uint8 images in a surrogate's views: that of a ``Weak``, if any.

    New images must be scaled like the training images.

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
    """Return the data with every part's features standardised; everything else is shared."""
    on_cpu = Scaling(*(part.cpu() for part in scaling))
    digits = [part.numpy().tobytes() for part in on_cpu]
    name = hashlib.sha256(b"".join(digits)).hexdigest()
    return _changed(data, scaling.standardised, on_cpu.standardised, name)


def reduced_data(data: SemiData, longest: int) -> SemiData:
    """Return the data with every part's images reduced; everything else is shared."""
    change = partial(area_averaged, longest=longest)
    return _changed(data, change, change, f"reduced to {longest}")


def _changed(data: SemiData, change: Change, change_on_cpu: Change, name: str) -> SemiData:
    """The data with changed features; rows on disk are changed when they are read."""
    new = copy.copy(data)
    new.x = change(data.x)
    for part, value in vars(data).items():
        if isinstance(value, Part):
            setattr(new, part, Part(change(value.x), value.y))
    if data.stored is not None:
        new.stored = Changed(
            data.stored,
            lambda x: change_on_cpu(torch.from_numpy(x)).numpy(),
            name=name,
            shape=tuple(new.x.shape[1:]),
        )
    return new


def standardising_views(scaling: Scaling) -> dict[str, View]:
    """Views of uint8 images by the names of surrogates' arguments, shown to a network scaled."""
    mean, std = scaling.mean.flatten().tolist(), scaling.std.flatten().tolist()
    weak = Weak(flip=False, mean=mean, std=std)
    return {"view": weak, "weak": weak, "strong": Strong(flip=False, mean=mean, std=std)}

"""Inputs of the tests of a data set: named columns of a table, or summaries of images."""

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from dessl.data import SemiData
from dessl.data.parts import row_groups
from dessl.teachers.rows import as_columns

GRID = 8  # brightness of an image in GRID × GRID regions
AT_ONCE = 2**24  # bytes of images at a time
MOST_COLUMNS = 1024  # of wider rows, only every second, third, ... column is used
GROUPS_OF_SAMPLE = 20  # at least, however large they are
MOST_ROWS = 10_000  # enough for a test; copies are searched in all rows


class Columns(NamedTuple):
    """Numbers (n, d), float32, and a name for each column."""

    values: Tensor
    names: tuple[str, ...]


class Sampled(NamedTuple):
    """Rows for tests: positions (n,) in the data, which of them are labelled, and their groups."""

    rows: Tensor
    labelled: NDArray[np.bool_]
    groups: NDArray[np.int64] | None = None


def groups_of_rows(data: SemiData, groups: "Tensor | NDArray[Any] | None" = None) -> Tensor | None:
    """Return the group of each row, (n,), on the CPU: those given, or those of the data.

    >>> data = SemiData(torch.rand(3, 2), [0, 1, -1])
    >>> groups_of_rows(data), groups_of_rows(data, ["b", "a", "b"]).tolist()
    (None, [1, 0, 1])
    """
    found = data.groups if groups is None else row_groups(groups, data.x)
    return None if found is None else found.cpu()


def sampled_rows(
    data: SemiData, *, groups: Tensor | None = None, most: int = MOST_ROWS, seed: int = 0
) -> Sampled:
    """Return at most ``most`` random rows, the labelled ones first.

    Half of them are labelled if there are enough. A random part of the labelled and of the
    unlabelled rows is as exchangeable as all of them. With groups, whole groups are drawn, half of
    them with labels, and a very large one is thinned to a size that does not depend on its labels.

    Args:
        data: The data with its labels.
        groups: (n,) result of :func:`groups_of_rows`; None if rows are independent.
        most: Largest number of rows.
        seed: Seed of the draw.

    >>> data = SemiData(torch.rand(9, 2), [0, 1, 1] + [-1] * 6)
    >>> sampled_rows(data, most=5).labelled.tolist()
    [True, True, False, False, False]
    """
    generator = torch.Generator().manual_seed(seed)
    known, unknown = data.labelled_rows.cpu(), data.unlabelled_rows.cpu()
    if groups is not None:
        number = torch.unique(groups, return_inverse=True)[1]
        known, unknown = _drawn_groups(number, known, unknown, most, generator)
        numbers = number[torch.cat([known, unknown])].numpy()
        marks = np.repeat([True, False], [len(known), len(unknown)])
        return Sampled(torch.cat([known, unknown]), marks, numbers)
    n_known = min(len(known), max(most // 2, most - len(unknown)))
    n_unknown = min(len(unknown), most - n_known)
    parts = [
        part[torch.randperm(len(part), generator=generator)[:n].sort().values]
        for part, n in ((known, n_known), (unknown, n_unknown))
    ]
    return Sampled(torch.cat(parts), np.repeat([True, False], [n_known, n_unknown]))


def _drawn_groups(
    number: Tensor, known: Tensor, unknown: Tensor, most: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """The labelled and the unlabelled rows of random groups, at most ``most`` in all."""
    if len(known) + len(unknown) <= most:
        return known, unknown
    n_groups = int(number.max()) + 1
    limit = max(1, most // min(n_groups, GROUPS_OF_SAMPLE))
    parts = [part[torch.randperm(len(part), generator=generator)] for part in (known, unknown)]
    counts = torch.stack([number[part].bincount(minlength=n_groups) for part in parts])
    first = torch.minimum(counts[0], (limit - counts[1]).clamp(min=limit // 2))  # as without groups
    kept = torch.stack([first, torch.minimum(counts[1], limit - first)])
    order, sizes = torch.randperm(n_groups, generator=generator), kept.sum(0)
    labelled = counts[0][order] > 0
    with_label, others = order[labelled], order[~labelled]
    with_label = _fitting(with_label, sizes, max(most // 2, most - int(sizes[others].sum())))
    others = _fitting(others, sizes, most - int(sizes[with_label].sum()))
    chosen = torch.zeros(n_groups, dtype=torch.bool)
    chosen[torch.cat([with_label, others])] = True
    found = []
    for part, many in zip(parts, kept, strict=True):
        own = number[part]
        taken = chosen[own] & (_place_in_group(own, n_groups) < many[own])
        found.append(part[taken].sort().values)
    return found[0], found[1]


def _fitting(groups: Tensor, sizes: Tensor, room: int) -> Tensor:
    """The first of these groups, as many as have at most this number of rows together."""
    return groups[sizes[groups].cumsum(0) <= room]


def _place_in_group(number: Tensor, n_groups: int) -> Tensor:
    """How many earlier rows are of the same group, (n,)."""
    order = number.argsort(stable=True)
    sizes = number.bincount(minlength=n_groups)
    starts = sizes.cumsum(0) - sizes
    place = torch.empty_like(number)
    place[order] = torch.arange(len(number)) - starts[number[order]]
    return place


def columns_of(data: SemiData, rows: Tensor) -> Columns:
    """Return the columns of some rows.

    For a table these are its own columns, or some of them if there are more than 1,024. For images
    they are the brightness in 8 × 8 regions, the mean and the spread of each channel, and how much
    neighbouring pixels differ.

    Args:
        data: The data with the rows.
        rows: (n,) positions.

    >>> images = torch.full((3, 1, 16, 16), 51, dtype=torch.uint8)
    >>> columns = columns_of(SemiData(images, [0, 1, -1]), torch.tensor([0, 2]))
    >>> columns.values.shape, columns.names[0], round(float(columns.values[0, 0]), 3)
    (torch.Size([2, 67]), 'mean of channel 1', 0.2)
    """
    if data.is_image:
        step = max(1, AT_ONCE // max(1, data.x[0].numel()))
        blocks = [image_columns(data.x[part.to(data.device)]) for part in torch.split(rows, step)]
        return Columns(torch.cat(blocks).cpu(), image_names(data.x.shape[1]))
    values = as_columns(data.x[rows.to(data.device)]).float().cpu()
    names = data.encoding.feature_names if data.encoding else ()
    if len(names) != values.shape[1]:
        names = tuple(f"column {number + 1}" for number in range(values.shape[1]))
    step = -(-values.shape[1] // MOST_COLUMNS)
    return Columns(values[:, ::step].contiguous(), tuple(names)[::step])


def image_columns(x: Tensor) -> Tensor:
    """Return the columns (n, d) of uint8 images (n, channels, height, width)."""
    levels = x.float().div_(255)
    means = levels.mean((2, 3))
    apart = levels.flatten(2) - means[..., None]
    grey = levels.mean(1, keepdim=True)
    across = (grey[..., 1:] - grey[..., :-1]).abs().mean((1, 2, 3))
    down = (grey[..., 1:, :] - grey[..., :-1, :]).abs().mean((1, 2, 3))
    return torch.cat(
        [
            means,
            torch.linalg.vector_norm(apart, dim=2) / math.sqrt(apart.shape[2]),  # std is slow
            ((across + down) / 2)[:, None],
            F.adaptive_avg_pool2d(grey, GRID).flatten(1),
        ],
        1,
    )


def image_names(channels: int) -> tuple[str, ...]:
    """The names of the columns of :func:`image_columns`."""
    each = range(1, channels + 1)
    places = [
        f"brightness in row {row}, column {column} of {GRID}"
        for row in range(1, GRID + 1)
        for column in range(1, GRID + 1)
    ]
    return (
        *(f"mean of channel {k}" for k in each),
        *(f"contrast of channel {k}" for k in each),
        "sharpness",
        *places,
    )

"""Patches: columns of images from the look of their small squares, learnt without labels.

    s = (p − mean p) / √(var p + ε) · W D,    f = max(0, ±s − ¼), averaged over 3 × 3 regions,

for every second square p of 6 × 6 pixels, where W whitens squares and the unit vectors D are found
by k-means (Coates and Ng, 2011, with 100 of them). The columns are the first 50 principal
components of f. A shape that is shifted by a pixel, or brighter, has similar columns, which is not
true of its pixels; and the unlabelled images decide which shapes count. If symmetries leave the
class unchanged, f is the mean over up to four of the positions that they lead to.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d, conv2d, normalize, unfold

from dessl.augment.symmetries import NO_SYMMETRIES, Symmetries, in_position
from dessl.data import SemiData
from dessl.models.reduced import area_averaged, reduced_sides
from dessl.teachers.rows import LARGEST_SIDE
from dessl.teachers.space import Space

PREFIX = "patches."  # of their entries in a pool's state
TENSORS = ("filters", "offsets", "mean", "scale", "directions")
SIDE = 6  # of a square
STRIDE = 2
FILTERS = 100
REGIONS = 3  # a side
THRESHOLD = 0.25
LEAST_SIDE = 16  # of an image; smaller ones have few squares
FLAT = 10 / 255**2  # added to the variance of a square: that of noise in pixels
SMOOTH = 0.1  # added to the variances that whitening divides by
SQUARES = 40_000  # used to learn the filters
IMAGES = 5_000  # used to learn the filters and components
ROUNDS = 10  # of k-means
POSITIONS = 4  # averaged over: eight cost twice as much and gain little
AT_ONCE = 64  # images: more do not stay in a processor's cache


@dataclass(frozen=True)
class Patches:
    """Filters (k, channels, 6, 6), their offsets (k,), and the space of what they find.

    With symmetries, what they find is averaged over positions of an image.

    >>> images = torch.randint(256, (60, 1, 28, 28), dtype=torch.uint8)
    >>> Patches.of(images)(images[:2]).shape
    torch.Size([2, 50])
    """

    filters: Tensor
    offsets: Tensor
    mean: Tensor
    scale: Tensor
    directions: Tensor
    symmetries: Symmetries = NO_SYMMETRIES

    @classmethod
    def of(
        cls,
        images: Tensor,
        generator: torch.Generator | None = None,
        symmetries: Symmetries = NO_SYMMETRIES,
    ) -> Self:
        """Learn from uint8 images (n, channels, height, width), without labels, on the CPU."""
        seen = area_averaged(images.cpu(), LARGEST_SIDE)
        filters, offsets = _filters(seen, generator or torch.Generator().manual_seed(0))
        fewer = seen[:: len(symmetries.positions[:POSITIONS])]  # in all positions as many
        space = Space.of(_found(fewer, filters, offsets, symmetries))
        return cls(filters, offsets, *space, symmetries)

    def __call__(self, images: Tensor) -> Tensor:
        """Return columns (n, 50) of uint8 images, float32, on their own device."""
        return self.space(self.found(images))

    @property
    def space(self) -> Space:
        """The space of what the filters find."""
        return Space(self.mean, self.scale, self.directions)

    def found(self, images: Tensor) -> Tensor:
        """Return how strongly each filter is found in each region of the images, (n, d)."""
        filters, offsets = (part.to(images.device) for part in (self.filters, self.offsets))
        return _found(area_averaged(images, LARGEST_SIDE), filters, offsets, self.symmetries)

    def state(self) -> dict[str, Tensor]:
        """Return its parts as entries of a pool's state."""
        tensors = {f"{PREFIX}{name}": getattr(self, name).contiguous() for name in TENSORS}
        if any(self.symmetries):
            tensors[f"{PREFIX}symmetries"] = torch.tensor(self.symmetries)
        return tensors

    @classmethod
    def from_state(cls, tensors: Mapping[str, Tensor]) -> Self | None:
        """Return the patches in a pool's state, if it has any."""
        if f"{PREFIX}filters" not in tensors:
            return None
        filters, offsets, mean, scale, directions = (tensors[f"{PREFIX}{name}"] for name in TENSORS)
        found = tensors.get(f"{PREFIX}symmetries", torch.tensor([]))
        symmetries = Symmetries(*map(bool, found.tolist()))
        return cls(filters, offsets, mean, scale, directions, symmetries)


def suit_patches(data: SemiData, teachers: Sequence[object]) -> bool:
    """Whether to show patches: to our own teachers, of images that are not tiny."""
    if not (data.is_image and all(isinstance(teacher, str) for teacher in teachers)):
        return False
    height, width = data.x.shape[2:]
    return min(reduced_sides((height, width), LARGEST_SIDE)) >= LEAST_SIDE


def learnt_patches(data: SemiData, seed: int, symmetries: Symmetries = NO_SYMMETRIES) -> Patches:
    """Learn patches from at most 5,000 of the labelled and unlabelled images."""
    generator = torch.Generator().manual_seed(seed)
    rows = torch.cat([data.labelled_rows, data.unlabelled_rows])
    some = torch.randperm(len(rows), generator=generator)[:IMAGES].sort().values
    return Patches.of(data.x[rows[some.to(rows.device)]], generator, symmetries)


def _filters(images: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """The filters W D, which include the subtraction of a square's mean, and −(mean square) W D."""
    squares = _normalised(_some_squares(images, generator))
    mean = squares.mean(0)
    centred = squares - mean
    values, vectors = torch.linalg.eigh((centred.T @ centred / len(squares)).double())
    white = (vectors / (values + SMOOTH).sqrt() @ vectors.T).float()
    weights = white @ _directions(centred @ white, generator).T
    offsets = -(mean @ weights)
    weights = weights - weights.mean(0)
    return weights.T.reshape(-1, images.shape[1], SIDE, SIDE).contiguous(), offsets


def _some_squares(images: Tensor, generator: torch.Generator) -> Tensor:
    """Squares (m, d) at random places of random images, from 0 to 1."""
    each = -(-SQUARES // len(images))
    places = (images.shape[2] - SIDE + 1) * (images.shape[3] - SIDE + 1)
    found = []
    for part in torch.split(images, AT_ONCE):
        all_of = unfold(part.float() / 255, SIDE).transpose(1, 2)
        drawn = torch.randint(places, (len(part), each), generator=generator)
        found.append(all_of[torch.arange(len(part))[:, None], drawn].flatten(0, 1))
    return torch.cat(found)


def _normalised(squares: Tensor) -> Tensor:
    """Squares with mean 0 and, unless they are flat, variance 1."""
    centred = squares - squares.mean(1, keepdim=True)
    return centred / (centred.square().mean(1, keepdim=True) + FLAT).sqrt()


def _directions(squares: Tensor, generator: torch.Generator) -> Tensor:
    """Unit vectors (k, d) by k-means; a square counts for the nearest one or its negative."""

    def drawn(n: int) -> Tensor:
        return squares[torch.randint(len(squares), (n,), generator=generator)]

    found = normalize(drawn(FILTERS), dim=1)
    for _ in range(ROUNDS):
        scores = squares @ found.T
        nearest = scores.abs().argmax(1)
        sums = torch.zeros_like(found).index_add_(
            0, nearest, squares * scores.gather(1, nearest[:, None])
        )
        empty = nearest.bincount(minlength=FILTERS) == 0
        sums[empty] = drawn(int(empty.sum()))
        found = normalize(sums, dim=1)
    return found


def _found(images: Tensor, filters: Tensor, offsets: Tensor, symmetries: Symmetries) -> Tensor:
    """How strongly each filter and its negative are found in each region, (n, 2k · 9).

    It is the mean over positions that the symmetries lead to; of all eight, over the four turns.
    """
    first, *others = symmetries.positions[:POSITIONS]
    found = _found_as_shown(in_position(images, first), filters, offsets)
    for position in others:
        found += _found_as_shown(in_position(images, position), filters, offsets)
    return found / (1 + len(others)) if others else found


def _found_as_shown(images: Tensor, filters: Tensor, offsets: Tensor) -> Tensor:
    """The same in one position."""
    parts: tuple[Tensor, ...] = (images,)
    if not torch.compiler.is_compiling():  # nor exporting, which does not know how many there are
        parts = torch.split(images, AT_ONCE)
    sides = [(side - SIDE) // STRIDE + 1 for side in images.shape[2:]]
    regions = _regions(sides[0], sides[1]).to(images.device)
    found = []
    for part in parts:
        levels = part.float() / 255
        mean, squares = (
            avg_pool2d(values.mean(1, keepdim=True), SIDE, STRIDE)
            for values in (levels, levels.square())
        )
        spread = ((squares - mean.square()).clamp(min=0) + FLAT).sqrt()
        scores = conv2d(levels, filters, stride=STRIDE) / spread + offsets[:, None, None]
        strong = [(s.flatten(2) - THRESHOLD).clamp(min=0) @ regions for s in (scores, -scores)]
        found.append(torch.cat(strong, 1).flatten(1))
    return torch.cat(found) if len(found) > 1 else found[0]


def _regions(height: int, width: int) -> Tensor:
    """The share (height · width, 9) of each place in the mean of each region."""
    row, column = (torch.arange(side) * REGIONS // side for side in (height, width))
    number = (REGIONS * row[:, None] + column).flatten()
    inside = torch.nn.functional.one_hot(number, REGIONS**2).float()
    return inside / inside.sum(0).clamp(min=1)

"""Do new images look like those of training in colour, brightness and shape? If not, a warning."""

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dessl.data.formats.image_file import ImageFacts, pixels

COLOURED = 4.0  # mean difference of the channels, in levels, above which an image has colour
STRETCHED = 1.5  # factor between aspect ratios that is worth a warning
LOOKED_AT = 20  # files that are decoded again to look for colour
SIDE = 32  # of these
GRID = 4  # brightness of an image in GRID × GRID regions
LEAST_IMAGES = 10  # in training, for a range of their brightness
MARGIN = 0.25  # by which this range is extended on both sides, as a share of its width
ALIKE = 0.5  # median correlation with the mean image, from which training images have a pattern
LEAST_NEW = 5  # new images that show whether they have it too
MEASURED = 1000  # new images at most whose brightness is measured
LEVELS = (
    "mean brightness",
    "contrast",
    *(f"brightness in row {i + 1}, column {j + 1} of {GRID}"
      for i in range(GRID) for j in range(GRID)),
)  # fmt: skip
CONVERT = (
    "Predictions may be wrong. If these images are inverted, turned, or saved with another number "
    "of bits or another window, convert them in the same way as those."
)


class Likeness(NamedTuple):
    """What training images looked like; None if unknown.

    Attributes:
        in_colour: Whether most of them had colour.
        aspect: Height / width of the median image.
        levels: The least and the largest value of each of ``LEVELS`` over the images.
        pattern: Mean brightness of the regions, if most images resemble it.
    """

    in_colour: bool | None = None
    aspect: float | None = None
    levels: tuple[tuple[float, float], ...] | None = None
    pattern: tuple[float, ...] | None = None

    @classmethod
    def of_images(cls, x: NDArray[np.uint8], *, own_shape: bool) -> "Likeness":
        """Look at training images (n, channels, height, width).

        Args:
            x: The images.
            own_shape: Whether their sides are those of the median image, not chosen by the user.

        >>> Likeness.of_images(np.zeros((2, 3, 4, 8), np.uint8), own_shape=True)
        Likeness(in_colour=False, aspect=0.5, levels=None, pattern=None)
        """
        aspect = x.shape[2] / x.shape[3] if own_shape else None
        in_colour = bool(_have_colour(x).mean() > 0.5)
        if len(x) < LEAST_IMAGES:
            return cls(in_colour, aspect)
        found = _levels_of(x).round(1)
        levels = tuple(zip(found.min(0).tolist(), found.max(0).tolist(), strict=True))
        regions = found[:, -(GRID**2) :]
        pattern = regions.mean(0).round(1)
        alike = float(np.median(_correlations(regions, pattern))) >= ALIKE
        return cls(in_colour, aspect, levels, tuple(pattern.tolist()) if alike else None)

    @classmethod
    def read(cls, entries: Any) -> "Likeness":
        """Read it from the details of a model, which may lack it."""
        found = entries if isinstance(entries, Mapping) else {}
        colour, aspect = found.get("in_colour"), found.get("aspect")
        return cls(
            colour if isinstance(colour, bool) else None,
            aspect if isinstance(aspect, float) and aspect > 0 else None,
            _ranges(found.get("levels")),
            _pattern(found.get("pattern")),
        )


NOTHING_KNOWN = Likeness()


def warn_of_unlike(
    folder: Path,
    paths: Sequence[Path],
    facts: Sequence[ImageFacts],
    x: NDArray[np.uint8],
    training: Likeness,
) -> None:
    """Warn if most new images are unlike all of training in colour, brightness or shape.

    Args:
        folder: The folder, named in warnings.
        paths: The files (n,).
        facts: Their headers (n,).
        x: Their pixels (n, 1 or 3, height, width), as the model sees them.
        training: What the training images looked like.
    """
    do = "Expect less accurate predictions, or convert them in the same way as those."
    if x.shape[1] == 3 and training.in_colour:
        n = int((~_have_colour(x)).sum())
        if n > len(x) / 2:
            _warn(folder, n, len(x), f"are grey, but most training images were in colour. {do}")
    elif x.shape[1] == 1 and training.in_colour is False:
        lit = [path for path, fact in zip(paths, facts, strict=True) if not fact.grey]
        shown = np.stack([pixels(one, SIDE, SIDE, "rgb", 16) for one in lit[:LOOKED_AT]] or [x[0]])
        if len(lit) > len(x) / 2 and _have_colour(shown).mean() > 0.5:
            _warn(
                folder, len(lit), len(x),
                f"are in colour, which is dropped: the training images were grey. {do}",
            )  # fmt: skip
    some = _levels_of(x[:: max(1, len(x) // MEASURED)])
    if not _warn_of_levels(folder, len(x), some, training):
        _warn_of_pattern(folder, len(x), some[:, -(GRID**2) :], training)
    if training.aspect is None:
        return
    ratios = np.array([fact.height / fact.width for fact in facts])
    factors = np.maximum(ratios / training.aspect, training.aspect / ratios)
    n = int((factors > STRETCHED).sum())
    if n > len(x) / 2:
        _warn(
            folder, n, len(x),
            f"have another aspect ratio than the training images and are stretched: height / width "
            f"is {np.median(ratios):.2f}, where it was {training.aspect:.2f}. Crop them in the "
            "same way, or expect less accurate predictions.",
        )  # fmt: skip


def _warn_of_levels(folder: Path, n: int, found: NDArray[np.float64], training: Likeness) -> bool:
    """Warn if most new images are far darker, brighter or of other contrast than any of training.

    So are images of another number of bits.
    """
    if training.levels is None:
        return False
    low, high = np.array(training.levels).T
    margin = MARGIN * (high - low) + 1
    share = ((found < low - margin) | (found > high + margin)).mean(0)
    worst = int(share.argmax())
    if share[worst] <= 0.5:
        return False
    warnings.warn(
        f"{folder}: {_most(n)} from all training images in {LEVELS[worst]}: the median is "
        f"{np.median(found[:, worst]):.0f} of 255, where training images had {low[worst]:.0f} to "
        f"{high[worst]:.0f}. {CONVERT}",
        UserWarning,
        stacklevel=5,
    )
    return True


def _warn_of_pattern(
    folder: Path, n: int, regions: NDArray[np.float64], training: Likeness
) -> None:
    """Warn if most new images are bright where those of training are dark, as if inverted."""
    if training.pattern is None or n < LEAST_NEW:
        return
    typical = float(np.median(_correlations(regions, np.array(training.pattern))))
    if typical < -ALIKE:
        warnings.warn(
            f"{folder}: {_most(n)} from the training images in pattern: they are bright where "
            f"those are dark (median correlation {typical:.2f}), so that they may be inverted or "
            f"turned. {CONVERT}",
            UserWarning,
            stacklevel=5,
        )


def _most(n: int) -> str:
    return f"most of {n:,} images differ" if n > 1 else "the image differs"


def _correlations(
    regions: NDArray[np.float64], pattern: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The correlation of each image's regions (n, GRID²) with those of a pattern, (n,)."""
    apart = regions - regions.mean(1, keepdims=True)
    wanted = pattern - pattern.mean()
    lengths = np.sqrt((apart**2).sum(1) * (wanted**2).sum())
    found: NDArray[np.float64] = apart @ wanted / np.where(lengths > 0, lengths, np.inf)
    return found


def _levels_of(x: NDArray[np.uint8]) -> NDArray[np.float64]:
    """The ``LEVELS`` of each image (channels, height, width), (n, len(LEVELS)), from 0 to 255."""
    rows, columns = (np.arange(GRID) * side // GRID for side in x.shape[2:])
    found = []
    for image in x:
        grey = image.mean(0)
        sums = np.add.reduceat(np.add.reduceat(grey, rows, 0), columns, 1)
        ones = np.ones_like(grey)
        counts = np.add.reduceat(np.add.reduceat(ones, rows, 0), columns, 1)
        found.append([grey.mean(), grey.std(), *(sums / counts).ravel()])
    return np.array(found)


def _ranges(entries: Any) -> tuple[tuple[float, float], ...] | None:
    """Ranges of ``LEVELS`` as stored, or None."""
    try:
        found = np.asarray(entries, np.float64)
    except (TypeError, ValueError):
        return None
    if found.shape != (len(LEVELS), 2) or not np.isfinite(found).all():
        return None
    return tuple((float(low), float(high)) for low, high in found)


def _pattern(entries: Any) -> tuple[float, ...] | None:
    """A pattern as stored, or None."""
    try:
        found = np.asarray(entries, np.float64)
    except (TypeError, ValueError):
        return None
    right = found.shape == (GRID**2,) and np.isfinite(found).all()
    return tuple(map(float, found)) if right else None


def _have_colour(x: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Whether each image (channels, height, width) has colour, (n,)."""
    spread = [float((image.max(0) - image.min(0)).mean()) for image in x]
    return np.array(spread) > COLOURED


def _warn(folder: Path, n: int, of: int, what: str) -> None:
    warnings.warn(f"{folder}: {n:,} of {of:,} images {what}", UserWarning, stacklevel=4)

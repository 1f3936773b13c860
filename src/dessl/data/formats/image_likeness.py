"""Do new images look like those of training in colour and shape? If most do not, a warning."""

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


class Likeness(NamedTuple):
    """What training images looked like; None if unknown.

    Attributes:
        in_colour: Whether most of them had colour.
        aspect: Height / width of the median image.
    """

    in_colour: bool | None = None
    aspect: float | None = None

    @classmethod
    def of_images(cls, x: NDArray[np.uint8], *, own_shape: bool) -> "Likeness":
        """Look at training images (n, channels, height, width).

        Args:
            x: The images.
            own_shape: Whether their sides are those of the median image, not chosen by the user.

        >>> Likeness.of_images(np.zeros((2, 3, 4, 8), np.uint8), own_shape=True)
        Likeness(in_colour=False, aspect=0.5)
        """
        aspect = x.shape[2] / x.shape[3] if own_shape else None
        return cls(bool(_have_colour(x).mean() > 0.5), aspect)

    @classmethod
    def read(cls, entries: Any) -> "Likeness":
        """Read it from the details of a model, which may lack it."""
        found = entries if isinstance(entries, Mapping) else {}
        colour, aspect = found.get("in_colour"), found.get("aspect")
        return cls(
            colour if isinstance(colour, bool) else None,
            aspect if isinstance(aspect, float) and aspect > 0 else None,
        )


NOTHING_KNOWN = Likeness()


def warn_of_unlike(
    folder: Path,
    paths: Sequence[Path],
    facts: Sequence[ImageFacts],
    x: NDArray[np.uint8],
    training: Likeness,
) -> None:
    """Warn if most new images are grey, in colour or stretched, and those of training were not.

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
        some = [path for path, fact in zip(paths, facts, strict=True) if not fact.grey]
        shown = np.stack([pixels(one, SIDE, SIDE, "rgb", 16) for one in some[:LOOKED_AT]] or [x[0]])
        if len(some) > len(x) / 2 and _have_colour(shown).mean() > 0.5:
            _warn(
                folder, len(some), len(x),
                f"are in colour, which is dropped: the training images were grey. {do}",
            )  # fmt: skip
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


def _have_colour(x: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Whether each image (channels, height, width) has colour, (n,)."""
    spread = [float((image.max(0) - image.min(0)).mean()) for image in x]
    return np.array(spread) > COLOURED


def _warn(folder: Path, n: int, of: int, what: str) -> None:
    warnings.warn(f"{folder}: {n:,} of {of:,} images {what}", UserWarning, stacklevel=4)

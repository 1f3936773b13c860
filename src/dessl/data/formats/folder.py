"""A folder of images: one subfolder for each class, ``unlabelled`` for the rest."""

import statistics
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dessl._checks import one_of, quoted, whole_number
from dessl.data.errors import DataError, Unusable, few
from dessl.data.formats.folder_files import SKIP, class_folders, every_image, image_files
from dessl.data.formats.image_file import (
    MAX_PIXELS,
    Colour,
    ImageFacts,
    facts_and_pixels,
    image_facts,
    largest_value,
    pixels,
)
from dessl.data.formats.image_likeness import NOTHING_KNOWN, Likeness, warn_of_unlike
from dessl.data.formats.reading import MAX_BYTES, byte_count, check_limit
from dessl.data.labels import warn_of_doubtful
from dessl.data.parts import Part, RawData
from dessl.data.unknown_classes import UnknownClassesError

UNLABELLED = ("unlabelled", "unlabeled")
LONGEST_SIDE = 224
DARK_BITS = 2  # unused by most images of more than 8 bits: worth a warning
SHORTEST_SIDE = 4  # smallest side that the networks accept


class Images(NamedTuple):
    """Images (n, 1 or 3, height, width), the number of bits of 16-bit files, and the headers."""

    x: NDArray[np.uint8]
    bits: int
    facts: list[ImageFacts]


def read_image_folder(
    folder: str | Path,
    *,
    size: int | tuple[int, int] | None = None,
    colour: Colour | None = None,
    bits: int | None = None,
    max_pixels: int = MAX_PIXELS,
    max_bytes: int = MAX_BYTES,
    unlabelled: Sequence[Path] | None = None,
    skip_damaged: bool = False,
) -> RawData:
    """Images sorted into one subfolder for each class; those in ``unlabelled`` have no label.

    Args:
        folder: The folder; its subfolders are the classes, in alphabetical order; ``unlabelled``
            (or ``unlabeled``) is not one. Hidden files and folders are skipped.
        size: (height, width), or one number for square images. By default the median height and
            width of the images, scaled down if the longer side is above 224; a side below 4
            becomes 4.
        colour: ``"grey"`` or ``"rgb"``. By default grey if all images are.
        bits: How many bits the values of 16-bit grey images have, 8 to 16; the upper 8 of them are
            kept, and larger values are clipped with a warning. By default as many as the largest
            value of all images needs. Of 16-bit colour images Pillow keeps the upper byte.
        max_pixels: An image with more pixels is refused before it is decoded.
        max_bytes: Upper limit on the bytes of all images together.
        unlabelled: The unlabelled images to read; all by default.
        skip_damaged: Whether to leave out files that cannot be read, with a warning.

    Returns:
        Images (n, 1 or 3, height, width), resized and turned upright, transparency dropped, and
        their paths within the folder as ``row_names``.

    Raises:
        DataError: There are fewer than two classes, or a file is damaged, too large, not an image
            or several images.
    """
    folder = Path(folder)
    labelled, unlabelled = _sorted_files(folder, unlabelled, skip_others=skip_damaged)
    do = f"name the subfolder {quoted(UNLABELLED[0])}"
    warn_of_doubtful(labelled, where=f"{folder}, subfolders", do=do)
    counts = [len(files) for files in labelled.values()]
    y = np.repeat(np.arange(len(counts) + 1), [*counts, len(unlabelled)])
    y[sum(counts) :] = -1
    paths = [*(path for files in labelled.values() for path in files), *unlabelled]
    return read_listed_images(
        folder, paths, y, tuple(labelled), size=size, colour=colour, bits=bits,
        max_pixels=max_pixels, max_bytes=max_bytes, skip_damaged=skip_damaged,
    )  # fmt: skip


def read_listed_images(
    folder: Path,
    paths: Sequence[Path],
    y: NDArray[np.int64],
    class_names: Sequence[str],
    *,
    max_pixels: int = MAX_PIXELS,
    skip_damaged: bool = False,
    **options: Any,
) -> RawData:
    """These images of a folder with their class numbers (n,), −1 for none.

    The other arguments are those of :func:`read_image_folder`.
    """
    paths, y = _usable(folder, paths, y, max_pixels, skip_damaged=skip_damaged)
    x, bits, _ = read_images(paths, max_pixels=max_pixels, **options)
    names = tuple(path.relative_to(folder).as_posix() for path in paths)
    return RawData(Part.of_arrays(x, y), tuple(class_names), row_names=names, bits=bits)


def read_new_images(
    folder: str | Path,
    class_names: Sequence[str],
    shape: Sequence[int],
    *,
    bits: int = 8,
    labels: bool = True,
    max_pixels: int = MAX_PIXELS,
    max_bytes: int = MAX_BYTES,
    skip_damaged: bool = False,
    training: Likeness = NOTHING_KNOWN,
) -> RawData:
    """Images as a trained model expects them, from one folder or from subfolders.

    Args:
        folder: A folder of images, which then have no label; or of subfolders named like the
            model's classes (any of them), and ``unlabelled`` for images without a label.
        class_names: The model's classes, in its order.
        shape: (channels, height, width) of the model's images.
        bits: Number of bits of 16-bit images in training; larger values are clipped,
            with a warning.
        labels: Whether the subfolders are classes. If not, they may have any name, and every
            label is missing.
        max_pixels: An image with more pixels is refused before it is decoded.
        max_bytes: Upper limit on the bytes of all images together.
        skip_damaged: Whether to leave out files that cannot be read, with a warning.
        training: What the training images looked like, to warn if most of these do not.

    Raises:
        DataError: There are no images, one is damaged, or a subfolder is none of the classes.
    """
    folder = Path(folder)
    if labels:
        subfolders = class_folders(folder)
        files = {
            place: image_files(place, skip_others=skip_damaged) for place in subfolders or [folder]
        }
        of_place = dict.fromkeys(files, -1)
        if subfolders:
            of_place = _labels(folder, files, class_names)
        codes = [of_place[place] for place, inside in files.items() for _ in inside]
        paths = [path for inside in files.values() for path in inside]
    else:
        paths = every_image(folder, skip_others=skip_damaged)
        codes = [-1] * len(paths)
    return read_new_listed_images(
        folder, paths, np.array(codes, np.int64), class_names, shape, bits=bits,
        max_pixels=max_pixels, max_bytes=max_bytes, skip_damaged=skip_damaged, training=training,
    )  # fmt: skip


def read_new_listed_images(
    folder: Path,
    paths: Sequence[Path],
    y: NDArray[np.int64],
    class_names: Sequence[str],
    shape: Sequence[int],
    *,
    bits: int = 8,
    max_pixels: int = MAX_PIXELS,
    max_bytes: int = MAX_BYTES,
    skip_damaged: bool = False,
    training: Likeness = NOTHING_KNOWN,
) -> RawData:
    """These images as a trained model expects them, with their class numbers (n,), −1 for none.

    The other arguments are those of :func:`read_new_images`.
    """
    paths, y = _usable(folder, paths, y, max_pixels, skip_damaged=skip_damaged)
    channels, height, width = shape
    x, _, facts = read_images(
        paths,
        size=(height, width),
        colour="grey" if channels == 1 else "rgb",
        bits=bits,
        max_pixels=max_pixels,
        max_bytes=max_bytes,
    )
    warn_of_unlike(folder, paths, facts, x, training)
    names = tuple(path.relative_to(folder).as_posix() for path in paths)
    return RawData(Part.of_arrays(x, y), tuple(class_names), row_names=names)


def _usable(
    folder: Path,
    paths: Sequence[Path],
    y: NDArray[np.int64],
    max_pixels: int,
    *,
    skip_damaged: bool,
) -> tuple[Sequence[Path], NDArray[np.int64]]:
    """The files that can be read, and their class numbers; all unless others are to be skipped."""
    if not skip_damaged:
        return paths, y
    usable = _readable(folder, paths, max_pixels)
    kept = [row for row, path in enumerate(paths) if path in usable]
    return [paths[row] for row in kept], y[kept]


def _readable(folder: Path, paths: Sequence[Path], max_pixels: int) -> set[Path]:
    """The files that can be read, each decoded once; a warning names the others."""
    unusable = Unusable()
    for path in paths:
        with unusable.noted(path):
            pixels(path, SHORTEST_SIDE, SHORTEST_SIDE, "rgb", 16, max_pixels)
    if len(unusable.paths) == len(paths):
        unusable.refuse()
    if unusable.paths:
        names = [path.relative_to(folder).as_posix() for path in unusable.paths]
        warnings.warn(
            f"{folder}: skipped {len(names):,} of {len(paths):,} files, which cannot be read: "
            f"{few(names, most=20)}.",
            UserWarning,
            stacklevel=4,
        )
    return set(paths).difference(unusable.paths)


def read_images(
    paths: Sequence[Path],
    *,
    size: int | tuple[int, int] | None = None,
    colour: Colour | None = None,
    bits: int | None = None,
    max_pixels: int = MAX_PIXELS,
    max_bytes: int = MAX_BYTES,
) -> Images:
    """Image files as one uint8 array; see :func:`read_image_folder`."""
    if colour is not None:
        one_of("colour", colour, ("grey", "rgb"))
    facts, early = _first_look(paths, colour, max_pixels, max_bytes)
    height, width = _common_size(facts) if size is None else _as_size(size)
    if colour is None:
        colour = "grey" if all(fact.grey for fact in facts) else "rgb"
    shape = (len(paths), 1 if colour == "grey" else 3, height, width)
    check_limit(paths[0].parent, byte_count(shape, 1), max_bytes)
    deep = [path for path, fact in zip(paths, facts, strict=True) if fact.deep]
    bits = _bits(deep, [largest_value(path, max_pixels) for path in deep], bits)
    if early is not None and early.shape == shape:
        return Images(early, bits, facts)
    x, unusable = np.empty(shape, np.uint8), Unusable()
    for row, path in zip(x, paths, strict=True):
        with unusable.noted(path):
            row[:] = pixels(path, height, width, colour, bits, max_pixels)
    unusable.refuse(SKIP)
    return Images(x, bits, facts)


def _first_look(
    paths: Sequence[Path], colour: Colour | None, max_pixels: int, max_bytes: int
) -> tuple[list[ImageFacts], NDArray[np.uint8] | None]:
    """The headers of all images; and their pixels, if all are small and of one size and colour."""
    facts: list[ImageFacts] = []
    x: NDArray[np.uint8] | None = None
    unusable = Unusable()
    for row, path in enumerate(paths):
        if row and x is None:
            with unusable.noted(path):
                facts.append(image_facts(path, max_pixels))
            continue
        found = None
        with unusable.noted(path):
            fact, found = facts_and_pixels(path, colour, max_pixels)
            facts.append(fact)
        if found is None or (x is not None and x.shape[1:] != found.shape):
            x = None
            continue
        if x is None:
            shape = (len(paths), *found.shape)
            if byte_count(shape, 1) > max_bytes:
                continue
            x = np.empty(shape, np.uint8)
        x[row] = found
    unusable.refuse(SKIP)
    return facts, x


def _bits(paths: Sequence[Path], largest: Sequence[int], bits: int | None) -> int:
    """The bits that the images' largest values need; or those given, warning about larger values.

    One number for all images: an image darker than the others stays darker, and there is a warning
    if few very bright ones leave most of the others with few levels.
    """
    if bits is None:
        bits = max([8, *(value.bit_length() for value in largest)])
        typical = int(statistics.median_high(largest)) if largest else 0
        if largest and typical < 2 ** (bits - DARK_BITS):
            brightest = max(zip(largest, paths, strict=True))[1]
            warnings.warn(
                f"most of the {len(largest):,} images of more than 8 bits are very dark beside "
                f"others: the median of their largest values is {typical:,}, that of "
                f"{quoted(brightest.name)} is {max(largest):,}. All are scaled alike, so that "
                f"most keep at most {(typical >> (bits - 8)) + 1} of 256 levels. Rescale or remove "
                "the brighter images, or scale each device's images to one range.",
                UserWarning,
                stacklevel=3,
            )
        return bits
    whole_number("bits", bits, low=8, high=16)
    beyond = [value for value in largest if value >= 2**bits]
    if beyond:
        warnings.warn(
            f"{len(beyond)} image(s) have values up to {max(beyond)}, above the largest value of "
            f"{bits} bits, {2**bits - 1}: larger values are clipped. Scale these images to the "
            "range of the others, or of those that the model was trained on.",
            UserWarning,
            stacklevel=3,
        )
    return bits


def _sorted_files(
    folder: Path, given: Sequence[Path] | None, *, skip_others: bool
) -> tuple[dict[str, list[Path]], list[Path]]:
    """Files of each class folder, and the unlabelled ones if they are not given."""
    labelled: dict[str, list[Path]] = {}
    unlabelled = list(given or ())
    for sub in class_folders(folder):
        if sub.name.lower() in UNLABELLED:
            unlabelled += image_files(sub, skip_others=skip_others) if given is None else []
        else:
            labelled[sub.name] = image_files(sub, skip_others=skip_others)
    if len(labelled) < 2:
        raise DataError.of(
            folder,
            expected="at least two subfolders, one for each class",
            got=few(list(labelled)) or "none",
            do="Sort the labelled images into subfolders named for their class, or pass --labels "
            "FILE, a table with their file names and labels (labels= in Python).",
        )
    return labelled, unlabelled


def _labels(
    folder: Path, files: Mapping[Path, Sequence[Path]], class_names: Sequence[str]
) -> dict[Path, int]:
    """The class number of each subfolder, −1 for that of unlabelled images."""
    code = {name: number for number, name in enumerate(class_names)}
    code |= dict.fromkeys((place.name for place in files if place.name.lower() in UNLABELLED), -1)
    unknown = {place.name: len(inside) for place, inside in files.items() if place.name not in code}
    if unknown:
        names = [*class_names, UNLABELLED[0]]
        raise UnknownClassesError.of_labels(folder, "as names of subfolders", unknown, names)
    return {place: code[place.name] for place in files}


def _common_size(facts: Sequence[ImageFacts]) -> tuple[int, int]:
    height = statistics.median(fact.height for fact in facts)
    width = statistics.median(fact.width for fact in facts)
    shrink = min(1.0, LONGEST_SIDE / max(height, width))
    return max(SHORTEST_SIDE, round(height * shrink)), max(SHORTEST_SIDE, round(width * shrink))


def _as_size(size: int | tuple[int, int]) -> tuple[int, int]:
    height, width = (size, size) if isinstance(size, int) else size
    return whole_number("size", height, low=1), whole_number("size", width, low=1)

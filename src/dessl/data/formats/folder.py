"""A folder of images: one subfolder for each class, ``unlabelled`` for the rest."""

import statistics
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dessl._checks import one_of, whole_number
from dessl.data.errors import DataError
from dessl.data.formats.arrays import RawData
from dessl.data.formats.reading import MAX_BYTES, byte_count, check_limit

if TYPE_CHECKING:
    from PIL import Image

# Named, so that no rarer decoder (some run other programs) is ever reached by a crafted file.
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "TIFF", "WEBP", "PPM")
SUFFIXES = frozenset(
    ".png .jpg .jpeg .bmp .gif .tif .tiff .webp .ppm .pgm .pbm".split()  # noqa: SIM905
)
UNLABELLED = ("unlabelled", "unlabeled")
CLUTTER = frozenset(("thumbs.db", "desktop.ini"))
MAX_PIXELS = 2**26
LONGEST_SIDE = 224
GREY_MODES = ("1", "L", "LA", "La", "I")
Colour = Literal["grey", "rgb"]


class ImageFacts(NamedTuple):
    """What an image's header says."""

    height: int
    width: int
    grey: bool


def read_image_folder(
    folder: str | Path,
    *,
    size: int | tuple[int, int] | None = None,
    colour: Colour | None = None,
    max_pixels: int = MAX_PIXELS,
    max_bytes: int = MAX_BYTES,
) -> RawData:
    """Images sorted into one subfolder for each class; those in ``unlabelled`` have no label.

    Args:
        folder: Its subfolders are the classes, in alphabetical order; ``unlabelled`` (or
            ``unlabeled``) is none. Hidden files and folders are passed over.
        size: (height, width), or one number for square images. Left out: the median height and
            width of the images, made smaller where the longer side is above 224.
        colour: ``"grey"`` or ``"rgb"``. Left out: grey where all images are.
        max_pixels: An image with more pixels is refused before it is decoded.
        max_bytes: The most bytes that all images together may take.

    Returns:
        Images (n, 1 or 3, height, width), resized and turned upright, transparency dropped, and
        their paths within the folder as ``row_names``.

    Raises:
        DataError: There are not two classes, or a file is no image, damaged or too large.
    """
    folder = Path(folder)
    labelled, unlabelled = _sorted_files(folder)
    paths = [path for files in labelled.values() for path in files] + unlabelled
    x = read_images(paths, size=size, colour=colour, max_pixels=max_pixels, max_bytes=max_bytes)
    counts = [len(files) for files in labelled.values()]
    y = np.full(len(x), -1, np.int64)
    y[: sum(counts)] = np.repeat(np.arange(len(counts)), counts)
    names = tuple(path.relative_to(folder).as_posix() for path in paths)
    return RawData(x, y, tuple(labelled), row_names=names)


def read_images(
    paths: Sequence[Path],
    *,
    size: int | tuple[int, int] | None = None,
    colour: Colour | None = None,
    max_pixels: int = MAX_PIXELS,
    max_bytes: int = MAX_BYTES,
) -> NDArray[np.uint8]:
    """Image files as one uint8 array (n, 1 or 3, height, width); see :func:`read_image_folder`."""
    facts = [image_facts(path, max_pixels) for path in paths]
    height, width = _common_size(facts) if size is None else _as_size(size)
    if colour is None:
        colour = "grey" if all(fact.grey for fact in facts) else "rgb"
    one_of("colour", colour, ("grey", "rgb"))
    shape = (len(paths), 1 if colour == "grey" else 3, height, width)
    check_limit(paths[0].parent, byte_count(shape, 1), max_bytes)
    x = np.empty(shape, np.uint8)
    for row, path in zip(x, paths, strict=True):
        row[:] = _pixels(path, height, width, colour, max_pixels)
    return x


def image_facts(path: Path, max_pixels: int = MAX_PIXELS) -> ImageFacts:
    """Upright height and width of an image, and whether it is grey, without decoding it."""
    with _opened(path, max_pixels) as image:
        width, height = image.size
        exif = image.getexif()
        if image.format == "TIFF":  # whose size Pillow may have turned upright already
            width, height = exif[0x0100], exif[0x0101]
        if exif.get(0x0112, 1) in (5, 6, 7, 8):  # stored on its side
            height, width = width, height
        return ImageFacts(height, width, image.mode in GREY_MODES or image.mode.startswith("I;16"))


def _pixels(
    path: Path, height: int, width: int, colour: Colour, max_pixels: int
) -> NDArray[np.uint8]:
    from PIL import Image, ImageOps

    with _opened(path, max_pixels) as opened:
        image = ImageOps.exif_transpose(opened)
        if image.mode == "F" or image.mode.startswith("I"):
            image = _eight_bits(image, path)
        image = image.convert("L" if colour == "grey" else "RGB")
        if image.size != (width, height):
            image = image.resize((width, height), Image.Resampling.BICUBIC)
        pixels = np.asarray(image, np.uint8)
    return pixels[None] if colour == "grey" else pixels.transpose(2, 0, 1)


def _eight_bits(image: "Image.Image", path: Path) -> "Image.Image":
    """The upper byte of 16-bit pixels; other depths have no agreed range."""
    from PIL import Image

    values = np.asarray(image)
    if image.mode == "F" or values.min() < 0 or values.max() > 0xFFFF:
        raise DataError.of(
            path,
            expected="8 or 16 bits a pixel",
            got=f"mode {image.mode!r} with values from {values.min():g} to {values.max():g}",
            do="Convert the image to 8 bits.",
        )
    return Image.fromarray((values >> 8).astype(np.uint8))


@contextmanager
def _opened(path: Path, max_pixels: int) -> Iterator["Image.Image"]:
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # odd metadata is no matter here
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(path, formats=FORMATS) as image:
                if image.size[0] * image.size[1] > max_pixels:
                    raise DataError.of(
                        path,
                        expected=f"at most {max_pixels:,} pixels",
                        got=f"{image.size[1]} × {image.size[0]}",
                        do="Make the image smaller, or pass a larger max_pixels.",
                    )
                yield image
    except DataError:
        raise
    except Exception as error:  # decoders raise what they please on damaged files
        raise DataError.of(
            path,
            expected="an image (PNG, JPEG, BMP, GIF, TIFF, WebP or PPM)",
            got=" ".join(str(error).split())[:200] or type(error).__name__,
            do="The file is damaged or no image: replace or remove it.",
        ) from error


def _sorted_files(folder: Path) -> tuple[dict[str, list[Path]], list[Path]]:
    """Files of each class folder, and those without a label."""
    labelled: dict[str, list[Path]] = {}
    unlabelled: list[Path] = []
    for sub in class_folders(folder):
        if sub.name.lower() in UNLABELLED:
            unlabelled += image_files(sub)
        else:
            labelled[sub.name] = image_files(sub)
    if len(labelled) < 2:
        raise DataError.of(
            folder,
            expected="at least two subfolders, one for each class",
            got=", ".join(labelled) or "none",
            do="Sort the labelled images into subfolders named for their class.",
        )
    return labelled, unlabelled


def class_folders(folder: Path) -> list[Path]:
    """The subfolders in order, refusing images that lie beside them and so in none."""
    if not folder.is_dir():
        raise DataError.of(folder, expected="a folder", got="no such folder", do="Check the path.")
    inside = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    folders = [path for path in inside if path.is_dir()]
    loose = [path for path in inside if path.is_file() and path.suffix.lower() in SUFFIXES]
    if folders and loose:
        raise DataError.of(
            loose[0],
            expected="images in the subfolders alone, or no subfolders",
            got=f"{len(loose)} image(s) beside them",
            do="Move them to the folder of their class, or to 'unlabelled'.",
        )
    return folders


def image_files(folder: Path) -> list[Path]:
    """The images of one folder in order, refusing an empty one and anything else in it."""
    files = sorted(
        path
        for path in folder.iterdir()
        if not path.name.startswith(".") and path.name.lower() not in CLUTTER
    )
    others = [path for path in files if path.suffix.lower() not in SUFFIXES or path.is_dir()]
    if others or not files:
        raise DataError.of(
            others[0] if others else folder,
            expected="image files (PNG, JPEG, BMP, GIF, TIFF, WebP or PPM) in a class folder",
            got="something else" if others else "none",
            do="Remove it, or give the folder whose subfolders are the classes.",
        )
    return files


def _common_size(facts: Sequence[ImageFacts]) -> tuple[int, int]:
    height = statistics.median(fact.height for fact in facts)
    width = statistics.median(fact.width for fact in facts)
    shrink = min(1.0, LONGEST_SIDE / max(height, width))
    return max(1, round(height * shrink)), max(1, round(width * shrink))


def _as_size(size: int | tuple[int, int]) -> tuple[int, int]:
    height, width = (size, size) if isinstance(size, int) else size
    return whole_number("size", height, low=1), whole_number("size", width, low=1)

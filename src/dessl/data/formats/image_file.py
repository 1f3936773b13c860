"""One image file: what its header says, and its pixels as bytes."""

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dessl.data.errors import DataError

if TYPE_CHECKING:
    from PIL import Image

# Listed, so that a crafted file never reaches a rarer decoder (some run other programs).
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "TIFF", "WEBP", "PPM")
MAX_PIXELS = 2**26
SMALL = 2**14  # images with fewer pixels are decoded while their header is read
LARGE = 2**22  # images with more pixels need a plausible file size
MOST_IN_A_BYTE = 8 * 1032  # pixels of one bit each, deflated as far as that goes
GREY_MODES = ("1", "L", "LA", "La")
Colour = Literal["grey", "rgb"]


class ImageFacts(NamedTuple):
    """The header of an image; ``deep`` means more than 8 bits per grey pixel."""

    height: int
    width: int
    grey: bool
    deep: bool


def image_facts(
    path: Path, max_pixels: int = MAX_PIXELS, *, content: bytes | None = None
) -> ImageFacts:
    """Upright height and width of an image, and its kind."""
    with _opened(path, max_pixels, content) as image:
        return _facts(image, path)


def facts_and_pixels(
    path: Path, colour: Colour | None, max_pixels: int = MAX_PIXELS
) -> tuple[ImageFacts, NDArray[np.uint8] | None]:
    """The result of :func:`image_facts`, and the pixels of a small image in its own size.

    A folder of many small images is read twice as fast if each is opened and decoded once. Large
    images and those with more than 8 bits per pixel have no pixels here.

    Args:
        path: The file.
        colour: One channel or three; by default as many as the image has.
        max_pixels: An image with more pixels is refused before it is decoded.
    """
    with _opened(path, max_pixels) as image:
        facts = _facts(image, path)
        if facts.deep or facts.height * facts.width > SMALL:
            return facts, None
        own = colour or ("grey" if facts.grey else "rgb")
        return facts, _pixels(image, facts.height, facts.width, own, 8)


def largest_value(path: Path, max_pixels: int = MAX_PIXELS) -> int:
    """The largest value of an image of more than 8 bits a pixel.

    Raises:
        DataError: Values are not whole numbers below 2¹⁶: other depths have no standard range.
    """
    with _opened(path, max_pixels) as image:
        values = np.asarray(image)
        if image.mode == "F" or values.min() < 0 or values.max() > 0xFFFF:
            raise DataError.of(
                path,
                expected="8 or 16 bits per pixel",
                got=f"mode {image.mode} with values from {values.min():g} to {values.max():g}",
                do="Convert the image to 8 bits.",
            )
        return int(values.max())


def pixels(
    path: Path,
    height: int,
    width: int,
    colour: Colour,
    bits: int,
    max_pixels: int = MAX_PIXELS,
    *,
    content: bytes | None = None,
) -> NDArray[np.uint8]:
    """An image as bytes (1 or 3, height, width), upright and resized.

    Args:
        path: The file.
        height: Height to resize to.
        width: Width to resize to.
        colour: Whether there is one channel or three.
        bits: Bits of a grey image with more than 8 bits per pixel; the upper 8 are kept.
        max_pixels: An image with more pixels is refused before it is decoded.
        content: The bytes of the file, if known; the path is then only its name.
    """
    with _opened(path, max_pixels, content) as image:
        return _pixels(image, height, width, colour, bits)


def _facts(image: "Image.Image", path: Path) -> ImageFacts:
    # The other pictures in a camera's JPEG (MPO) are previews of the first.
    if image.format != "MPO" and getattr(image, "is_animated", False):
        raise DataError.of(
            path,
            expected="one image in each file",
            got=f"{getattr(image, 'n_frames', 'several')} pages or frames",
            do="Split the file into single images, and sort each into the folder of its class.",
        )
    width, height = image.size
    exif = image.getexif()
    if image.format == "TIFF":  # Pillow may have turned its size upright already
        width, height = exif[0x0100], exif[0x0101]
    if exif.get(0x0112, 1) in (5, 6, 7, 8):  # stored on its side
        height, width = width, height
    deep = _is_deep(image)
    return ImageFacts(height, width, image.mode in GREY_MODES or deep, deep)


def _pixels(
    opened: "Image.Image", height: int, width: int, colour: Colour, bits: int
) -> NDArray[np.uint8]:
    from PIL import Image, ImageOps

    image = ImageOps.exif_transpose(opened)
    if _is_deep(image):
        image = Image.fromarray((np.asarray(image) >> (bits - 8)).clip(0, 255).astype(np.uint8))
    image = image.convert("L" if colour == "grey" else "RGB")
    if image.size != (width, height):
        image = image.resize((width, height), Image.Resampling.BICUBIC)
    found = np.asarray(image, np.uint8)
    return found[None] if colour == "grey" else found.transpose(2, 0, 1)


def _is_deep(image: "Image.Image") -> bool:
    return image.mode == "F" or image.mode.startswith("I")


@contextmanager
def _quiet(error: type[Warning]) -> Iterator[None]:
    """Ignore all warnings but one, which becomes an error; not thread-safe."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # odd metadata does not matter here
        warnings.simplefilter("error", error)
        yield


def _check_bytes(path: Path, image: "Image.Image", size: int) -> None:
    """Refuse a large image whose file has far too few bytes."""
    n_pixels = image.size[0] * image.size[1]
    if n_pixels > LARGE and n_pixels > MOST_IN_A_BYTE * size:
        raise DataError.of(
            path,
            expected=f"more than {size:,} bytes for {image.size[1]} × {image.size[0]} pixels",
            got="a header that states more than the file contains",
            do="The file is damaged. Replace or remove it.",
        )


@contextmanager
def _opened(path: Path, max_pixels: int, content: bytes | None = None) -> Iterator["Image.Image"]:
    from PIL import Image

    try:
        with _quiet(Image.DecompressionBombWarning) if content is None else nullcontext():
            source = path if content is None else io.BytesIO(content)
            with Image.open(source, formats=FORMATS) as image:
                if image.size[0] * image.size[1] > max_pixels:
                    raise DataError.of(
                        path,
                        expected=f"at most {max_pixels:,} pixels",
                        got=f"{image.size[1]} × {image.size[0]}",
                        do="Make the image smaller, or pass a larger max_pixels.",
                    )
                _check_bytes(path, image, path.stat().st_size if content is None else len(content))
                yield image
    except DataError:
        raise
    except Exception as error:  # decoders raise many kinds of errors on damaged files
        raise DataError.of(
            path,
            expected="an image (PNG, JPEG, BMP, GIF, TIFF, WebP or PPM)",
            got=f"a file that cannot be read ({_words(error)})",
            do="The file is damaged or not an image: replace or remove it.",
        ) from error


def _words(error: Exception) -> str:
    """What a decoder says, on one line."""
    return " ".join(str(error).split())[:200] or type(error).__name__

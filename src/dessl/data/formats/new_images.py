"""Images for a model that is trained already: its size and colour, its classes, labels or none."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dessl._checks import quoted
from dessl.data.errors import DataError, few
from dessl.data.formats.arrays import RawData
from dessl.data.formats.folder import UNLABELLED, class_folders, image_files, read_images
from dessl.data.formats.image_file import MAX_PIXELS
from dessl.data.formats.reading import MAX_BYTES


def read_new_images(
    folder: str | Path,
    class_names: Sequence[str],
    shape: Sequence[int],
    *,
    bits: int = 8,
    labels: bool = True,
    max_pixels: int = MAX_PIXELS,
    max_bytes: int = MAX_BYTES,
) -> RawData:
    """Images as a trained model wants them, from one folder or from subfolders.

    Args:
        folder: Holds images, which then have no label; or subfolders named for the model's
            classes (any of them), and ``unlabelled`` for images without a label.
        class_names: The model's classes, in its order.
        shape: (channels, height, width) of the model's images.
        bits: How many bits the values of 16-bit images had in training; larger ones are clipped,
            with a warning.
        labels: Whether the subfolders are classes. If not, they may have any names, and no image
            has a label.
        max_pixels: An image with more pixels is refused before it is decoded.
        max_bytes: The most bytes that all images together may take.

    Raises:
        DataError: There are no images, one is damaged, or a subfolder is none of the classes.
    """
    folder = Path(folder)
    subfolders = class_folders(folder)
    codes: list[int] = []
    paths: list[Path] = []
    for place in subfolders or [folder]:
        files = image_files(place)
        code = _label(place, class_names) if labels and subfolders else -1
        paths += files
        codes += [code] * len(files)
    channels, height, width = shape
    x, _ = read_images(
        paths,
        size=(height, width),
        colour="grey" if channels == 1 else "rgb",
        bits=bits,
        max_pixels=max_pixels,
        max_bytes=max_bytes,
    )
    names = tuple(path.relative_to(folder).as_posix() for path in paths)
    return RawData(x, np.array(codes, np.int64), tuple(class_names), row_names=names)


def _label(place: Path, class_names: Sequence[str]) -> int:
    if place.name.lower() in UNLABELLED:
        return -1
    if place.name not in class_names:
        raise DataError.of(
            place,
            expected=f"subfolders named {few([*class_names, UNLABELLED[0]], most=20)}",
            got=f"{quoted(place.name)}",
            do="Put images without a label into 'unlabelled', or all into one folder.",
        )
    return list(class_names).index(place.name)

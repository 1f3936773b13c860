"""The files in a folder of images: its subfolders, their images, and what is skipped or refused."""

import os
import re
import warnings
from collections.abc import Sequence
from pathlib import Path

from dessl._checks import quoted
from dessl.data.errors import DataError, few
from dessl.data.formats.reading import check_name
from dessl.data.formats.tables import SUFFIXES as TABLES

SUFFIXES = frozenset(
    ".png .jpg .jpeg .bmp .gif .tif .tiff .webp .ppm .pgm .pbm".split()  # noqa: SIM905
)
# What operating systems, archives and network drives add.
CLUTTER = frozenset(("thumbs.db", "desktop.ini", "__macosx", "@eadir", "#recycle"))
KINDS = "PNG, JPEG, BMP, GIF, TIFF, WebP or PPM"
DICOM = (".dcm", ".dicom", ".ima")  # or no suffix at all
ABOUT = tuple(suffix for suffix in TABLES if suffix != ".txt")  # tables about the images
SKIP = "To leave out such files, pass --skip-damaged (skip_damaged=True in Python)."


def class_folders(folder: Path) -> list[Path]:
    """The subfolders in order; images next to them, which belong to no class, are refused."""
    if not folder.is_dir():
        raise DataError.of(folder, expected="a folder", got="no such folder", do="Check the path.")
    inside = sorted(path for path in folder.iterdir() if not _is_clutter(path))
    folders = [path for path in inside if path.is_dir()]
    loose = [path for path in inside if path.is_file() and path.suffix.lower() in SUFFIXES]
    for path in (*folders, *loose):
        check_name(path)
    lost = [path for path in inside if path.is_symlink() and not path.exists()]
    if lost:
        raise DataError.of(
            lost[0],
            expected="folders or files",
            got="a broken link, which may be a class",
            do="Mount or restore its target, or remove the link.",
        )
    if folders and loose:
        raise DataError.of(
            loose[0],
            expected="images only in the subfolders, or no subfolders",
            got=f"{len(loose)} image(s) next to them",
            do="Move them to the folder of their class, or to 'unlabelled'.",
        )
    return folders


def image_files(folder: Path, *, skip_others: bool = False) -> list[Path]:
    """The images of one folder in order; an empty folder and other files are refused.

    Args:
        folder: The folder.
        skip_others: Whether to leave out files that are no images, with a warning, instead.
    """
    files = sorted(
        (path for path in folder.iterdir() if not _is_clutter(path)),
        key=lambda path: path.name,
    )
    for path in files:
        check_name(path)
    others = [path for path in files if path.suffix.lower() not in SUFFIXES or _is_pipe(path)]
    if nested := [path for path in others if path.is_dir()]:
        _refuse_subfolder(nested[0])
    if others and skip_others:
        skipped = set(others)
        files = [path for path in files if path not in skipped]
        _warn_of_others(folder, others)
        others = []
    if others or not files:
        raise DataError.of(
            others[0] if others else folder,
            expected=f"image files ({KINDS})",
            got="something else" if others else "none",
            do=_instead_of(others[0])
            if others
            else "Put images into it, or remove it. To train, pass a folder whose subfolders are "
            "the classes.",
        )
    return files


def every_image(
    folder: Path, *, table: str | Path | None = None, skip_others: bool = False
) -> list[Path]:
    """The images of a folder and of all folders in it, in order; tables in it are not looked at.

    Args:
        folder: The folder.
        table: A table about the images, which may be in it whatever its suffix.
        skip_others: Whether to leave out other files, with a warning; otherwise they are refused.
    """
    if not folder.is_dir():
        raise DataError.of(folder, expected="a folder", got="no such folder", do="Check the path.")
    found = [path for path in sorted(_inside(folder)) if path.suffix.lower() not in ABOUT]
    files = [path for path in found if path.suffix.lower() in SUFFIXES and not _is_pipe(path)]
    images, about = set(files), None if table is None else Path(table).resolve()
    others = [path for path in found if path not in images and path.resolve() != about]
    if others and not skip_others:
        raise DataError.of(
            others[0], expected=f"images ({KINDS})", got="something else", do=_instead_of(others[0])
        )
    if others:
        _warn_of_others(folder, others)
    if not files:
        raise DataError.of(
            folder, expected=f"images ({KINDS})", got="none", do="Pass a folder with images."
        )
    return sorted(files, key=lambda path: path.relative_to(folder).parts)


def _inside(folder: Path, above: tuple[str, ...] = ()) -> list[Path]:
    """The files of a folder and of all folders in it; of a link to a folder above it, none."""
    real = os.path.realpath(folder)
    if real in above:
        return []
    found: list[Path] = []
    for path in folder.iterdir():
        if not _is_clutter(path):
            check_name(path)
            found += _inside(path, (*above, real)) if path.is_dir() else [path]
    return found


def _is_pipe(path: Path) -> bool:
    """Whether it is neither a file nor a broken link, which the image reader reports."""
    return path.exists() and not path.is_file()


def _is_clutter(path: Path) -> bool:
    """Whether it is hidden, or something that no user put there."""
    return path.name.startswith(".") or path.name.lower() in CLUTTER


def _instead_of(path: Path) -> str:
    """What to do with a file that is no image."""
    if path.suffix.lower() in DICOM or not path.suffix:
        return (
            "If it is a DICOM file, convert the scans to PNG or TIFF, with all their bits and with "
            f"one window for all. If it is no scan, move it elsewhere. {SKIP}"
        )
    if path.suffix.lower() in ABOUT:
        return (
            f"If it has the labels, pass --labels {path} (labels= in Python). If not, move it "
            f"elsewhere. {SKIP}"
        )
    return f"Move it elsewhere. {SKIP}"


def _refuse_subfolder(place: Path) -> None:
    """Refuse a folder within that of a class, as of a patient, and say how to keep groups."""
    name = place.name
    letters = re.match(r"[A-Za-z_]*(?=[0-9]+$)", name)
    pattern = f"^{letters[0]}[0-9]+" if letters else "^[^_]+"
    raise DataError.of(
        place,
        expected="images directly in the folder of their class",
        got=f"the folder {quoted(name)}",
        do=f"Move its images up. If it is a patient's, or another group that belongs together, "
        f"name the files after it, such as {name}_x.png, and pass --group '{pattern}' to keep "
        "groups together.",
    )


def _warn_of_others(folder: Path, others: Sequence[Path]) -> None:
    names = few([path.name for path in others])
    warnings.warn(
        f"{folder}: skipped files that are no images: {names}.",
        UserWarning,
        stacklevel=4,
    )

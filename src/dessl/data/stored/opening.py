"""open_rows: open stored rows at an address, whatever the kind of files."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from dessl.data.errors import DataError
from dessl.data.formats.image_file import Colour
from dessl.data.formats.tables import PARQUET
from dessl.data.stored.arrays import ArrayRows, npy_files, raw_files
from dessl.data.stored.images import image_folder
from dessl.data.stored.parquet import ParquetRows
from dessl.data.stored.places import WILD, Address, file_system, files_at
from dessl.data.stored.rows import StoredRows
from dessl.data.stored.tars import tar_files

NPY, RAW = (".npy",), (".bin", ".raw", ".dat")
TAR = (".tar",)


def open_rows(
    source: "Address | Sequence[Address] | NDArray[Any] | Tensor",
    *,
    shape: tuple[int, ...] | None = None,
    dtype: str | None = None,
    layout: str | None = None,
    columns: Sequence[str] | None = None,
    size: int | tuple[int, int] | None = None,
    colour: Colour | None = None,
    bits: int | None = None,
    index: str | Path | None = None,
) -> StoredRows:
    """Return rows without labels that stay on disk, for ``SemiData(..., stored=...)``.

    Args:
        source: A file, a folder of them, a pattern with ``*``, or a list of these, each a path or
            an address that fsspec knows (``s3://...``). The extensions say what they are: ``.npy``,
            ``.parquet``, ``.tar`` of images, or raw numbers (``.bin``, ``.raw``, ``.dat``). A
            folder without any of these is a folder of images, with those in its subfolders. Or an
            array (n, ...) in the memory of the host, too large for the device.
        shape: Shape of one row, for raw numbers.
        dtype: Type of raw numbers, such as ``"uint8"``.
        layout: ``"NCHW"`` or ``"NHWC"``, for arrays of images whose shape is ambiguous.
        columns: Columns of Parquet files; all by default.
        size: Height and width that image files are resized to; those of the first by default.
        colour: ``"grey"`` or ``"rgb"``, for image files; that of the first by default.
        bits: Bits of 16-bit image files, as in ``SemiData.bits``; 8 by default.
        index: Folder that caches the positions of images in tar files.

    Raises:
        DataError: A file is missing or damaged, or its rows differ from those of the first.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for k in range(3):
    ...         np.save(Path(folder) / f"{k}.npy", np.full((4, 2), k, np.float32))
    ...     stored = open_rows(folder)
    ...     len(stored), stored.shape, stored.rows([0, 11]).tolist()
    (12, (2,), [[0.0, 0.0], [2.0, 2.0]])
    """
    given: dict[str, dict[str, object]] = {
        "raw": {"shape": shape, "dtype": dtype},
        "layout": {"layout": layout},
        "parquet": {"columns": columns},
        "images": {"size": size, "colour": colour, "bits": bits},
        "tar": {"index": index},
    }
    if isinstance(source, Tensor | np.ndarray):
        _check_given("an array", given, "layout")
        return ArrayRows(np.asarray(source), layout)
    images = {"size": size, "colour": colour, "bits": bits or 8}
    if isinstance(source, str | Path) and _is_image_folder(str(source)):
        _check_given("a folder of images", given, "images")
        return image_folder(str(source), **images)
    files = files_at(source, (*NPY, *PARQUET, *TAR, *RAW))
    kinds = {Path(file.name).suffix.lower() for file in files}
    if shape is not None and dtype is not None:
        _check_given("raw numbers", given, "raw", "layout")
        return raw_files(files, shape, dtype, layout=layout)
    if kinds == set(NPY):
        _check_given(".npy files", given, "layout")
        return npy_files(files, layout=layout)
    if kinds <= set(PARQUET):
        _check_given("Parquet files", given, "parquet")
        return ParquetRows(files, columns)
    if kinds == set(TAR):
        _check_given("tar files", given, "images", "tar")
        return tar_files(files, index=index, **images)
    if kinds <= set(RAW):
        raise ValueError(
            f"{files[0].name} has raw numbers. Pass the shape and number type of a row, such as "
            "shape=(3, 32, 32), dtype='uint8'."
        )
    raise DataError.of(
        files[0].name,
        expected="files of one kind: .npy, .parquet, .tar, or raw numbers (.bin) with shape= and "
        "dtype=",
        got=", ".join(sorted(kinds)) or "no extension",
        do="Convert the files, or name those of one kind with a pattern such as 'rows/*.npy'.",
    )


def _check_given(what: str, given: Mapping[str, Mapping[str, object]], *fits: str) -> None:
    """Refuse options that are for other kinds of files."""
    odd = [
        name
        for kind, options in given.items()
        for name, value in options.items()
        if value is not None and kind not in fits
    ]
    if odd:
        raise ValueError(f"{', '.join(odd)} cannot be used with {what}. Omit it.")


def _is_image_folder(address: str) -> bool:
    """Whether an address is a folder with none of the other kinds of files in it."""
    known = (*NPY, *PARQUET, *TAR, *RAW)
    if "://" not in address:
        path = Path(address)
        return path.is_dir() and not any(one.suffix.lower() in known for one in path.iterdir())
    system, remote_path = file_system(address)
    if any(mark in address for mark in WILD) or not system.isdir(remote_path):
        return False
    return not any(n.lower().endswith(known) for n in system.ls(remote_path, detail=False))

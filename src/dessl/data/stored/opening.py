"""open_rows: stored rows from an address, by what the files there are."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from dessl.data.errors import DataError
from dessl.data.stored.arrays import ArrayRows, npy_files, raw_files
from dessl.data.stored.places import Address, files_at
from dessl.data.stored.rows import StoredRows

NPY, RAW = (".npy",), (".bin", ".raw", ".dat")


def open_rows(
    source: "Address | Sequence[Address] | NDArray[Any] | Tensor",
    *,
    shape: tuple[int, ...] | None = None,
    dtype: str | None = None,
    layout: str | None = None,
) -> StoredRows:
    """Return rows without labels that stay on disk, for ``SemiData(..., stored=...)``.

    Args:
        source: A file, a folder of them, a pattern with ``*``, or a list of these, each a path or
            an address that fsspec knows (``s3://...``). The endings say what they are: ``.npy``,
            or raw numbers (``.bin``, ``.raw``, ``.dat``). Or an array (n, ...) in the memory of the
            host, too large for the device.
        shape: Of one row, for raw numbers.
        dtype: Of raw numbers, such as ``"uint8"``.
        layout: ``"NCHW"`` or ``"NHWC"``, for images whose shape does not tell.

    Raises:
        DataError: A file is missing or damaged, or its rows are unlike those of the first.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for k in range(3):
    ...         np.save(Path(folder) / f"{k}.npy", np.full((4, 2), k, np.float32))
    ...     stored = open_rows(folder)
    ...     len(stored), stored.shape, stored.rows([0, 11]).tolist()
    (12, (2,), [[0.0, 0.0], [2.0, 2.0]])
    """
    if isinstance(source, Tensor | np.ndarray):
        return ArrayRows(np.asarray(source), layout)
    files = files_at(source, (*NPY, *RAW))
    kinds = {Path(file.name).suffix.lower() for file in files}
    raw = kinds <= set(RAW) or (shape is not None and dtype is not None)
    if not raw and (shape is not None or dtype is not None):
        raise ValueError("shape and dtype are for raw numbers; other files say it themselves.")
    if kinds == set(NPY) and not raw:
        return npy_files(files, layout=layout)
    if raw:
        return raw_files(files, shape or (), dtype or "float32", layout=layout)
    raise DataError.of(
        files[0].name,
        expected=".npy files, or raw numbers with shape= and dtype=",
        got=", ".join(sorted(kinds)) or "no ending",
        do="Convert the files, or name those of one kind with a pattern such as 'rows/*.npy'.",
    )

"""Files that are written whole or not at all."""

import os
import secrets
from pathlib import Path


def write_whole(path: Path, content: bytes | str) -> None:
    """Write a file through a temporary neighbour and a rename, so that no half of it is ever seen.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_whole(Path(folder) / "notes" / "a.txt", "whole")
    ...     (Path(folder) / "notes" / "a.txt").read_text()
    'whole'
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    data = content.encode() if isinstance(content, str) else content
    temporary = neighbour(path)
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def neighbour(path: Path) -> Path:
    """Return a hidden name beside a path that nothing has yet.

    What is made there by the usual means is readable for whom the user's umask says, where
    ``tempfile`` would make it readable for the user alone.
    """
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}")

"""A case: an input of one format, as files and options; and how it is judged.

A case that fails is kept as one small JSON file in ``corpus/`` and runs in ``make test`` for ever.
"""

import base64
import json
import warnings
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from readers import READERS

LONGEST_MESSAGE = 6000


@dataclass(frozen=True)
class Case:
    """An input.

    Attributes:
        format: A name in ``READERS``.
        files: Bytes by their path in the folder of the case.
        options: What the reader is called with besides; JSON's types only.
        decoded: Bytes that the content takes in memory, as far as its maker knows.
        damaged: Whether it was damaged after it was made valid.
    """

    format: str
    files: dict[str, bytes]
    options: dict[str, Any] = field(default_factory=dict)
    decoded: int = 0
    damaged: bool = False

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(map(len, self.files.values()))

    def write(self, folder: Path) -> None:
        """Write the files into a folder."""
        for name, content in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    def save(self, path: Path, why: str) -> None:
        """Write the case as one file of the corpus."""
        packed = {
            name: base64.b85encode(zlib.compress(content, 9)).decode()
            for name, content in self.files.items()
        }
        entries = {
            "format": self.format,
            "why": why,
            "options": self.options,
            "decoded": self.decoded,
            "files": packed,
        }
        path.write_text(json.dumps(entries, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> "Case":
        """Read a file of the corpus."""
        entries = json.loads(path.read_text(encoding="utf-8"))
        files = {
            name: zlib.decompress(base64.b85decode(packed))
            for name, packed in entries["files"].items()
        }
        return cls(entries["format"], files, entries["options"], entries["decoded"], damaged=True)


def judged(case: Case, folder: Path) -> bool:
    """Whether a case is accepted; False if it is refused in words.

    Raises:
        Exception: Whatever else comes out of the reader is a failure.
    """
    reader = READERS[case.format]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", UserWarning)
            reader.read(folder, **case.options)
    except reader.refusals as refusal:
        said = str(refusal)
        if not said or len(said) > LONGEST_MESSAGE:
            raise AssertionError(
                f"a message of {len(said)} characters: {said[:200]!r}"
            ) from refusal
        return False
    return True

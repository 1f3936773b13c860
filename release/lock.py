"""Write requirements-hashed.txt: every version of constraints.txt with its files' sha256.

    python release/lock.py

asks the package index (pypi.org) for the files of each version. ``pip install --require-hashes``
then takes no other file. See docs/releasing.md for torch on Linux.
"""

import json
import re
import sys
import urllib.request
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
CONSTRAINTS, HASHED = ROOT / "constraints.txt", ROOT / "requirements-hashed.txt"
INDEX = "https://pypi.org/pypi/{name}/json"
HEAD = """\
# Every version of constraints.txt with the sha256 of its files, made by release/lock.py.
# pip install --require-hashes --no-deps -r requirements-hashed.txt
"""


def pins(text: str) -> dict[str, str]:
    """Versions by name, as a requirements file pins them."""
    found = re.findall(r"^([A-Za-z0-9._-]+)==([^\s\\]+)", text, re.MULTILINE)
    return dict(found)


def files(name: str, version: str) -> list[dict[str, Any]]:
    """The files of a version, those left out that were withdrawn."""
    with urllib.request.urlopen(INDEX.format(name=name), timeout=60) as response:  # noqa: S310
        releases = json.load(response)["releases"]
    found = [file for file in releases.get(version, []) if not file.get("yanked")]
    if not found:
        sys.exit(f"{name}=={version} has no files at the index.")
    return found


def main() -> None:
    """Ask for every version and write the file."""
    parts = [HEAD]
    for name, version in pins(CONSTRAINTS.read_text(encoding="utf-8")).items():
        sums = sorted({file["digests"]["sha256"] for file in files(name, version)})
        parts.append(
            " \\\n    ".join((f"{name}=={version}", *(f"--hash=sha256:{s}" for s in sums)))
        )
        parts.append("\n")
    HASHED.write_text("".join(parts), encoding="utf-8")


if __name__ == "__main__":
    main()

"""Files from their publishers: downloads resume, and a file must have the right checksum."""

import hashlib
import tarfile
import urllib.error
import urllib.request
import zlib
from collections.abc import Collection, Sequence
from http.client import HTTPException, HTTPResponse
from pathlib import Path

from dessl._version import __version__
from dessl.data.errors import DataError
from dessl.data.formats.reading import (
    CHUNK,
    FETCH_AGAIN,
    MAX_BYTES,
    check_limit,
    exact_bytes,
    reading,
)

ATTEMPTS = 4
TIMEOUT = 60.0  # seconds without a byte


def download(urls: Sequence[str], target: Path, *, checksum: str, progress: bool = True) -> None:
    """Download a file from the first address that has the right bytes.

    The bytes are collected in ``<target>.part``; an interrupted download resumes from there, now or
    in a later call, if the server supports it. The file gets its name only if its checksum is
    right; an existing file with the right checksum is kept. Only for one process at a time.

    Args:
        urls: Addresses of the same file, tried in order.
        target: Where to put the file; missing folders are created.
        checksum: ``"md5:..."`` or ``"sha256:..."`` of the file.
        progress: Whether to show a progress bar on stderr.

    Raises:
        DataError: The file could not be downloaded from any address; the message says why.
    """
    problems = []
    with reading(target, "a folder that can be written to"):
        if target.is_file() and has_checksum(target, checksum):
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(f"{target.name}.part")
        for url in urls:
            problem = _problem(url, part, checksum, progress)
            if problem is None:
                part.replace(target)
                return
            problems.append(f"{url}: {problem}")
    raise DataError.of(
        target,
        expected="a successful download",
        got="; ".join(problems),
        do="Try again later, or put the file there by hand.",
    )


def extract(archive: Path, folder: Path, members: Collection[str]) -> None:
    """Extract the named files, and nothing else, from a tar archive.

    Args:
        archive: A tar file, gzipped or not.
        folder: Where to put the members, under their own names.
        members: Paths within the archive.

    Raises:
        DataError: The archive is damaged or lacks a member.
    """
    wanted = set(members)
    errors = (tarfile.TarError, zlib.error, ValueError)
    with reading(archive, "a tar archive", *errors), tarfile.open(archive) as tar:
        for member in tar:
            taken = member.isreg() and member.name in wanted  # a link could lead anywhere
            source = tar.extractfile(member) if taken else None
            if source is None:
                continue
            check_limit(archive, member.size, MAX_BYTES)
            target = folder / member.name
            target.parent.mkdir(parents=True, exist_ok=True)
            part = target.with_name(f"{target.name}.part")
            with part.open("wb") as file:
                for start in range(0, member.size, CHUNK):
                    file.write(exact_bytes(source, min(CHUNK, member.size - start), archive))
            part.replace(target)
            wanted.remove(member.name)
    if wanted:
        raise DataError.of(
            archive, expected=f"the member {min(wanted)}", got="none", do=FETCH_AGAIN
        )


def _problem(url: str, part: Path, checksum: str, progress: bool) -> str | None:
    """Why the download from this address failed; None if ``part`` is now complete."""
    problem = "no data was received"
    for _ in range(ATTEMPTS):
        before = part.stat().st_size if part.exists() else 0
        try:
            _resume(url, part, progress)
        except (OSError, HTTPException, ValueError) as error:
            problem = str(error) or type(error).__name__
            after = part.stat().st_size if part.exists() else 0
            if after == before:
                return problem
            continue
        if has_checksum(part, checksum):
            return None
        part.unlink()  # damaged, or started from a different file
        problem = f"the file does not have the checksum {checksum}"
        if before == 0:
            return problem
    return problem


def _resume(url: str, part: Path, progress: bool) -> None:
    """Ask for the bytes after those in ``part``, and write them."""
    if not url.startswith(("https://", "http://")):
        raise ValueError("only http and https addresses are fetched")
    have = part.stat().st_size if part.exists() else 0
    headers = {"User-Agent": f"dessl/{__version__}", "Accept-Encoding": "identity"}
    if have:
        headers["Range"] = f"bytes={have}-"
    request = urllib.request.Request(url, headers=headers)  # noqa: S310
    try:
        response = urllib.request.urlopen(request, timeout=TIMEOUT)  # noqa: S310
    except urllib.error.HTTPError as error:
        with error:
            if error.code != 416:
                raise
        part.unlink()  # the server has nothing after our bytes: start again
        raise
    with response:
        resumed = _resumes_at(response, have)
        length = response.headers.get("Content-Length")
        total = (have if resumed else 0) + int(length) if length else None
        _write(response, part, have if resumed else 0, total, progress)


def _resumes_at(response: HTTPResponse, have: int) -> bool:
    """Whether the answer continues where we stopped; a server without ranges starts again."""
    return response.status == 206 and response.headers.get("Content-Range", "").startswith(
        f"bytes {have}-"
    )


def _write(
    response: HTTPResponse, part: Path, start: int, total: int | None, progress: bool
) -> None:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    looks = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    bar = Progress(*looks, console=Console(stderr=True), disable=not progress)
    done = start
    with part.open("ab" if start else "wb") as file, bar:
        task = bar.add_task(part.name.removesuffix(".part"), total=total, completed=start)
        while piece := response.read(CHUNK):
            file.write(piece)
            done += len(piece)
            bar.update(task, completed=done)
    if total is not None and done != total:
        raise OSError(f"the download stopped after {done:,} of {total:,} bytes")


def has_checksum(path: Path, checksum: str) -> bool:
    """Whether a file has the given checksum, ``"md5:..."`` or ``"sha256:..."``."""
    algorithm, digest = checksum.split(":")
    with path.open("rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest() == digest

"""Files are written whole or not at all."""

import os
from pathlib import Path

import pytest

from dessl._files import write_whole


def test_a_failed_write_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "facts.json"
    write_whole(target, "old")

    def full_disk(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full_disk)
    with pytest.raises(OSError, match="No space left"):
        write_whole(target, "new")
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_bytes_and_missing_folders(tmp_path: Path) -> None:
    target = tmp_path / "a" / "b" / "figure.png"
    write_whole(target, b"\x89PNG")
    assert target.read_bytes() == b"\x89PNG"


@pytest.mark.skipif(os.name != "posix", reason="needs Unix's permissions")
@pytest.mark.parametrize(("mask", "mode"), [(0o022, 0o644), (0o077, 0o600)])
def test_the_users_mask_says_who_may_read_it(tmp_path: Path, mask: int, mode: int) -> None:
    before = os.umask(mask)
    try:
        write_whole(tmp_path / "patients.csv", "private")
    finally:
        os.umask(before)
    assert (tmp_path / "patients.csv").stat().st_mode & 0o777 == mode

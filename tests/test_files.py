"""Files are written whole or not at all."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from dessl._files import write_whole
from dessl.recipes.architecture import Architecture
from dessl.recipes.predictor import Predictor
from dessl.saved import SavedModel, save_model
from dessl.training.checkpoint import save_checkpoint


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


@pytest.mark.skipif(os.name != "posix", reason="needs Unix's links and permissions")
def test_links_modes_and_pipes_stay_what_they_are(tmp_path: Path) -> None:
    real, link = tmp_path / "real.csv", tmp_path / "link.csv"
    real.write_text("old")
    real.chmod(0o600)
    link.symlink_to(real)
    write_whole(link, "new")
    assert link.is_symlink()
    assert real.read_text() == "new"
    assert real.stat().st_mode & 0o777 == 0o600
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    read = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_whole(pipe, "through")
    assert os.read(read, 10) == b"through"
    os.close(read)
    assert pipe.is_fifo()
    with pytest.raises(IsADirectoryError):
        write_whole(tmp_path, "a folder")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.csv", "pipe", "real.csv"]


def test_processes_are_alone_one_after_another(tmp_path: Path) -> None:
    """Each adds one to a number that it read a while before."""
    target = tmp_path / "new" / "number"
    program = (
        "import sys, time, pathlib; from dessl._files import alone\n"
        "path = pathlib.Path(sys.argv[1])\n"
        "with alone(path):\n"
        "    before = int(path.read_text()) if path.exists() else 0\n"
        "    time.sleep(0.2)\n"
        "    path.write_text(str(before + 1))\n"
    )
    command = [sys.executable, "-c", program, str(target)]
    running = [subprocess.Popen(command) for _ in range(4)]
    assert [process.wait(600) for process in running] == [0] * 4
    assert target.read_text() == "4"
    assert [path.name for path in target.parent.iterdir()] == ["number"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="asks Linux for a full device")
def test_a_full_device_is_named() -> None:
    with pytest.raises(OSError, match="No space left on device: '/dev/full'"):
        write_whole(Path("/dev/full"), "a")


def test_a_full_disk_names_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"No space left on device: '.*a\.txt'"):
        write_whole(tmp_path / "a.txt", "a")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(OSError, match=r"No space left .*step-000000001.*state\.pt'"):
        save_checkpoint(tmp_path, 1, {}, {})
    architecture = Architecture("mlp", {"n_features": 1, "n_classes": 2, "hidden": []})
    model = Predictor([architecture()], torch.zeros(1), torch.ones(1))
    saved = SavedModel(model, ("a", "b"), (1,), image=False, architecture=architecture)
    with pytest.raises(OSError, match=r"No space left .*model.safetensors'"):
        save_model(tmp_path / "model", saved)

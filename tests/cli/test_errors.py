"""What the system refuses, said in one line that says what to do."""

import errno
import os
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.test_bad_input import fit, refused

from dessl.cli import errors
from dessl.cli.errors import TYPED, command, complaint, from_home, resumable, writable_folder
from dessl.cli.stopping import farewell
from dessl.data import SemiData

Cli = Callable[..., tuple[int, str, str]]


def test_a_file_in_the_way_of_the_folder(cli: Cli, tmp_path: Path) -> None:
    """Stands for a folder that may not be written; root may write anywhere."""
    (tmp_path / "run").write_text("mine")
    refused(
        fit(cli, tmp_path, tmp_path / "run"), "A file with this name exists: choose another folder."
    )
    refused(
        fit(cli, tmp_path, tmp_path / "run" / "a"), "A file with this name exists: choose another"
    )
    assert (tmp_path / "run").read_text() == "mine"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_without_write_permission(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir(mode=0o500)
    refused(
        fit(cli, tmp_path, tmp_path / "locked" / "run"),
        "you can read and write",
    )


def test_a_read_only_place(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system's refusal, simulated, so that root's tests see its words too."""

    def refuse(path: Path, *_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    monkeypatch.setattr(Path, "mkdir", refuse)
    refused(fit(cli, tmp_path, tmp_path / "run"), "you can read and write")


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs Linux's names of open files")
@pytest.mark.parametrize("fails_at", ["the first checkpoint", "the model", "the facts"])
def test_a_full_disk_leaves_nothing_half_written_and_the_run_goes_on_when_there_is_room(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails_at: str
) -> None:
    out = tmp_path / "run"
    fsync = os.fsync

    def full(descriptor: int) -> None:
        path = str(Path(f"/proc/self/fd/{descriptor}").readlink())
        at = {
            "the first checkpoint": "/checkpoints/" in path,
            "the model": "/.model.new" in path or "/..model.new" in path,
            "the facts": ".facts.json" in path,
        }
        if at[fails_at]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        refused(fit(cli, tmp_path, out), "No space left on device. Free some space")
    assert not (out / "facts.json").exists()
    assert not (out / "report.html").exists()
    left = {path.name for path in out.iterdir()}
    wanted = {
        "the first checkpoint": {"training"},
        "the model": {"training", "complete-case"},
        "the facts": {"training", "complete-case", "model"},
    }
    assert left == wanted[fails_at]
    code, _, err = fit(cli, tmp_path, out)
    assert code == 0, err
    assert {path.name for path in out.iterdir()} == {
        "training", "complete-case", "model", "facts.json", "report.html",
    }  # fmt: skip


def test_too_little_memory(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise MemoryError("Unable to allocate 7.5 TiB")

    monkeypatch.setattr(SemiData, "from_file", refuse)
    refused(fit(cli, tmp_path, tmp_path / "run"), "not enough memory. Unable to allocate 7.5 TiB")


@pytest.mark.parametrize("number", errors.REMEDIES)
def test_the_system_s_words_come_with_a_remedy(number: int) -> None:
    said = complaint(OSError(number, os.strerror(number), "a/b.csv"))
    assert said == f"a/b.csv: {os.strerror(number)}. {errors.REMEDIES[number]}"


def test_of_a_rename_the_target_is_named_and_notes_are_kept() -> None:
    error = OSError(errno.ENOSPC, "No space left on device", "a.tmp", None, "a.csv")
    error.add_note("The old file is unchanged.")
    said = complaint(error)
    assert said.startswith("a.csv: No space left on device. Free some space")
    assert said.endswith(" The old file is unchanged.")
    assert complaint(OSError(errno.EIO, "Input/output error")) == "Input/output error."


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (ValueError("seed must be at least 0; got -1."), "seed must be at least 0; got -1."),
        (RuntimeError(), "RuntimeError"),
        (OSError("damaged"), "damaged"),
        (MemoryError(), "not enough memory."),
        (MemoryError("7 TiB"), "not enough memory. 7 TiB"),
    ],
)
def test_other_errors_are_their_own_words(error: BaseException, says: str) -> None:
    assert complaint(error) == says


def test_a_writable_folder_is_made_and_left_empty(tmp_path: Path) -> None:
    folder = writable_folder(tmp_path / "a" / "b")
    assert folder == writable_folder(folder) == tmp_path / "a" / "b"
    assert list(folder.iterdir()) == []
    (tmp_path / "file").write_text("mine")
    with pytest.raises(FileExistsError):
        writable_folder(tmp_path / "file")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("~", "/home/ann"),
        ("~/my scans", "/home/ann/my scans"),
        ("--out=~/runs", "--out=/home/ann/runs"),
        ("--test-file=~", "--test-file=/home/ann"),
        ("~ann/runs", "~ann/runs"),
        ("a/~/b", "a/~/b"),
        ("a=~/b", "a=~/b"),
    ],
)
def test_a_home_folder_is_expanded(monkeypatch: pytest.MonkeyPatch, typed: str, meant: str) -> None:
    monkeypatch.setattr(Path, "home", lambda: Path("/home/ann"))
    assert from_home(typed) == meant


def test_the_command_can_be_pasted_into_a_shell() -> None:
    token = TYPED.set(("fit", "my table.csv", "--label", "it's"))
    try:
        typed = command()
        with resumable(Path("runs/a")):
            said = farewell()
    finally:
        TYPED.reset(token)
    assert shlex.split(typed) == ["dessl", "fit", "my table.csv", "--label", "it's"]
    assert said == f"Interrupted. Finished steps are kept in runs/a; to resume: {typed}"

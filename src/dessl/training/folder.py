"""A run's folder: one process at a time, one run only, a history without gaps or repeats."""

import dataclasses
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from dessl._files import lock, naming, sweep, write_whole
from dessl._version import __version__
from dessl.training.checkpoint import (
    Checkpoint,
    CheckpointError,
    keep_newest,
    remove_unfinished,
    usable_checkpoints,
    warn_of_damage,
)
from dessl.training.member import Event

# Errors raised when an intact checkpoint does not match this run.
MISMATCH_ERRORS = (LookupError, TypeError, AttributeError, ValueError, RuntimeError)
CONTENTS = {  # what a different sha256 means
    "data rows_sha256": "different rows or labels",
    "data stored_sha256": "different rows on disk",
    "model_repr_sha256": "a different model",
    "functions_sha256": "a different function, such as H, L or a view",
    "runs_sha256": "different settings of the runs",
}
LOCK = "lock"  # in the folder of a run: the process that holds it


class DifferentRunError(ValueError):
    """A folder has a run with other data or settings."""


@dataclasses.dataclass(frozen=True)
class RunFolder:
    """The folder of a run: its plan, history and checkpoints."""

    path: Path

    @property
    def checkpoints(self) -> Path:
        """Where checkpoints are kept."""
        return self.path / "checkpoints"

    @property
    def history(self) -> Path:
        """The history, a line of JSON for each evaluation."""
        return self.path / "history.jsonl"

    def begin(
        self, identity: Mapping[str, Any], restore: Callable[[Checkpoint], None], *, resume: bool
    ) -> None:
        """Resume from the newest usable checkpoint, after checking that it belongs to this run.

        Files that a killed process left incomplete are removed.

        Args:
            identity: Fields of the run to be trained here that must match to resume.
            restore: Called with the checkpoint; called again with the previous one if something is
                missing from it.
            resume: Whether to resume an existing run.
        """
        place = self.path / "run.json"
        remove_unfinished(self.checkpoints)
        sweep(place)
        sweep(self.history)
        if place.exists():
            if not resume:
                raise FileExistsError(
                    f"{self.path} already has a run. Pass resume=True to resume it, or choose "
                    "another folder."
                )
            _check_identity(_read_identity(place), identity, self.path)
        else:
            write_whole(place, json.dumps(identity, indent=1) + "\n")
        for found, saved in usable_checkpoints(self.checkpoints):
            try:
                restore(saved)
            except torch.OutOfMemoryError:
                raise
            except MISMATCH_ERRORS as error:
                words = " ".join(str(error).split())[:200].rstrip(".")
                what = f"it lacks {words}" if isinstance(error, KeyError) else words
                warn_of_damage(CheckpointError(f"the checkpoint {found} is damaged: {what}."))
                continue
            keep_newest(self.checkpoints, found)
            return

    def rewrite_history(self, events: Sequence[Event]) -> None:
        """Truncate the history to a checkpoint: later lines will be written again."""
        write_whole(self.history, "".join(event.as_line() for event in events))

    def append(self, events: Iterable[Event]) -> None:
        """Add a line to the history for each event."""
        with naming(self.history), self.history.open("a", encoding="utf-8") as file:
            file.write("".join(event.as_line() for event in events))


@contextmanager
def locked_folder(path: str | Path | None) -> Iterator[RunFolder | None]:
    """Lock a run's folder, and refuse one locked by another process; None for no folder.

    The system releases the lock when the process ends, however it ends.
    """
    if path is None:
        yield None
        return
    path = Path(path)
    if path.exists() and not path.is_dir():
        raise FileExistsError(f"{path} is a file, but a run needs a folder. Choose another name.")
    path.mkdir(parents=True, exist_ok=True)
    with (path / LOCK).open("a+", encoding="utf-8") as file:
        try:
            lock(file, wait=False)
        except OSError as error:
            file.seek(0)
            owner = file.read().strip() or "unknown"
            raise RuntimeError(
                f"another process (number {owner}) is training in {path}. Wait for it, or choose "
                "another folder."
            ) from error
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        yield RunFolder(path)


def _read_identity(place: Path) -> dict[str, Any]:
    content = place.read_bytes()
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        found = None
    if isinstance(found, dict) and all(
        isinstance(found.get(part, {}), dict) for part in ("plan", "data")
    ):
        return found
    raise ValueError(
        f"{place}: expected the plan and data of the run there, as JSON; got "
        f"{content[:60].decode(errors='replace')!r}. The file is damaged, or was not written by "
        "dessl. Choose another folder."
    )


def _check_identity(found: Mapping[str, Any], identity: Mapping[str, Any], path: Path) -> None:
    if found.get("format") != identity["format"]:
        raise ValueError(
            f"{path} has a run that was started with another version of dessl "
            f"({found.get('dessl', 'unknown')}), which this one ({__version__}) cannot resume. "
            "Choose another folder, or finish it with that version."
        )
    now, before = flat_identity(identity), flat_identity(found)
    uncompared = {"dessl", "python"}
    if now.get("python") != before.get("python"):
        uncompared.add("functions_sha256")  # the same code looks different there
    different = [
        CONTENTS[key]
        if key in CONTENTS and key in before
        else f"{key}: {_text(before, key)} there, {_text(now, key)} now"
        for key in sorted(now.keys() | before.keys(), key=lambda key: (key in CONTENTS, key))
        if now.get(key) != before.get(key) and key not in uncompared
    ]
    if different:
        version = found.get("dessl", "unknown")
        other = "" if version == __version__ else f" and version {version!s:.40} of dessl"
        raise DifferentRunError(
            f"{path} has a different run ({'; '.join(different)}). Choose another folder, or train "
            f"with the settings of that run{other}."
        )


def _text(identity: Mapping[str, Any], key: str) -> str:
    return repr(identity[key]) if key in identity else "missing"


def flat_identity(identity: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an identity as one flat dict."""
    plan, data = identity.get("plan", {}), identity.get("data", {})
    rest = {key: value for key, value in identity.items() if key not in ("plan", "data")}
    return {**rest, **plan, **{f"data {key}": value for key, value in data.items()}}

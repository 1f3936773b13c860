"""A run's folder: one process at a time, one run only, a history without gaps or repeats."""

import dataclasses
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from dessl._files import lock, naming, sweep, write_whole
from dessl._version import __version__
from dessl.data import SemiData
from dessl.surrogates.base import Surrogate
from dessl.training.checkpoint import (
    FORMAT,
    Checkpoint,
    CheckpointError,
    keep_newest,
    remove_unfinished,
    usable_checkpoints,
    warn_of_damage,
)
from dessl.training.member import Event
from dessl.training.sharded import is_wrapped

# Errors raised when an intact checkpoint does not match this run.
MISMATCH_ERRORS = (LookupError, TypeError, AttributeError, ValueError, RuntimeError)
CONTENTS = {  # what a different sha256 means
    "data rows_sha256": "different rows or labels",
    "data stored_sha256": "different rows on disk",
    "model_repr_sha256": "a different model",
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


def data_identity(data: SemiData) -> dict[str, Any]:
    """Return the identity of data: its name, its shape, and the sha256 of its contents."""
    rows = (data.labelled_rows, data.unlabelled_rows, data.validation_rows)
    own = [*(data.validation or ()), *([] if data.propensity is None else [data.propensity])]
    return {
        "name": data.name,
        "shape": list(data.x.shape),
        "rows_sha256": sha256_of(*rows, data.ids, data.y, data.x, *own),
        **({} if data.stored is None else {"stored_sha256": data.stored.identity()}),
    }


def parts_identity(surrogate: Surrogate, model: nn.Module) -> dict[str, Any]:
    """Return the identity of a surrogate and a model; views and functions are not included.

    A model is identified by its class, its size and its repr, without memory addresses.
    """
    printed = re.sub(r"\b0x[0-9a-fA-F]+", "", repr(model))
    name = type(model).__name__
    if is_wrapped(model):  # PyTorch has put FSDP or DDP before the names of classes
        printed = re.sub(r"\b(?:FSDP|DDP)(?=\w+\()", "", printed)
        name = re.sub("^(?:FSDP|DDP)", "", name)
    return {
        "surrogate": " of ".join(_described(part) for part in surrogate.parts()),
        "model": name,
        "model_repr_sha256": hashlib.sha256(printed.encode()).hexdigest(),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "dessl": __version__,
        "format": FORMAT,
    }


def sha256_of(*tensors: Tensor) -> str:
    """Return the sha256 of the tensors' values, without copying contiguous ones.

    >>> sha256_of(torch.tensor([0, 2, 4])) == sha256_of(torch.arange(6)[::2], torch.arange(0))
    True
    """
    digest = hashlib.sha256()
    for tensor in tensors:
        plain = tensor.detach().cpu().contiguous().reshape(-1)
        digest.update(plain.view(torch.uint8).numpy().data)  # NumPy has no bfloat16
    return digest.hexdigest()


def _described(surrogate: Surrogate) -> str:
    """One surrogate's kind, plain settings and given tables, the latter by their sha256.

    Buffers of a surrogate that changes after each step are its state and are left out: a surrogate
    that was used before has different ones.
    """
    settings = {
        name: value
        for name, value in sorted(vars(surrogate).items())
        if isinstance(value, int | float | str | tuple)
        and not name.startswith("_")
        and name != "training"
    }
    if not surrogate.moves:
        tables = surrogate.named_buffers(recurse=False)
        settings |= {name: f"sha256 {sha256_of(table)[:16]}" for name, table in tables}
    settings["seed"] = surrogate.seed
    inside = ", ".join(f"{name}={value!r}" for name, value in settings.items())
    return f"{type(surrogate).__name__}({inside})"


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
    different = [
        CONTENTS[key]
        if key in CONTENTS and key in before
        else f"{key}: {_text(before, key)} there, {_text(now, key)} now"
        for key in sorted(now.keys() | before.keys(), key=lambda key: (key in CONTENTS, key))
        if now.get(key) != before.get(key) and key != "dessl"
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

"""Checkpoints: complete or absent, verified by sha256, the two newest kept.

A checkpoint is a folder ``step-000001000``: weights as safetensors, everything else in ``state.pt``
(tensors, numbers and text, read with ``weights_only=True``), and ``manifest.json`` with the sha256
of each file. It is written under a temporary name and renamed, so a kill at any moment leaves
either a complete checkpoint or none. Weights that are divided among ranks are in one file for
each rank (:mod:`dessl.training.sharded`).
"""

import hashlib
import io
import json
import os
import re
import shutil
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from dessl._files import file_sha256, write_through
from dessl.training.ranks import from_first
from dessl.training.sharded import write_shards

KEPT = 2
FORMAT = 3  # 3: one layout for a run and for many
PREFIX = "step-"
WEIGHTS = ".safetensors"
NAME = re.compile(rf"{PREFIX}\d{{9,}}")
FILE = re.compile(rf"\w+{re.escape(WEIGHTS)}")
SHARD = re.compile(rf"shard-\d+-model-\d+-of-\d+{re.escape(WEIGHTS)}")  # as PyTorch names them
PLACE = "place"  # in the state of a checkpoint with shards: its folder


class Checkpoint(NamedTuple):
    """Named sets of weights, and the rest of a run's state."""

    weights: dict[str, dict[str, Tensor]]
    state: dict[str, Any]


class CheckpointError(RuntimeError):
    """A checkpoint that cannot be used: damaged, or from another format or run."""


def save_checkpoint(
    folder: Path, step: int, weights: Mapping[str, Mapping[str, Tensor]], state: Mapping[str, Any]
) -> Path:
    """Write a checkpoint, and remove all but the two newest.

    Args:
        folder: Where checkpoints are kept.
        step: Steps done.
        weights: State dicts by name.
        state: Other state that ``torch.load(weights_only=True)`` can read.
    """
    from safetensors.torch import save

    files = {"state.pt": _as_bytes(state)}
    for name, tensors in weights.items():
        # Copies: safetensors refuses tensors that share memory, as tied weights do.
        copies = {key: value.detach().cpu().clone().contiguous() for key, value in tensors.items()}
        files[f"{name}{WEIGHTS}"] = save(copies)
    _begin(folder, step)
    return _finish(folder, step, files)


def save_sharded(
    folder: Path, step: int, weights: Mapping[str, Mapping[str, Tensor]], state: Mapping[str, Any]
) -> None:
    """Write a checkpoint of weights that are divided among the ranks; all ranks call it.

    Args:
        folder: Where checkpoints are kept, shared by all ranks.
        step: Steps done.
        weights: State dicts by name; each rank writes its part.
        state: Same as in :func:`save_checkpoint`; that of rank 0 is written.
    """
    from_first(lambda: _begin(folder, step))
    write_shards(_unfinished(folder, step), weights)
    from_first(lambda: _finish(folder, step, {"state.pt": _as_bytes(state)}))


def _as_bytes(state: Mapping[str, Any]) -> bytes:
    buffer = io.BytesIO()
    torch.save(dict(state), buffer)
    return buffer.getvalue()


def _place(folder: Path, step: int) -> Path:
    return folder / f"{PREFIX}{step:09d}"


def _unfinished(folder: Path, step: int) -> Path:
    return folder / f".{PREFIX}{step:09d}"


def _begin(folder: Path, step: int) -> None:
    _remove(_unfinished(folder, step))
    _unfinished(folder, step).mkdir(parents=True)


def _finish(folder: Path, step: int, files: Mapping[str, bytes]) -> Path:
    """Add files and a manifest to a checkpoint, and rename it to its final name."""
    unfinished, place = _unfinished(folder, step), _place(folder, step)
    sums = {path.name: file_sha256(path) for path in sorted(unfinished.iterdir())}
    sums |= {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    manifest = json.dumps({"format": FORMAT, "sha256": sums}, indent=1).encode()
    for name, content in {**files, "manifest.json": manifest}.items():
        write_through(unfinished / name, content, final=place / name)
    _sync_folder(unfinished)
    _remove(place)
    unfinished.rename(place)
    _sync_folder(folder)
    keep_newest(folder, place)
    return place


def usable_checkpoints(folder: Path) -> Iterator[tuple[Path, Checkpoint]]:
    """Yield the intact checkpoints, the newest first, with a warning for each damaged one.

    Raises:
        CheckpointError: There are checkpoints, and the caller has skipped all of them.
    """
    if os.path.lexists(folder) and not folder.is_dir():
        raise CheckpointError(
            f"{folder} must be a folder of checkpoints, but it is a file. Remove it to start the "
            "run over."
        )
    places = _places(folder)
    for place in reversed(places):
        try:
            yield place, load_checkpoint(place)
        except CheckpointError as error:
            warn_of_damage(error)
    if places:
        raise CheckpointError(
            f"no checkpoint in {folder} can be used. Delete the folder to start the run over."
        )


def warn_of_damage(error: CheckpointError) -> None:
    """Warn that a checkpoint is skipped, and why."""
    warnings.warn(f"{error} Using the previous checkpoint.", UserWarning, stacklevel=4)


def load_checkpoint(place: Path) -> Checkpoint:
    """Read one checkpoint, and refuse a damaged one or files not written by dessl.

    Shards are checked, and read later by the ranks that need them, from the folder in the state.
    """
    sums = _manifest(place)
    shards = [name for name in sums if SHARD.fullmatch(name)]
    try:
        files = {name: (place / name).read_bytes() for name in sums.keys() - set(shards)}
        found = {name: file_sha256(place / name) for name in shards}
    except OSError as error:
        raise CheckpointError(f"the checkpoint {place} is damaged: {error}.") from error
    found |= {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    for name in sums:
        if found[name] != sums[name]:
            raise CheckpointError(
                f"the checkpoint {place} is damaged: {name} does not have the sha256 it was "
                "written with."
            )
    from safetensors.torch import load

    try:
        state = _state(files.pop("state.pt"))
        weights = {name.removesuffix(WEIGHTS): load(files[name]) for name in files}
    except Exception as error:  # torch's reader raises many kinds of errors on garbage
        raise CheckpointError(
            f"the checkpoint {place} is damaged: its files have the sha256 they were written with, "
            f"but cannot be read ({type(error).__name__})."
        ) from error
    if not isinstance(state, dict):
        raise CheckpointError(
            f"the checkpoint {place} is damaged: state.pt has a {type(state).__name__}, not a dict."
        )
    return Checkpoint(weights, {**state, PLACE: str(place)} if shards else state)


def _state(content: bytes) -> Any:
    """Read what ``torch.save`` wrote, after checking the sizes that its parts state.

    torch.save compresses nothing; from a compressed part, or one of PyTorch's older format, a small
    file could take all memory.
    """
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        parts = archive.infolist()
    if any(part.compress_type for part in parts) or sum(p.file_size for p in parts) > len(content):
        raise ValueError("its parts are larger than the file")
    return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)


def _manifest(place: Path) -> dict[str, str]:
    """The sha256 of each file of a checkpoint, by name, from its manifest."""
    if place.is_symlink() or not place.is_dir():
        what = "a link" if place.is_symlink() else "a file"
        raise CheckpointError(f"the checkpoint {place} is damaged: it is {what}, not a folder.")
    odd = [path.name for path in place.iterdir() if not path.is_file()]
    if odd:  # such as a pipe, whose end may never come
        raise CheckpointError(f"the checkpoint {place} is damaged: {odd[0]} is not a file.")
    try:
        manifest = json.loads((place / "manifest.json").read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"the checkpoint {place} is damaged: {error}.") from error
    if isinstance(manifest, dict) and manifest.get("format") != FORMAT:
        raise CheckpointError(
            f"the checkpoint {place} has format {manifest.get('format')!r:.20}, not {FORMAT}."
        )
    sums = manifest.get("sha256") if isinstance(manifest, dict) else None
    if (
        not isinstance(sums, dict)
        or "state.pt" not in sums
        or not all(isinstance(its, str) for its in sums.values())
        or not all(
            name == "state.pt" or FILE.fullmatch(name) or SHARD.fullmatch(name) for name in sums
        )
    ):
        raise CheckpointError(
            f"the checkpoint {place} is damaged: manifest.json must name state.pt and weights with "
            "the sha256 of each."
        )
    return sums


def remove_unfinished(folder: Path) -> None:
    """Remove what a killed process was writing or removing."""
    for unfinished in folder.glob(f".{PREFIX}*"):
        _delete(unfinished)


def keep_newest(folder: Path, place: Path) -> None:
    """Remove all but the newest checkpoints up to ``place``; and all later ones."""
    places = _places(folder)
    before = [other for other in places if other <= place]
    for old in (*before[:-KEPT], *(other for other in places if other > place)):
        _remove(old)


def has_checkpoint(folder: Path, step: int) -> bool:
    """Return whether a folder has a checkpoint of a step."""
    return _place(folder, step).is_dir()


def _places(folder: Path) -> list[Path]:
    """Checkpoints, the oldest first; files with other names are ignored."""
    return sorted(place for place in folder.glob(f"{PREFIX}*") if NAME.fullmatch(place.name))


def _remove(place: Path) -> None:
    """Remove a folder; renamed first, so that no half of it is ever taken for a checkpoint."""
    if os.path.lexists(place):
        doomed = place.with_name(f".{place.name.removeprefix('.')}.old")
        _delete(doomed)
        place.rename(doomed)
        _delete(doomed)


def _delete(path: Path) -> None:
    """Delete a folder with what is in it, or a file, or a link but not what it leads to."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":  # Windows has no such call, and orders its renames itself
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

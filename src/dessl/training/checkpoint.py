"""Checkpoints: whole or absent, checked by their sha256, the two newest kept.

A checkpoint is a folder ``step-000001000``: weights as safetensors, everything else in ``state.pt``
(tensors, numbers and text, read with ``weights_only=True``), and ``manifest.json`` with the sha256
of each file. It is written beside its place and renamed into it, so a kill at any moment leaves
either the whole of it or nothing that counts.
"""

import hashlib
import io
import json
import os
import shutil
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

KEPT = 2
FORMAT = 3  # 3: one layout for a run and for many
PREFIX = "step-"


class Checkpoint(NamedTuple):
    """Named sets of weights, and the rest of a run's state."""

    weights: dict[str, dict[str, Tensor]]
    state: dict[str, Any]


class CheckpointError(RuntimeError):
    """A checkpoint that cannot be used: damaged, of another format, or of another run."""


def save_checkpoint(
    folder: Path, step: int, weights: Mapping[str, Mapping[str, Tensor]], state: Mapping[str, Any]
) -> Path:
    """Write a checkpoint and drop all but the two newest.

    Args:
        folder: Where checkpoints lie.
        step: Steps done.
        weights: State dicts by name.
        state: Whatever ``torch.load(weights_only=True)`` can read back.
    """
    from safetensors.torch import save

    buffer = io.BytesIO()
    torch.save(dict(state), buffer)
    files = {"state.pt": buffer.getvalue()}
    for name, tensors in weights.items():
        # Copies: safetensors refuses tensors that share memory, as tied weights do.
        copies = {key: value.detach().cpu().clone().contiguous() for key, value in tensors.items()}
        files[f"{name}.safetensors"] = save(copies)
    sums = {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    files["manifest.json"] = json.dumps({"format": FORMAT, "sha256": sums}, indent=1).encode()
    place = folder / f"{PREFIX}{step:09d}"
    unfinished = folder / f".{place.name}"
    _remove(unfinished)
    unfinished.mkdir(parents=True)
    for name, content in files.items():
        with (unfinished / name).open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    _sync_folder(unfinished)
    _remove(place)
    unfinished.rename(place)
    _sync_folder(folder)
    for old in _places(folder)[:-KEPT]:
        _remove(old)
    return place


def newest_checkpoint(folder: Path) -> Checkpoint | None:
    """Read the newest checkpoint that is whole, with a warning for each damaged one before it."""
    places = _places(folder)
    for place in reversed(places):
        try:
            return load_checkpoint(place)
        except CheckpointError as error:
            warnings.warn(f"{error} The checkpoint before it is used.", UserWarning, stacklevel=3)
    if places:
        raise CheckpointError(
            f"no checkpoint in {folder} is whole. Delete the folder to start the run over."
        )
    return None


def load_checkpoint(place: Path) -> Checkpoint:
    """Read one checkpoint, refusing a damaged one."""
    from safetensors.torch import load

    try:
        manifest = json.loads((place / "manifest.json").read_bytes())
        files = {name: (place / name).read_bytes() for name in manifest["sha256"]}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"the checkpoint {place} is damaged: {error}.") from error
    if manifest.get("format") != FORMAT:
        raise CheckpointError(
            f"the checkpoint {place} has format {manifest.get('format')}, not {FORMAT}."
        )
    for name, content in files.items():
        if hashlib.sha256(content).hexdigest() != manifest["sha256"][name]:
            raise CheckpointError(
                f"the checkpoint {place} is damaged: {name} does not have the sha256 it was "
                "written with."
            )
    state = torch.load(io.BytesIO(files.pop("state.pt")), map_location="cpu", weights_only=True)
    weights = {name.removesuffix(".safetensors"): load(files[name]) for name in files}
    return Checkpoint(weights, state)


def clear_unfinished(folder: Path) -> None:
    """Remove what a killed process was writing."""
    for unfinished in folder.glob(f".{PREFIX}*"):
        shutil.rmtree(unfinished)


def _places(folder: Path) -> list[Path]:
    """Checkpoints, the oldest first."""
    return sorted(folder.glob(f"{PREFIX}*"))


def _remove(place: Path) -> None:
    """Remove a folder; renamed first, so that no half of it is ever taken for a checkpoint."""
    if place.exists():
        doomed = place.with_name(f".{place.name.removeprefix('.')}.old")
        if doomed.exists():
            shutil.rmtree(doomed)
        place.rename(doomed)
        shutil.rmtree(doomed)


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":  # Windows has no such call, and orders its renames itself
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

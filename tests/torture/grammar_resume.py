"""Folders of stopped trainings whose newest checkpoint was changed, and signed again."""

import hashlib
import io
import json
import random
from functools import cache
from typing import Any

import torch
from cases import Case
from damage import damaged_bytes, damaged_files, damaged_tree
from grammar_saved import damaged_tensors, scaled
from torch import distributed
from trainings import Kind, stopped

KINDS: tuple[Kind, ...] = ("run", "population", "divided")


@cache
def folder(kind: Kind) -> dict[str, bytes]:
    """The files of a training of this kind that was stopped after two checkpoints."""
    return stopped(kind)


@cache
def kinds() -> tuple[Kind, ...]:
    """The kinds of training that there are here: PyTorch may be built without gloo."""
    return KINDS if distributed.is_gloo_available() else KINDS[:-1]


def resume_case(chance: random.Random) -> Case:
    """A stopped training; in two thirds of the cases its newest checkpoint was changed."""
    kind = chance.choice(kinds())
    files = dict(folder(kind))
    newest = max(name.rpartition("/")[0] for name in files if name.endswith("state.pt"))
    own = {name: files.pop(name) for name in list(files) if name.startswith(f"{newest}/")}
    what = chance.random()
    damaged = what < 0.6
    if what < 0.1:
        own = damaged_files(chance, own)
    elif damaged:
        name = chance.choice([name for name in own if not name.endswith(".json")])
        own[name] = _changed(chance, name, own[name])
        own = _signed(own, f"{newest}/manifest.json")
    elif chance.random() < 0.5:  # other weights, which are read
        names = [name for name in own if name.endswith("model.safetensors")]
        own |= {name: scaled(chance, own[name], "") for name in names}
        own = _signed(own, f"{newest}/manifest.json")
    files |= own
    if what < 0.05:  # nothing to fall back on
        before = newest.rpartition("/")[0]
        files = {
            name: content
            for name, content in files.items()
            if not name.startswith(f"{before}/step-") or name in own
        }
    options = {"kind": kind, "intact": what >= 0.05}
    return Case("resume", files, options, 30_000_000, damaged)


def _changed(chance: random.Random, name: str, content: bytes) -> bytes:
    if name.endswith(".safetensors"):
        return damaged_tensors(chance, content)
    if chance.random() < 0.2:
        return damaged_bytes(chance, content)
    state = torch.load(io.BytesIO(content), weights_only=True)
    buffer = io.BytesIO()
    torch.save(_other_tensor(chance, damaged_tree(chance, state)), buffer)
    return buffer.getvalue()


def _other_tensor(chance: random.Random, tree: Any) -> Any:
    """The tree, in half of the cases with one of its tensors changed."""
    places = [path for path, leaf in _leaves(tree) if isinstance(leaf, torch.Tensor)]
    if not places or chance.random() < 0.5:
        return tree
    *path, last = chance.choice(places)
    parent = tree
    for key in path:
        parent = parent[key]
    own = parent[last]
    others = (
        own.reshape(-1)[: chance.randrange(own.numel() + 1)].clone(),
        own.to(chance.choice((torch.float64, torch.int64, torch.uint8, torch.bool))),
        torch.full_like(own, chance.choice((0, 1, 100))),
        own[None].clone(),
        torch.zeros(0),
        torch.zeros(3, 5000),
    )
    parent[last] = chance.choice(others)
    return tree


def _leaves(tree: Any, at: tuple[Any, ...] = ()) -> Any:
    if isinstance(tree, dict | list):
        for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
            yield from _leaves(value, (*at, key))
    else:
        yield at, tree


def _signed(files: dict[str, bytes], place: str) -> dict[str, bytes]:
    manifest = json.loads(files[place])
    for name, content in files.items():
        if name != place:
            manifest["sha256"][name.rpartition("/")[2]] = hashlib.sha256(content).hexdigest()
    return {**files, place: json.dumps(manifest).encode()}

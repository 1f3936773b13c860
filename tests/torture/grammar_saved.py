"""Saved models, checkpoints and ``run.json`` that are mostly valid, signed again after a change."""

import hashlib
import io
import json
import random
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import torch
from cases import Case
from damage import damaged_bytes, damaged_files, damaged_tree
from safetensors.torch import load, save

from dessl.recipes import Predictor
from dessl.recipes.architecture import Architecture
from dessl.saved import SETTINGS, WEIGHTS, SavedModel, save_model

CORPUS = sorted(path.parent for path in Path(__file__).parents[1].glob("corpus/*/expected.json"))[
    -1
]
DTYPES = (torch.float32, torch.float64, torch.int64, torch.uint8, torch.bfloat16, torch.bool)
Tensors = dict[str, torch.Tensor]


@cache
def models() -> tuple[tuple[bytes, Any], ...]:
    """Weights and settings of models to begin with: those of the corpus, and small networks."""
    found = [
        ((place.parent / WEIGHTS).read_bytes(), json.loads(place.read_bytes()))
        for place in sorted(CORPUS.rglob(SETTINGS))
        if (place.parent / WEIGHTS).exists()
    ]
    options: tuple[tuple[str, dict[str, Any], tuple[int, ...]], ...] = (
        ("mlp", {"n_features": 3, "hidden": [4]}, (3,)),
        ("mlp", {"n_features": 1, "hidden": []}, (1,)),
        ("mlp", {"n_features": 2, "hidden": [5, 5], "dropout": 0.5}, (2,)),
        ("lenet", {"in_channels": 1, "size": (8, 8)}, (1, 8, 8)),
    )
    for (name, own, shape), classes in ((one, k) for one in options for k in (2, 3)):
        architecture = Architecture(name, {**own, "n_classes": classes})
        wide = (shape[0], *(1 for _ in shape[1:]))
        members = [architecture() for _ in range(classes - 1)]
        predictor = Predictor(members, torch.zeros(wide), torch.ones(wide))
        names = tuple("abc"[:classes])
        saved = SavedModel(predictor, names, shape, len(shape) == 3, architecture)
        with tempfile.TemporaryDirectory() as folder:
            place = save_model(Path(folder) / "model", saved)
            settings = json.loads((place / SETTINGS).read_bytes())
            found.append(((place / WEIGHTS).read_bytes(), settings))
    return tuple(found)


def model_case(chance: random.Random) -> Case:
    """A saved model, damaged in two fifths of the cases."""
    weights, settings = chance.choice(models())
    kind = chance.random()
    damaged = kind < 0.4
    if kind < 0.08:
        files = {WEIGHTS: weights, SETTINGS: json.dumps(settings).encode()}
        return Case("model", damaged_files(chance, files), {}, 20 * len(weights), True)
    if kind < 0.26:
        settings = damaged_tree(chance, settings)
        if chance.random() < 0.1:
            settings = damaged_tree(chance, settings)
    elif damaged:
        weights = damaged_tensors(chance, weights)
    else:
        settings = {**settings, "details": {**settings["details"], "note": chance.random()}}
        weights = scaled(chance, weights)
    if isinstance(settings, dict) and "sha256" in settings:
        settings = {**settings, "sha256": hashlib.sha256(weights).hexdigest()}
    files = {WEIGHTS: weights, SETTINGS: _dumped(chance, settings)}
    return Case("model", files, {}, 20 * len(weights), damaged)


def estimator_case(chance: random.Random) -> Case:
    """A saved estimator, or the model of a run, damaged in what only an estimator reads."""
    place = CORPUS / chance.choice(("estimator", "estimator", "fit/model"))
    files = {name: (place / name).read_bytes() for name in (WEIGHTS, SETTINGS)}
    settings = json.loads(files[SETTINGS])
    damaged = chance.random() < 0.4
    if damaged:
        settings["details"] = damaged_tree(chance, settings["details"])
    elif "params" in settings["details"]:
        settings["details"]["params"]["random_state"] = chance.randrange(2**31)
    files[SETTINGS] = _dumped(chance, settings)
    return Case("estimator", files, {}, 20 * len(files[WEIGHTS]), damaged)


def _dumped(chance: random.Random, entries: Any) -> bytes:
    text = json.dumps(entries, indent=chance.choice((None, 1)))
    return text.encode(errors="replace")


def scaled(chance: random.Random, weights: bytes, prefix: str = "members.") -> bytes:
    """Weights with those of networks made a little smaller or larger."""
    scale = chance.choice((0.5, 0.9, 1.0, 1.1))
    tensors = load(weights)
    for name, tensor in tensors.items():
        if name.startswith(prefix) and tensor.dtype == torch.float32:
            tensors[name] = tensor * scale
    return save(tensors)


def damaged_tensors(chance: random.Random, weights: bytes) -> bytes:
    """Weights of which one tensor was removed, renamed, replaced or changed."""
    if not (tensors := load(weights)):
        return damaged_bytes(chance, weights)
    name, other = chance.choice(sorted(tensors)), chance.choice(sorted(tensors))
    part, kind = tensors[name], chance.randrange(8)
    if kind == 0:
        del tensors[name]
    elif kind == 1:
        tensors[chance.choice((f"{name}x", "pool.x", "taught.x", "", "é"))] = tensors.pop(name)
    elif kind == 2:
        tensors[name] = tensors[other].clone()
    elif kind == 3:
        tensors[name] = part.reshape(-1)[: chance.randrange(part.numel() + 1)].clone()
    elif kind == 4:
        tensors[name] = part.to(chance.choice(DTYPES))
    elif kind == 5:
        tensors[name] = torch.full_like(part, chance.choice((0, 1, 100)))
    elif kind == 6 and part.is_floating_point():
        tensors[name] = torch.full_like(part, chance.choice((float("nan"), float("inf"), 3e38)))
    else:
        return damaged_bytes(chance, save(tensors))
    return save({key: value.contiguous() for key, value in tensors.items()})


@cache
def checkpoints() -> tuple[dict[str, bytes], ...]:
    """The files of each checkpoint of the corpus."""
    return tuple(
        {file.name: file.read_bytes() for file in sorted(place.iterdir())}
        for place in sorted(CORPUS.rglob("step-*"))
    )


def checkpoint_case(chance: random.Random) -> Case:
    """A checkpoint, damaged in two fifths of the cases and often signed again."""
    files = dict(chance.choice(checkpoints()))
    manifest = json.loads(files["manifest.json"])
    size = sum(map(len, files.values()))
    kind = chance.random()
    damaged = kind < 0.4
    if kind < 0.1:
        return Case("checkpoint", damaged_files(chance, files), {}, 20 * size, True)
    if kind < 0.2:
        manifest = damaged_tree(chance, manifest)
    elif kind < 0.4:
        name = chance.choice([name for name in files if name != "manifest.json"])
        files[name] = (
            _other_state(chance) if chance.random() < 0.5 else damaged_bytes(chance, files[name])
        )
        manifest["sha256"][name] = hashlib.sha256(files[name]).hexdigest()
    else:  # other weights, signed
        name = chance.choice([name for name in files if name.endswith(".safetensors")])
        files[name] = scaled(chance, files[name], "")
        manifest["sha256"][name] = hashlib.sha256(files[name]).hexdigest()
    files["manifest.json"] = _dumped(chance, manifest)
    return Case("checkpoint", files, {}, 20 * size, damaged)


def _other_state(chance: random.Random) -> bytes:
    buffer = io.BytesIO()
    what = chance.choice(([], {}, {"step": "x"}, torch.zeros(2), 5, "text", {"a": {"b": None}}))
    torch.save(what, buffer)
    return buffer.getvalue()


@cache
def identity() -> dict[str, Any]:
    """The ``run.json`` of the corpus."""
    found: dict[str, Any] = json.loads((CORPUS / "checkpoint" / "run.json").read_bytes())
    return found


def run_case(chance: random.Random) -> Case:
    """The ``run.json`` of a folder beside the run that is wanted, damaged in two fifths."""
    plan = {**identity()["plan"], "seed": chance.randrange(2**40), "lam": chance.random()}
    wanted = {**identity(), "plan": plan}
    there: Any = {**wanted, "dessl": chance.choice(("0.1", "9.9.9", "x"))}
    damaged = chance.random() < 0.4
    if damaged:
        there = damaged_tree(chance, there)
    content = _dumped(chance, there)
    if damaged and chance.random() < 0.3:
        content = damaged_bytes(chance, content)
    return Case("run", {"run.json": content}, {"wanted": wanted}, 20 * len(content), damaged)

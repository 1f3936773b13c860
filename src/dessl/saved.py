"""Saved models: a folder of weights and settings, written atomically and without pickle.

model.safetensors   the weights, the scaling of the inputs, and the arrays of a pool's teachers
settings.json       the networks, the pool, the classes, the inputs, and how the model was trained

Sizes in the settings are compared with the tensors before a network is built.
"""

import hashlib
import json
import math
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dessl import _checks
from dessl._files import neighbour, write_through
from dessl._version import __version__
from dessl.data import DataError
from dessl.data.features import feature_tensor
from dessl.data.formats.encoding import TableEncoding
from dessl.models import MODELS
from dessl.recipes.architecture import Architecture
from dessl.recipes.predictor import (
    AnyPredictor,
    PooledPredictor,
    Predictor,
    TaughtPredictor,
    predicted_log_proba,
)
from dessl.teachers import NetworkSetting, Pooled, State, Taught
from dessl.teachers.patches import Patches
from dessl.teachers.rows import columns_of

FORMAT = 2
WEIGHTS, SETTINGS = "model.safetensors", "settings.json"
DAMAGED = "Restore it from a copy, or train again into another folder."
MOST_VALUES = 2**28  # of a row: 256 MiB as bytes
KEYS = {
    "format", "versions", "architecture", "members", "pool", "taught", "input", "class_names",
    "encoding", "details", "sha256",
}  # fmt: skip
POOL, TAUGHT = "pool.", "taught."  # before the names of a pool's, or a student's, tensors


class SavedModelError(ValueError):
    """A folder that is not a saved model, or is damaged."""


@dataclass(frozen=True)
class SavedModel:
    """A trained classifier with everything needed to use it.

    Attributes:
        model: Maps unencoded rows of the data to log-probabilities.
        class_names: The classes in order.
        shape: The shape of one row: (features,) or (channels, height, width).
        image: Whether rows are uint8 images.
        architecture: Architecture of the networks; None for the user's own network.
        encoding: How tables become rows, if the model was trained on a table.
        bits: How many bits the values of 16-bit image files had in training; rows keep the upper
            8.
        details: Other information, such as λ and the plan; only types that JSON has.
    """

    model: AnyPredictor
    class_names: tuple[str, ...]
    shape: tuple[int, ...]
    image: bool
    architecture: Architecture | None = None
    encoding: TableEncoding | None = None
    bits: int = 8
    details: Mapping[str, Any] = field(default_factory=dict)

    def predict_proba(self, x: "Tensor | NDArray[Any]", teachers: Any = None) -> Tensor:
        """Return probabilities (n, classes) of rows as they were in training, float64.

        Args:
            x: Floats (n, features), or uint8 images (n, channels, height, width), (n, height,
                width, channels) or (n, height, width).
            teachers: Answers to these rows, for a model that was trained to use them.
        """
        rows = feature_tensor("x", x)
        if tuple(rows.shape[1:]) != self.shape or (rows.dtype == torch.uint8) != self.image:
            kind = "uint8 images" if self.image else "float rows"
            raise ValueError(
                f"this model expects {kind} of shape {self.shape}; got {rows.dtype} of shape "
                f"{tuple(rows.shape[1:])}."
            )
        if teachers is not None:
            if not isinstance(self.model, TaughtPredictor):
                raise ValueError(
                    "teachers' answers can only be used by a model trained with "
                    "at_prediction=True; this one was not. Omit them."
                )
            return self.model.taught.predict_log_proba(rows, teachers).exp()
        # In float64 a row's prediction does not depend on the other rows of the batch.
        model = self.model if self.image else self.model.in_float64()
        return predicted_log_proba(model, rows).softmax(-1)


def save_model(path: str | Path, saved: SavedModel) -> Path:
    """Save a model as a new folder, which appears complete or not at all.

    Raises:
        FileExistsError: The folder exists.
        TypeError: The pool has a classifier of the user's own, which would need pickle.

    >>> import tempfile
    >>> architecture = Architecture("mlp", {"n_features": 2, "n_classes": 2, "hidden": [4]})
    >>> model = Predictor([architecture()], torch.zeros(2), torch.ones(2))
    >>> saved = SavedModel(model, ("no", "yes"), (2,), image=False, architecture=architecture)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     place = save_model(Path(folder) / "model", saved)
    ...     again = load_model(place)
    >>> bool((again.predict_proba(torch.eye(2)) == saved.predict_proba(torch.eye(2))).all())
    True
    """
    from safetensors.torch import save

    place = Path(path)
    taken = FileExistsError(f"{place} already exists. Choose another name, or remove it first.")
    if os.path.lexists(place):
        raise taken
    _check_classes(saved)
    tensors, pool, taught = _parts(saved.model)
    weights = save({k: v.detach().cpu().clone().contiguous() for k, v in tensors.items()})
    entries = _settings(saved, weights) | {"pool": pool, "taught": taught}
    settings = json.dumps(entries, indent=1, allow_nan=False) + "\n"
    place.parent.mkdir(parents=True, exist_ok=True)
    unfinished = neighbour(place)
    try:
        unfinished.mkdir()
        for name, content in ((WEIGHTS, weights), (SETTINGS, settings.encode())):
            write_through(unfinished / name, content, final=place / name)
        try:
            unfinished.rename(place)
        except OSError as error:
            raise (taken if os.path.lexists(place) else error) from error
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    return place


Entries = dict[str, Any]


def _parts(model: AnyPredictor) -> tuple[dict[str, Tensor], Entries | None, Entries | None]:
    """All tensors, the settings of a pool and those of a taught student."""
    if isinstance(model, TaughtPredictor):
        taught = model.taught.state()
        return {TAUGHT + k: part for k, part in taught.tensors.items()}, None, taught.settings
    if isinstance(model, Predictor):
        return model.state_dict(), None, None
    pool = model.pool.state()
    tensors = model.networks.state_dict() | {POOL + k: part for k, part in pool.tensors.items()}
    return tensors, pool.settings, None


def load_model(path: str | Path, *, module: Callable[[], nn.Module] | None = None) -> SavedModel:
    """Load a saved model; reject damaged ones and other formats.

    Args:
        path: The folder.
        module: A function that builds the network, if it was the user's own.

    Raises:
        FileNotFoundError: The folder does not exist.
        SavedModelError: It is not a saved model, or is incomplete.
    """
    place = Path(path)
    settings, weights = _read(place)
    try:
        architecture = _architecture(settings["architecture"])
        encoding, entries = settings["encoding"], settings["input"]
        shape = tuple(_checks.whole_number("shape", n, low=1) for n in entries["shape"])
        if math.prod(shape) > MOST_VALUES:  # a row of zeros is tried below
            raise ValueError(f"its rows have {math.prod(shape):,} values")
        saved = SavedModel(
            model=_model(settings, weights, module or architecture),
            class_names=tuple(settings["class_names"]),
            shape=shape,
            image=entries["kind"] == "image",
            architecture=architecture,
            encoding=encoding and TableEncoding.from_dict(encoding, source=place / SETTINGS),
            bits=_checks.whole_number("bits", entries["bits"], low=8, high=16),
            details=dict(settings["details"]),
        )
        _check_classes(saved)
    except (LookupError, TypeError, ValueError, AttributeError, RuntimeError) as error:
        if isinstance(error, SavedModelError | DataError):
            raise
        raise SavedModelError(
            f"the model in {place} cannot be loaded: {str(error).rstrip('.')}. Train "
            "and save it again."
        ) from error
    return saved


def _check_classes(saved: SavedModel) -> None:
    names, built_in = saved.class_names, saved.architecture
    if not all(isinstance(name, str) for name in names):
        raise TypeError("its class names are not all text")
    if len(set(names)) < len(names):
        raise ValueError(f"its class names must differ from each other; got {names}")
    if built_in and built_in.options["n_classes"] != len(names):
        raise ValueError(
            f"its network does not have {len(names)} classes; got "
            f"{built_in.options['n_classes']}. Name as many classes as it has"
        )


def _settings(saved: SavedModel, weights: bytes) -> dict[str, Any]:
    built_in, kind = saved.architecture, "image" if saved.image else "rows"
    return {
        "format": FORMAT,
        "versions": {"dessl": __version__, "torch": str(torch.__version__)},
        "architecture": built_in and {"name": built_in.name, "options": built_in.options},
        "members": 0 if isinstance(saved.model, TaughtPredictor) else len(saved.model.members),
        "input": {"kind": kind, "shape": list(saved.shape), "bits": saved.bits},
        "class_names": list(saved.class_names),
        "encoding": saved.encoding and saved.encoding.as_dict(),
        "details": dict(saved.details),
        "sha256": hashlib.sha256(weights).hexdigest(),
    }


def _read(place: Path) -> tuple[dict[str, Any], bytes]:
    if not place.is_dir():
        raise FileNotFoundError(f"no saved model was found at {place}: it must be a folder.")
    lacking = [name for name in (SETTINGS, WEIGHTS) if not (place / name).is_file()]
    if lacking:  # or a pipe, whose end may never come
        raise SavedModelError(
            f"{place} is not a complete saved model: the file {lacking[0]} is missing. {DAMAGED}"
        )
    try:
        settings = json.loads((place / SETTINGS).read_bytes())
        weights = (place / WEIGHTS).read_bytes()
    except (OSError, ValueError, RecursionError) as error:
        why = f"is not a complete saved model: {error}. {DAMAGED}"
        raise SavedModelError(f"{place} {why}") from error
    if not isinstance(settings, dict) or settings.get("format") != FORMAT:
        got = settings.get("format") if isinstance(settings, dict) else type(settings).__name__
        raise SavedModelError(
            f"{place / SETTINGS} must have format {FORMAT}; got {got!r}. It was written by another "
            "version of dessl, or by something else."
        )
    if set(settings) != KEYS:
        odd = sorted(set(settings) ^ KEYS)
        raise SavedModelError(
            f"{place / SETTINGS} has missing or unknown entries: {', '.join(odd)}."
        )
    if hashlib.sha256(weights).hexdigest() != settings["sha256"]:
        raise SavedModelError(
            f"{place / WEIGHTS} is damaged: it does not have the sha256 it was written with. "
            "Copy the folder again, or train again."
        )
    return settings, weights


def _architecture(entries: Any) -> Architecture | None:
    if entries is None:
        return None
    if entries["name"] not in MODELS:
        raise ValueError(f"its network {entries['name']!r} is not one of dessl.MODELS")
    return Architecture(entries["name"], dict(entries["options"]))


def _model(
    settings: Mapping[str, Any], weights: bytes, build: Callable[[], nn.Module] | None
) -> AnyPredictor:
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        tensors = load(weights)  # which checks every size in its header against the file
    except SafetensorError as error:
        raise ValueError(f"its weights are not a safetensors file ({error})") from error
    taught, pool = (_taken(tensors, prefix) for prefix in (TAUGHT, POOL))
    if taught or settings["taught"] is not None:
        return _student(State(taught, settings["taught"]), settings)
    if build is None:
        raise SavedModelError(
            "this model uses your own network. Pass module=, a function that builds it."
        )
    _check_sizes(settings, tensors, build)
    with torch.random.fork_rng(devices=[]):  # the weights drawn here are thrown away
        members = [build() for _ in range(settings["members"])]
    doubt = _doubt(tensors, len(settings["class_names"]))
    parts = (tensors["mean"], tensors["std"], doubt, _reduced_to(tensors))
    model = Predictor(members, *parts)
    model.load_state_dict(tensors)
    if settings["pool"] is None and not pool:
        return model
    return _pooled(model, State(pool, settings["pool"]), settings)


def _doubt(tensors: Mapping[str, Tensor], classes: int) -> float | Tensor:
    """The shares mixed into the networks' probabilities (``doubt``); 0 if none."""
    doubt = tensors.get("doubt")
    if doubt is None:
        return 0.0
    known = doubt.shape in ((), (classes,)) and bool((doubt > 0).all()) and float(doubt.sum()) < 1
    if not known:
        raise ValueError("its doubt is not a number between 0 and 1, nor a part for each class")
    return doubt


def _reduced_to(tensors: Mapping[str, Tensor]) -> int | None:
    """Longest side of the images that the networks see; None if they see every pixel."""
    longest = tensors.get("longest")
    if longest is None:
        return None
    if longest.numel() != 1 or longest.is_floating_point() or not 0 < int(longest) < 2**16:
        raise ValueError("the side that its images are reduced to is not a number of pixels")
    return int(longest)


def _taken(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Remove the tensors with a prefix, and return them without the prefix."""
    names = [name for name in tensors if name.startswith(prefix)]
    return {name.removeprefix(prefix): tensors.pop(name) for name in names}


def _check_sizes(
    settings: Mapping[str, Any], tensors: Mapping[str, Tensor], build: Callable[[], nn.Module]
) -> None:
    """Reject networks whose sizes differ from the weights, before allocating memory."""
    _numbers(tensors, "members", settings["members"], "networks")
    if isinstance(build, Architecture):  # not the user's own function, which no file can change
        _check_shapes(build, tensors, "members.0.")


def _numbers(tensors: Mapping[str, Tensor], group: str, count: int, what: str) -> set[str]:
    """The numbers of a group's networks among the weights; reject another count than stated."""
    found = {name.split(".")[1] for name in tensors if name.startswith(f"{group}.")}
    if count != len(found):
        raise ValueError(f"its settings have {count} {what}, its weights {len(found)}")
    return found


def _check_shapes(
    build: Callable[[], nn.Module], tensors: Mapping[str, Tensor], prefix: str
) -> None:
    """Reject weights whose shapes differ from the network's, built on the meta device."""
    with torch.device("meta"):
        wanted = {prefix + name: part.shape for name, part in build().state_dict().items()}
    found = {name: part.shape for name, part in tensors.items() if name.startswith(prefix)}
    if wanted != found:
        odd = sorted(name for name in wanted | found if wanted.get(name) != found.get(name))
        raise ValueError(f"its network and its weights differ in {', '.join(odd[:3])}")


def _student(state: State, settings: Mapping[str, Any]) -> TaughtPredictor:
    """Rebuild a student, after comparing its networks with their weights, and try one row."""
    tensors, entries = state
    setting = NetworkSetting.from_dict(entries["networks"])
    width = tensors["space.directions"].shape[1] or len(tensors["space.mean"])
    classes = len(settings["class_names"])
    for group, count in entries["counts"].items():
        for number in _numbers(tensors, group, count, group):
            _check_shapes(lambda: setting.network(width, classes), tensors, f"{group}.{number}.")
    student = TaughtPredictor(Taught.from_state(state))
    if list(settings["class_names"]) != list(student.taught.class_names):
        raise ValueError("its student has different classes")
    _check_answer(student, settings, len(tensors["space.mean"]))
    return student


def _check_answer(model: AnyPredictor, settings: Mapping[str, Any], columns: int) -> None:
    """Reject a model that does not predict one number for each class on a row of zeros."""
    entries = settings["input"]
    if math.prod(entries["shape"]) != columns:
        raise ValueError(f"it reads {columns} columns and its rows have shape {entries['shape']}")
    dtype = torch.uint8 if entries["kind"] == "image" else torch.float32
    answer = predicted_log_proba(model, torch.zeros(1, *entries["shape"], dtype=dtype))
    if answer.shape != (1, len(settings["class_names"])) or not bool(torch.isfinite(answer).all()):
        raise ValueError("it does not return a probability for each class")


def _pooled(model: Predictor, state: State, settings: Mapping[str, Any]) -> PooledPredictor:
    """Rebuild a pool around the networks, and try one row."""
    shape = settings["input"]["shape"]
    columns = columns_of(shape)
    if state.settings.get("on_features"):
        columns = model.features(torch.zeros(1, *shape, dtype=torch.uint8)).shape[1]
    elif patches := Patches.from_state(state.tensors):
        columns = patches.directions.shape[1]
    for name, part in state.tensors.items():
        if name.endswith("space.mean") and part.numel() != columns:
            raise ValueError(f"its pool reads {part.numel()} columns and its rows have {columns}")
    pool = PooledPredictor(model, Pooled.from_state(state, model))
    _check_answer(pool, settings, math.prod(shape))
    return pool

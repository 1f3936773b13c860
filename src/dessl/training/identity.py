"""The identity of a run: what of its data, surrogate and model must match to resume.

A function, such as your own H or a view, is identified by its code, its defaults and the values it
has captured; a view that is an object, by its class and its settings. The code is compiled, so it
is compared only under the same version of Python. Functions that it calls are not included.
"""

import dis
import hashlib
import random
import re
import sys
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import suppress
from functools import partial
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dessl._version import __version__
from dessl.data import SemiData
from dessl.functional import cross_entropy
from dessl.objective import Loss
from dessl.surrogates.base import Surrogate
from dessl.training.checkpoint import FORMAT
from dessl.training.sharded import is_wrapped

DEEPEST = 6  # levels of captured values
MOST_ENTRIES = 2**20  # of a captured tensor or array: a function may have captured all data
NOT_PLAIN = {*vars(nn.Module()), "_seed", "_generator", "_views"}  # Combine's: from each pass
STATES: dict[type, Callable[[Any], object]] = {  # of generators; SystemRandom, a subclass, has none
    torch.Generator: lambda generator: generator.get_state(),
    random.Random: lambda generator: generator.getstate(),
    np.random.Generator: lambda generator: generator.bit_generator.state,
    np.random.RandomState: lambda generator: generator.get_state(legacy=False),
}
PLAIN = (bool, int, float, str, bytes, type(None), torch.dtype)


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


def parts_identity(
    surrogate: Surrogate, model: nn.Module, loss: Loss = cross_entropy
) -> dict[str, Any]:
    """Return the identity of a surrogate, with its views and functions, of a model and of L.

    A model is identified by its class, its size and its repr, without memory addresses.
    """
    functions = [_functions(part) for part in surrogate.parts()]
    if loss is not cross_entropy:  # so that runs from before L could be chosen can be resumed
        functions.append(_text_of(loss, DEEPEST))
    printed = without_addresses(repr(model))
    name = type(model).__name__
    if is_wrapped(model):  # PyTorch has put FSDP or DDP before the names of classes
        printed = re.sub(r"\b(?:FSDP|DDP)(?=\w+\()", "", printed)
        name = re.sub("^(?:FSDP|DDP)", "", name)
    return {
        "surrogate": " of ".join(_described(part) for part in surrogate.parts()),
        "model": name,
        "model_repr_sha256": _sha256(printed),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "functions_sha256": _sha256("; ".join(functions)),
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "dessl": __version__,
        "format": FORMAT,
    }


def plain_attributes(surrogate: Surrogate) -> dict[str, str]:
    """Return a text of each attribute that ``state_dict`` leaves out, by the term's name and its.

    Of dessl's own terms, only of functions and views that they were given.

    >>> from dessl.surrogates import Entropy
    >>> sorted(plain_attributes(Entropy()))
    ['Entropy.view']
    """
    found = {}
    for part in surrogate.parts():
        if type(part).get_extra_state is not Surrogate.get_extra_state:  # it saves its own
            continue
        ours = type(part).__module__.startswith("dessl.")
        for name, value in vars(part).items():
            if name not in NOT_PLAIN and (callable(value) or not ours):
                found[f"{type(part).__name__}.{name}"] = _text_of(value, DEEPEST, drawn=True)
    return found


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


def _functions(surrogate: Surrogate) -> str:
    """One surrogate's functions and settings that are not plain numbers or text.

    Of a surrogate that changes after each step, only functions: anything else may be its state.
    """
    found = {
        name: value
        for name, value in sorted(vars(surrogate).items())
        if not name.startswith("_") and (callable(value) or not surrogate.moves)
    }
    return f"{type(surrogate).__name__}: {_text_of(found, DEEPEST)}"


def _text_of(value: object, depth: int, *, drawn: bool = False) -> str:
    """A text that differs if a value does; of objects nested too deeply, only the class.

    ``drawn`` says whether it differs too if more was drawn from a generator of random numbers.
    """
    text = partial(_text_of, drawn=drawn)
    if isinstance(value, PLAIN):
        return repr(value)
    if isinstance(value, Tensor) and value.layout is not torch.strided:
        sparse = value.detach().to_sparse().coalesce()
        parts = (text(part, depth) for part in (sparse.indices(), sparse.values()))
        return f"sparse {tuple(value.shape)} {' '.join(parts)}"
    if isinstance(value, Tensor):
        entries = sha256_of(value.detach().reshape(-1)[:MOST_ENTRIES])
        return f"tensor {tuple(value.shape)} {value.dtype} {entries}"
    if isinstance(value, np.ndarray):
        entries = _sha256(value.reshape(-1)[:MOST_ENTRIES].tobytes())
        return f"array {value.shape} {value.dtype} {entries}"
    if isinstance(value, type | torch.device) or depth == 0:  # ranks have different devices
        kind = value if isinstance(value, type) else type(value)
        return f"{kind.__module__}.{kind.__qualname__}"
    if isinstance(value, nn.Module):
        return without_addresses(repr(value))
    if isinstance(value, Set):
        return f"set {sorted(text(part, depth - 1) for part in value)}"
    if isinstance(value, CodeType):
        consts = text(value.co_consts, depth)
        return f"code {value.co_code.hex()} {value.co_names} {consts}"
    if drawn and type(value) in STATES:
        return text(STATES[type(value)](value), DEEPEST)
    name, named = _parts_of(value)
    return f"{name} {[(str(key), text(part, depth - 1)) for key, part in named.items()]}"


def _parts_of(value: object) -> tuple[str, Mapping[Any, object]]:
    """The kind of a collection, a function or an object, and its parts."""
    parts: Mapping[Any, object]
    if isinstance(value, FunctionType):
        name = f"{value.__module__}.{value.__qualname__}"
        parts = {"defaults": (value.__defaults__, value.__kwdefaults__), **_captured(value)}
        if value.__module__ != "dessl" and not value.__module__.startswith("dessl."):
            parts["code"] = value.__code__
    elif isinstance(value, MethodType):
        name, parts = "method", {"of": value.__self__, "function": value.__func__}
    elif isinstance(value, BuiltinFunctionType):
        owner = None if isinstance(value.__self__, ModuleType) else value.__self__
        name, parts = f"builtin {value.__qualname__}", {"of": owner}
    elif isinstance(value, partial):
        name, parts = "partial", {"f": value.func, "args": value.args, "more": value.keywords}
    elif isinstance(value, Mapping):
        name, parts = "mapping", value
    elif isinstance(value, Sequence):
        name, parts = "sequence", dict(enumerate(value))
    else:
        kind = type(value)
        name, parts = f"{kind.__module__}.{kind.__qualname__}", getattr(value, "__dict__", {})
    return name, parts


def _captured(function: FunctionType) -> dict[str, object]:
    """The values that a function has captured, without those that it changes, such as a counter."""
    code, found = function.__code__, {}
    changed = {one.argval for one in dis.get_instructions(code) if one.opname == "STORE_DEREF"}
    for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
        if name not in changed:
            with suppress(ValueError):  # the variable has no value yet
                found[name] = cell.cell_contents
    return found


def without_addresses(text: str) -> str:
    """A repr without the addresses of objects, which differ from run to run.

    >>> without_addresses("<function f at 0x7f12>")
    '<function f at >'
    """
    return re.sub(r"\b0x[0-9a-fA-F]+", "", text)


def _sha256(text: str | bytes) -> str:
    return hashlib.sha256(text.encode() if isinstance(text, str) else text).hexdigest()

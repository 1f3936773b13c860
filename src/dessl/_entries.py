"""Dataclasses read back from what JSON holds, by their annotations."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

T = TypeVar("T")
Measured = Annotated[float, "null is NaN, and 'Infinity' is ∞"]
Numbers = Annotated[Any, "Measured, and lists and dicts of them, left as JSON has them"]


def read_as(kind: type[T], entries: Any) -> T:
    """The dataclass that ``dataclasses.asdict`` gave, after a trip through JSON.

    Args:
        kind: A dataclass of texts, numbers, dicts, dataclasses, and lists and tuples of them. A
            float is finite; :data:`Measured` is one that may be NaN or ∞.
        entries: A dict.

    Raises:
        TypeError: An entry is unknown, absent, or of the wrong kind.

    >>> @dataclasses.dataclass
    ... class Point:
    ...     name: str
    ...     at: tuple[Measured, ...]
    >>> read_as(Point, {"name": "a", "at": [1.5, None]})
    Point(name='a', at=(1.5, nan))
    >>> read_as(Point, {"name": "a", "att": []})
    Traceback (most recent call last):
    TypeError: Point has no entry 'att'
    """
    if not isinstance(entries, dict):
        raise TypeError(f"{type(entries).__name__} in place of {kind.__name__}")
    hints = get_type_hints(kind, include_extras=True)
    for name in entries:
        if name not in hints:
            raise TypeError(f"{kind.__name__} has no entry {name!r}")
    taken = {name: _value(hints[name], value, name) for name, value in entries.items()}
    absent = [name for name in _needed(kind) if name not in taken]
    if absent:
        raise TypeError(f"{kind.__name__} is missing {', '.join(absent)}")
    return kind(**taken)


def _needed(kind: Any) -> list[str]:
    none = dataclasses.MISSING
    return [
        one.name
        for one in dataclasses.fields(kind)
        if one.default is none and one.default_factory is none
    ]


def _value(hint: Any, value: Any, name: str) -> Any:
    if dataclasses.is_dataclass(hint):
        return read_as(hint, value)  # type: ignore[arg-type]
    origin, inner = get_origin(hint), get_args(hint)
    if hint is Any:
        return value
    if origin is Literal:
        if value not in inner:
            raise TypeError(f"{name} {value!r}")
        return value
    if origin in (tuple, list):
        return origin(_value(inner[0], entry, name) for entry in _of(list, value, name))
    if origin in (dict, Mapping):
        return {key: _value(inner[1], entry, name) for key, entry in _of(dict, value, name).items()}
    if hint in (float, Measured):
        return _number(value, name, finite=hint is float)
    if hint == Numbers:
        _check_numbers(value, name)
        return value
    return _of(hint, value, name)


def _number(value: Any, name: str, *, finite: bool) -> float:
    if not finite and (value is None or value in ("Infinity", "-Infinity")):
        return math.nan if value is None else float(value)
    number = float(_of((int, float), value, name))
    if finite and not math.isfinite(number):
        raise TypeError(f"{name} {value!r}")
    return number


def _check_numbers(value: Any, name: str) -> None:
    if isinstance(value, dict | list):
        for entry in value.values() if isinstance(value, dict) else value:
            _check_numbers(entry, name)
    else:
        _number(value, name, finite=False)


def _of(kind: Any, value: Any, name: str) -> Any:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise TypeError(f"{name} {value!r:.60}")
    return value

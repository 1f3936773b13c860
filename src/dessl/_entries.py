"""Dataclasses read back from what JSON holds, by their annotations."""

import dataclasses
import math
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

T = TypeVar("T")


def read_as(kind: type[T], entries: Any) -> T:
    """The dataclass that ``dataclasses.asdict`` gave, after a trip through JSON.

    Args:
        kind: A dataclass of texts, numbers, dicts, dataclasses, and lists and tuples of them.
        entries: A dict; null is NaN and "Infinity" is ∞ where a number belongs.

    Raises:
        TypeError: An entry is unknown, absent, or of the wrong kind.

    >>> @dataclasses.dataclass
    ... class Point:
    ...     name: str
    ...     at: tuple[float, ...]
    >>> read_as(Point, {"name": "a", "at": [1.5, None]})
    Point(name='a', at=(1.5, nan))
    >>> read_as(Point, {"name": "a", "att": []})
    Traceback (most recent call last):
    TypeError: Point has no entry 'att'
    """
    if not isinstance(entries, dict):
        raise TypeError(f"{type(entries).__name__} in place of {kind.__name__}")
    hints = get_type_hints(kind)
    for name in entries:
        if name not in hints:
            raise TypeError(f"{kind.__name__} has no entry {name!r}")
    return kind(**{name: _value(hints[name], value, name) for name, value in entries.items()})


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
    if origin is dict:
        return {key: _value(inner[1], entry, name) for key, entry in _of(dict, value, name).items()}
    if hint is float:
        if value is None or value in ("Infinity", "-Infinity"):
            return math.nan if value is None else float(value)
        return float(_of((int, float), value, name))
    return _of(hint, value, name)


def _of(kind: Any, value: Any, name: str) -> Any:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise TypeError(f"{name} {value!r:.60}")
    return value

"""Values for JSON, which has neither NaN nor ∞."""

import math
from collections.abc import Callable
from typing import Any


def json_ready(value: Any) -> Any:
    """Return dicts and lists with None for NaN, and "Infinity" or "-Infinity" for ∞.

    ``float("Infinity")`` restores the latter.

    >>> json_ready({"a": [math.nan, -math.inf], "b": (1, "text")})
    {'a': [None, '-Infinity'], 'b': [1, 'text']}
    """
    return _with_numbers(
        value, lambda x: None if math.isnan(x) else "Infinity" if x > 0 else "-Infinity"
    )


def finite(value: Any) -> Any:
    """Return dicts and lists with None for every number that is not finite.

    >>> finite({"a": [math.nan, -math.inf], "b": 0.5})
    {'a': [None, None], 'b': 0.5}
    """
    return _with_numbers(value, lambda _: None)


def _with_numbers(value: Any, instead: Callable[[float], Any]) -> Any:
    if isinstance(value, dict):
        return {key: _with_numbers(entry, instead) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_with_numbers(entry, instead) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return instead(value)
    return value

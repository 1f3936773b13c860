"""The one reader of TOML and JSON: dataclasses read by their annotations, checked at every depth.

An unknown, missing or wrongly typed entry raises an :class:`EntryError`, which names the file, the
path of the entry (``data[0].labels``), what was expected and what was found.
"""

import dataclasses
import difflib
import inspect
import math
import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    Protocol,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

T = TypeVar("T")
Measured = Annotated[float, "null is NaN, and 'Infinity' is ∞"]
Numbers = Annotated[Any, "Measured, and lists and dicts of them, left as JSON has them"]

WORDS = {
    bool: "true or false",
    int: "a whole number",
    float: "a finite number",
    str: "text",
    list: "a list",
    tuple: "a list",
    Sequence: "a list",
    dict: "a table",
    Mapping: "a table",
    NoneType: "null",
}


class EntryError(ValueError):
    """An entry of a file is unknown, missing or of the wrong type."""


class File(Protocol):
    """A file that can be read as text: a path, or a resource of a package."""

    @property
    def name(self) -> str: ...

    def read_text(self, encoding: str) -> str: ...


def read_toml(file: File) -> dict[str, Any]:
    """Read a TOML file.

    Raises:
        EntryError: It is not TOML; the message gives the line.
    """
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # what tomllib and the decoding of text raise
        raise EntryError(f"{file.name} must be TOML; got {error}.") from error


def read_as(kind: type[T], entries: Any, *, source: str = "", at: str = "") -> T:
    """Read a dataclass from the entries of a TOML or JSON file.

    This inverts ``dataclasses.asdict`` followed by a round trip through JSON.

    Args:
        kind: A dataclass of texts, numbers, dicts, dataclasses, and lists and tuples of them. A
            float is finite; :data:`Measured` is one that may be NaN or ∞.
        entries: A dict.
        source: The file, for errors.
        at: Path of the entries in it, for errors.

    Raises:
        EntryError: An entry is unknown, missing or of the wrong type.

    >>> @dataclasses.dataclass
    ... class Point:
    ...     name: str
    ...     at: tuple[Measured, ...]
    >>> read_as(Point, {"name": "a", "at": [1.5, None]})
    Point(name='a', at=(1.5, nan))
    >>> read_as(Point, {"name": "a", "att": []}, source="a.toml")
    Traceback (most recent call last):
    dessl._entries.EntryError: a.toml has no entry 'att'; did you mean 'at'?
    >>> read_as(Point, {"name": "a", "at": [1.5, "two"]}, source="a.toml")
    Traceback (most recent call last):
    dessl._entries.EntryError: a.toml: at[1] must be a number, null or 'Infinity'; got 'two'
    """
    hints = get_type_hints(kind, include_extras=True)
    fields = dataclasses.fields(kind)  # type: ignore[arg-type]
    none = dataclasses.MISSING
    needed = [one.name for one in fields if one.default is none and one.default_factory is none]
    place = _Place(source, at, kind.__name__)
    hints = {one.name: hints[one.name] for one in fields}
    return kind(**_checked(hints, needed, entries, place))


def check_call(
    function: Callable[..., object],
    entries: Any,
    *,
    given: Collection[str] = (),
    source: str = "",
    at: str = "",
) -> None:
    """Reject a table whose entries are not valid arguments of a function or class.

    Args:
        function: The function that the table will be passed to.
        entries: The table.
        given: Arguments that come from elsewhere and must not be in the table.
        source: The file, for errors.
        at: Path of the table in it, for errors.

    Raises:
        EntryError: An argument is unknown, missing or of the wrong type.

    >>> def view(*, flip: bool = True, shift: float = 0.125): ...
    >>> check_call(view, {"shift": 2})
    >>> check_call(view, {"flip": "no"}, source="a.toml", at="views.weak")
    Traceback (most recent call last):
    dessl._entries.EntryError: a.toml: views.weak.flip must be true or false; got 'no'
    """
    try:
        hints = get_type_hints(function.__init__ if inspect.isclass(function) else function)
    except NameError:  # an annotation that only a type checker can resolve
        hints = {}
    taken = [
        one
        for one in inspect.signature(function).parameters.values()
        if one.name not in given and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
    ]
    needed = [one.name for one in taken if one.default is one.empty]
    known = {one.name: hints.get(one.name, Any) for one in taken}
    _checked(known, needed, entries, _Place(source, at, getattr(function, "__name__", "it")))


def check_name(name: object, known: Collection[str], *, source: str = "", at: str = "") -> None:
    """Reject a name that is not known.

    >>> check_name("acuracy", ["accuracy", "brier"], at="metrics[0]")
    Traceback (most recent call last):
    dessl._entries.EntryError: metrics[0] must be one of 'accuracy', 'brier'; got 'acuracy'; did
        you mean 'accuracy'?
    """
    if name not in list(known):  # a list hashes nothing: a file may have a table here
        allowed = ", ".join(map(repr, known)) or "nothing"
        hint = _near(name, known)
        raise _Place(source, at, "the name").wrong(f"one of {allowed}", name, hint)


@dataclasses.dataclass(frozen=True)
class _Place:
    """The position of an entry: the file, the path in it, and what a whole file is called."""

    source: str
    at: str
    what: str

    def entry(self, name: str) -> "_Place":
        return dataclasses.replace(self, at=f"{self.at}.{name}" if self.at else name)

    def item(self, number: int) -> "_Place":
        return dataclasses.replace(self, at=f"{self.at}[{number}]")

    def __str__(self) -> str:
        parts = [part for part in (self.source, self.at) if part]
        return ": ".join(parts) or self.what

    def wrong(self, expected: str, value: object, hint: str = "") -> EntryError:
        return EntryError(f"{self} must be {expected}; got {value!r:.60}{hint}")


def _checked(
    hints: Mapping[str, Any], needed: Sequence[str], entries: Any, place: _Place
) -> dict[str, Any]:
    """The entries of a table, converted to their annotated types."""
    if not isinstance(entries, Mapping):
        raise place.wrong("a table", entries)
    for name in entries:
        if name not in hints:
            hint = _near(name, hints) or f"; it has {', '.join(hints) or 'none'}"
            raise EntryError(f"{place} has no entry {name!r}{hint}")
    taken = {name: _value(hints[name], value, place.entry(name)) for name, value in entries.items()}
    if missing := [name for name in needed if name not in taken]:
        raise EntryError(f"{place} is missing {', '.join(missing)}")
    return taken


def _near(name: object, known: Collection[str]) -> str:
    near = difflib.get_close_matches(str(name), list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""


def _value(hint: Any, value: Any, place: _Place) -> Any:
    if hint is Any:
        return value
    if dataclasses.is_dataclass(hint):
        return read_as(hint, value, source=place.source, at=place.at)  # type: ignore[arg-type]
    if hint == Numbers:
        _check_numbers(value, place)
        return value
    if hint in (float, Measured):
        return _number(value, place, finite=hint is float)
    origin = get_origin(hint)
    if origin is Literal:
        check_name(value, get_args(hint), source=place.source, at=place.at)
        return value
    if origin in (Union, UnionType):
        return _either(hint, value, place)
    if origin in (tuple, list, Sequence):
        return _list(hint, value, place)
    if origin in (dict, Mapping):
        return _table(hint, value, place)
    return _of(hint, value, place)


def _list(hint: Any, value: Any, place: _Place) -> Any:
    if not isinstance(value, list | tuple):
        raise place.wrong("a list", value)
    inner = get_args(hint)
    fixed = get_origin(hint) is tuple and inner[-1] is not ...
    if fixed and len(value) != len(inner):
        raise place.wrong(f"a list of {len(inner)}", value)
    hints = inner if fixed else [inner[0]] * len(value)
    found = [
        _value(one, entry, place.item(k))
        for k, (one, entry) in enumerate(zip(hints, value, strict=True))
    ]
    return found if get_origin(hint) is list else tuple(found)


def _table(hint: Any, value: Any, place: _Place) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise place.wrong("a table", value)
    keys, values = get_args(hint)
    for key in value:
        if get_origin(keys) is Literal:
            check_name(key, get_args(keys), source=place.source, at=f"an entry of {place.at}")
        elif not isinstance(key, str):
            raise place.wrong("a table with text for names", value)
    return {key: _value(values, entry, place.entry(key)) for key, entry in value.items()}


def _either(hint: Any, value: Any, place: _Place) -> Any:
    for one in get_args(hint):
        try:
            return _value(one, value, place)
        except EntryError:
            continue
    words = dict.fromkeys(_words(one) for one in get_args(hint) if not _never(one))
    raise place.wrong(" or ".join(words), value)


def _words(hint: Any) -> str:
    origin = get_origin(hint)
    if origin is Literal:
        return f"one of {', '.join(map(repr, get_args(hint)))}"
    if origin in (tuple, list, Sequence):
        return f"a list of {_words(get_args(hint)[0]).removeprefix('a ')}s"
    found = WORDS.get(origin or hint)
    return found or f"a {getattr(hint, '__name__', 'value')}, which a file cannot hold"


def _number(value: Any, place: _Place, *, finite: bool) -> float:
    if not finite and (value is None or value in ("Infinity", "-Infinity")):
        return math.nan if value is None else float(value)
    expected = "a finite number" if finite else "a number, null or 'Infinity'"
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise place.wrong(expected, value)
    if finite and not math.isfinite(value):
        raise place.wrong(expected, value)
    return float(value)


def _check_numbers(value: Any, place: _Place) -> None:
    if isinstance(value, dict):
        for name, entry in value.items():
            _check_numbers(entry, place.entry(name))
    elif isinstance(value, list):
        for k, entry in enumerate(value):
            _check_numbers(entry, place.item(k))
    else:
        _number(value, place, finite=False)


def _of(hint: Any, value: Any, place: _Place) -> Any:
    if (
        _never(hint)
        or not isinstance(value, hint)
        or (isinstance(value, bool) and hint is not bool)
    ):
        raise place.wrong(_words(hint), value)
    return value


def _never(hint: Any) -> bool:
    """Whether a type, such as a function, cannot occur in a file."""
    return get_origin(hint) is None and (
        not inspect.isclass(hint) or getattr(hint, "_is_protocol", False)
    )

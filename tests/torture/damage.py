"""Damage: to bytes, and to the trees of JSON and TOML files."""

import random
import struct
from typing import Any

EDGES = (0, 1, 0x7F, 0x80, 0xFF)
HUGE = (2**31 - 1, 2**31, 2**32 - 1, 2**53, 2**63 - 1, 2**63, 2**64, -(2**63), 10**40)
ODD: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 0.5, -0.0, 1e308, *HUGE, "", "0", "nan", "Infinity", "é",
    "\x00", "../up", "a" * 300, [], [[]], {}, {"name": "x"}, [None], [0], ["a"], [1e400],
    float("nan"),
)  # fmt: skip


def damaged_bytes(chance: random.Random, content: bytes) -> bytes:
    """The content with one to three small damages."""
    data = bytearray(content)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        data = _damage(chance, data)
    return bytes(data)


def _damage(chance: random.Random, data: bytearray) -> bytearray:
    if not data:
        return bytearray(chance.randbytes(chance.randrange(1, 40)))
    kind = chance.randrange(8)
    # Headers lie at the beginning and at the end: half of the damage goes there.
    reach = min(len(data), 128) if chance.random() < 0.5 else len(data)
    start = chance.randrange(reach)
    if chance.random() < 0.25:
        start = len(data) - 1 - start
    end = min(len(data), start + chance.choice((1, 2, 4, 16, 64, 1024)))
    if kind == 0:
        data[start] ^= 1 << chance.randrange(8)
    elif kind == 1:
        data[start] = chance.choice(EDGES)
    elif kind == 2:
        del data[start:end]
    elif kind == 3:
        data[start:start] = chance.randbytes(end - start)
    elif kind == 4:
        data[start:start] = data[start:end]
    elif kind == 5:
        del data[start:]
    elif kind == 6:
        data[start:end] = bytes(end - start)
    else:
        data += chance.randbytes(end - start)
    return data


def damaged_files(chance: random.Random, files: dict[str, bytes]) -> dict[str, bytes]:
    """The files with one of them damaged, missing, or swapped with another."""
    names = sorted(files)
    name, other = chance.choice(names), chance.choice(names)
    kind = chance.randrange(10)
    if kind == 0:
        return {key: content for key, content in files.items() if key != name}
    if kind == 1:
        return {**files, name: files[other], other: files[name]}
    return {**files, name: damaged_bytes(chance, files[name])}


def damaged_tree(chance: random.Random, tree: Any) -> Any:
    """The tree with one entry changed, renamed, removed, doubled or moved."""
    places = list(_places(tree))
    if not places:
        return chance.choice(ODD)
    path = chance.choice(places)
    return _changed(chance, tree, path, chance.choice(places))


def _places(tree: Any, at: tuple[Any, ...] = ()) -> Any:
    # Long lists of numbers would take all of the damage: their first three entries stand for them.
    items = tree.items() if isinstance(tree, dict) else enumerate(tree[:3])
    for key, value in items:
        yield (*at, key)
        if isinstance(value, dict | list):
            yield from _places(value, (*at, key))


def _at(tree: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        tree = tree[key]
    return tree


def _changed(
    chance: random.Random, tree: Any, path: tuple[Any, ...], other: tuple[Any, ...]
) -> Any:
    fresh = _copied(tree)
    parent, key = _at(fresh, path[:-1]), path[-1]
    kind = chance.randrange(7)
    if kind == 0:
        del parent[key]
    elif kind == 1 and isinstance(parent, dict):
        name = chance.choice((f"{key}_", str(key)[:-1], "é", "", str(other[-1])))
        parent[name] = parent.pop(key)
    elif kind == 2:
        parent[key] = _copied(_at(tree, other))
    elif kind == 3 and isinstance(parent, list):
        parent.insert(key, parent[key])
    elif kind == 4 and isinstance(parent[key], int | float) and not isinstance(parent[key], bool):
        value = parent[key]
        parent[key] = chance.choice((value + 1, value - 1, -value, value * 1000, float(value)))
    else:
        parent[key] = chance.choice(ODD)
    return fresh


def _copied(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _copied(value) for key, value in tree.items()}
    return [_copied(value) for value in tree] if isinstance(tree, list) else tree


def spoilt_index(chance: random.Random, content: bytes) -> bytes:
    """The places of images in tar files, one of them changed."""
    if not content or chance.random() < 0.4:
        return damaged_bytes(chance, content)
    at = 8 * chance.randrange(max(1, len(content) // 8))
    number = chance.choice((0, -1, 1, 2**40, 2**62, -(2**62), 10**6))
    return content[:at] + struct.pack("<q", number) + content[at + 8 :]

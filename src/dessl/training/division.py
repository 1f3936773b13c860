"""Which runs of a population are trained together, on any number of ranks.

The groups are stored next to their checkpoints. A population that is resumed on fewer ranks, or in
larger chunks, keeps its groups, since two of them may be at different steps; on more ranks, or in
smaller chunks, groups that are too large are split, and their checkpoints with them.
"""

import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from torch import Tensor

from dessl import _checks
from dessl._files import sweep, write_whole
from dessl.risk import RISKS
from dessl.training.checkpoint import Checkpoint

FILE = "groups.json"
PREFIX = "population-"

Groups = dict[str, list[int]]  # numbers of runs by the name of their folder


def divided(
    out: Path | None,
    risks: Sequence[str],
    cut: Callable[[Path, list[int], Mapping[Path, slice]], None],
    *,
    chunk: int | None,
    shares: int,
    resume: bool,
) -> Groups:
    """Return a folder's groups, splitting those that are too large; new groups if there are none.

    Args:
        out: Folder of the population; None to keep nothing.
        risks: Risk of each run.
        cut: Called with the folder of a group, its runs, and the folders and positions of its
            parts, to split the checkpoint in the same way.
        chunk: Largest number of runs at once.
        shares: Number of ranks that share them.
        resume: Whether to resume existing runs.
    """
    most = len(risks) if chunk is None else _checks.whole_number("chunk", chunk, low=1)
    if out is None:
        return _named(new_groups(risks, min(most, -(-len(risks) // shares))))
    known = _read(out, len(risks))
    if known is not None and not resume:
        raise FileExistsError(
            f"{out} already has runs. Pass resume=True to resume them, or choose another folder."
        )
    if known is None and any(out.glob(f"{PREFIX}*")):  # as one process began before groups.json
        known = _named(new_groups(risks, most))
    most = min(most, -(-len(risks) // shares))
    if known is None:
        found = _named(new_groups(risks, most))
    else:
        found = dict(chain.from_iterable(_cut(out, *group, most, cut) for group in known.items()))
    if found != known:
        write_whole(out / FILE, json.dumps(found) + "\n")
    for name in (known or {}).keys() - found.keys():
        shutil.rmtree(out / name, ignore_errors=True)
    return found


def new_groups(risks: Sequence[str], most: int) -> Iterator[list[int]]:
    """Yield the runs that are trained at once: of one batch shape, equal risks together.

    >>> list(new_groups(["ssl", "complete_case", "debiased", "ssl", "debiased"], 3))
    [[1], [2, 4, 0], [3]]
    """
    alone = [i for i, risk in enumerate(risks) if not RISKS[risk].unlabelled]
    joint = sorted(set(range(len(risks))) - set(alone), key=lambda i: (risks[i], i))
    for group in (alone, joint):
        for first in range(0, len(group), most):
            yield group[first : first + most]


def part_of(saved: Checkpoint, its: slice) -> Checkpoint:
    """Return the checkpoint of some runs of a population from that of all of them."""
    state, runs = saved.state, len(saved.state["members"])
    optimiser, rows = state["optimiser"], state["rows"]
    memory = {
        number: {name: _rows_of(value, its) for name, value in one.items()}
        for number, one in optimiser["state"].items()
    }
    members = state["members"][its]
    own: dict[str, Any] = {
        "optimiser": {**optimiser, "state": memory},
        "rows": {**rows, "streams": rows["streams"][its]},
        "members": members,
        "seconds": state["seconds"] * len(members) / runs,
    }
    if "logits" in state:
        own["logits"] = state["logits"][:, its].clone()
    weights = {
        part: {name: value[its] for name, value in tensors.items()}
        for part, tensors in saved.weights.items()
    }
    return Checkpoint(weights, {**state, **own})


def _rows_of(value: Any, its: slice) -> Any:
    """Of an optimiser's memory: stacked tensors have a row for each run, and counters none."""
    return value[its].clone() if isinstance(value, Tensor) and value.ndim else value


def _named(groups: Iterator[list[int]]) -> Groups:
    return {f"{PREFIX}{number}": group for number, group in enumerate(groups)}


def _cut(
    out: Path,
    name: str,
    group: list[int],
    most: int,
    cut: Callable[[Path, list[int], Mapping[Path, slice]], None],
) -> Iterator[tuple[str, list[int]]]:
    """Yield a group unchanged, or its parts, each with the name of its folder."""
    if len(group) <= most:
        yield name, group
        return
    starts = range(0, len(group), most)
    parts = {f"{name}.{number}": slice(first, first + most) for number, first in enumerate(starts)}
    cut(out / name, group, {out / part: its for part, its in parts.items()})
    for part, its in parts.items():
        yield part, group[its]


def _read(out: Path, runs: int) -> Groups | None:
    """The groups in a folder; None if there are none."""
    place = out / FILE
    sweep(place)
    if not place.exists():
        return None
    content = place.read_bytes()
    try:
        found = json.loads(content)
        numbers = sorted(number for group in found.values() for number in group)
        sound = numbers == list(range(len(numbers))) and all(found.values())
    except (ValueError, TypeError, AttributeError, RecursionError):
        sound = False
    if not sound or any(Path(name).name != name or not name.startswith(PREFIX) for name in found):
        raise ValueError(
            f"{place}: expected the runs of each part of a population, as JSON; got "
            f"{content[:60].decode(errors='replace')!r}. The file is damaged, or was not written "
            "by dessl. Choose another folder."
        )
    if len(numbers) != runs:
        raise ValueError(
            f"{out} has a different run (runs: {len(numbers)} there, {runs} now). Choose another "
            "folder, or train with the settings of that run."
        )
    groups: Groups = found
    return groups

"""The folder of ``dessl fit``: which may be used, and how a new model replaces an old one.

A folder is ours by ``training/settings.json`` alone. Beside it only what has our names and our
contents is replaced; all else is the user's, and refused before anything is trained.
"""

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dessl._files import sweep, write_whole
from dessl.cli.errors import writable_folder
from dessl.results.facts import FACTS, MODEL, REPORT, TRAINING, TWIN
from dessl.saved import SETTINGS, WEIGHTS, SavedModel, save_model
from dessl.training.folder import locked_folder

RUN_SETTINGS = "settings.json"
FINISHED_ALREADY = (
    "{out} is finished already: nothing was trained. To train again, choose another --out."
)
NEW = ".{}.new"  # where a model is until it takes the place of an old one
FINISHED = "finished.json"  # what was asked for, once all of it is written
LARGE, DOOMED = 100 * 2**20, ".checkpoints.old"  # bytes, and the name of those being removed
OF_DESKTOPS = {".DS_Store", "Thumbs.db", "desktop.ini"}  # in any folder that was looked at
KINDS = {"risk": str, "lam": int | float | str, "networks": int, "pool": bool}


@contextmanager
def own_folder(out: Path, settings: Mapping[str, Any], *, resume: bool) -> Iterator[None]:
    """Lock a folder for a run, new or resumed, against other processes.

    Args:
        out: The folder; made where it is not there.
        settings: ``risk``, ``lam``, ``networks`` and ``pool`` of the run. Other differences are
            found where each network is trained.
        resume: Whether to resume an existing run.

    Raises:
        FileExistsError: It has files of another run, or of none.
    """
    there = _settings_there(out)
    if there is None:
        _check_free(out)
    else:
        _check_run(out, there, settings, resume=resume)
    writable_folder(out)
    if there is None:
        write_whole(out / TRAINING / RUN_SETTINGS, json.dumps(dict(settings)) + "\n")
    with locked_folder(out / TRAINING):
        sweep(out / TRAINING / FINISHED)
        for left in (out / TRAINING).rglob(DOOMED):
            shutil.rmtree(left, ignore_errors=True)
        for name in (MODEL, TWIN):
            _settle(out / name)
        for place in (out / FACTS, out / REPORT, out / TRAINING / RUN_SETTINGS):
            sweep(place)
        yield


def is_finished(
    out: Path,
    asked: Mapping[str, Any],
    files: Sequence[str] = (FACTS, REPORT),
    models: Sequence[str] = (MODEL, TWIN),
) -> bool:
    """Whether a folder has all that a run of these options writes."""
    try:
        found = json.loads((out / TRAINING / FINISHED).read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    there = all((out / name).is_file() for name in files)
    there = there and all(_is_model(out / name) for name in models)
    return bool(there and found == json.loads(json.dumps(asked)))


def mark_finished(out: Path, asked: Mapping[str, Any]) -> None:
    """Note that a folder has all that a run of these options writes."""
    write_whole(out / TRAINING / FINISHED, json.dumps(dict(asked)) + "\n")


def drop_large_checkpoints(out: Path) -> None:
    """Remove the checkpoints of a finished run if they are large: nothing resumes from them."""
    folders = [place for place in (out / TRAINING).rglob("checkpoints") if place.is_dir()]
    files = [path for place in folders for path in place.rglob("*") if path.is_file()]
    if sum(path.stat().st_size for path in files) > LARGE:
        for place in folders:
            place.rename(place.with_name(DOOMED))  # so that no half of one is resumed from
            shutil.rmtree(place.with_name(DOOMED), ignore_errors=True)


def put_model(place: Path, saved: SavedModel) -> None:
    """Save a model in the place of the one that is there; one that is the same is left alone.

    The old one is gone only when the new one is in its place. A kill between the two renames leaves
    both under hidden names, and the next run in the folder puts the old one back.
    """
    fresh, aside = place.with_name(NEW.format(place.name)), aside_of(place)
    save_model(fresh, saved)
    try:
        pairs = ((fresh / name, place / name) for name in (WEIGHTS, SETTINGS))
        if not all(old.is_file() and new.read_bytes() == old.read_bytes() for new, old in pairs):
            if place.exists():
                place.rename(aside)
            fresh.rename(place)
    finally:
        _settle(place)


def _settle(place: Path) -> None:
    """Put a model back that a killed process moved aside, and remove what it left beside it."""
    fresh, aside = place.with_name(NEW.format(place.name)), aside_of(place)
    if _is_model(aside) and not os.path.lexists(place):
        aside.rename(place)
    unfinished = place.parent.glob(f".{fresh.name}.????????")  # as dessl._files.neighbour names it
    for left in (aside, fresh, *unfinished):
        if _is_model(left):
            shutil.rmtree(left, ignore_errors=True)


def _settings_there(out: Path) -> dict[str, Any] | None:
    """The settings of the run that a folder is of; None where no file of them is there."""
    place = out / TRAINING / RUN_SETTINGS
    if not place.is_file():
        return None
    content = place.read_bytes()
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        found = None
    ours = isinstance(found, dict) and found.keys() == KINDS.keys()
    if ours and all(isinstance(found[name], kind) for name, kind in KINDS.items()):
        return dict(found)
    raise FileExistsError(
        f"{place}: expected the settings of a run of dessl fit ({', '.join(KINDS)}); got "
        f"{content[:60].decode(errors='replace')!r}. It is damaged, or dessl did not write "
        "it: choose another folder."
    )


def _check_free(out: Path) -> None:
    """Refuse a folder where something that is not ours has one of our names."""
    taken = [name for name in (MODEL, TWIN, FACTS, REPORT) if os.path.lexists(out / name)]
    training, begun = out / TRAINING, f".{RUN_SETTINGS}."  # left by a run killed as it began
    if not training.is_dir():
        taken += [TRAINING] if os.path.lexists(training) else []
    elif any(not path.name.startswith(begun) for path in training.iterdir()):
        taken.append(TRAINING)
    if taken:
        raise FileExistsError(
            f"{out} has {', '.join(taken)} that dessl fit did not write (there is no "
            f"{Path(TRAINING) / RUN_SETTINGS}). Choose another folder."
        )


def _check_run(
    out: Path, there: Mapping[str, Any], now: Mapping[str, Any], *, resume: bool
) -> None:
    """Refuse to resume if that is not wanted, the run is another, or its model is not ours."""
    if not resume:
        raise FileExistsError(
            f"{out} has a run already. Omit --no-resume to resume it, or choose another folder."
        )
    changed = [
        f"{name}: {there[name]} there, {now[name]} now" for name in now if there[name] != now[name]
    ]
    if changed:
        raise FileExistsError(
            f"{out} has another run ({'; '.join(changed)}). Choose another folder, or use the "
            "settings of that run."
        )
    for name in (MODEL, TWIN):
        if os.path.lexists(out / name) and not _is_model(out / name):
            raise FileExistsError(
                f"{out / name}: expected a folder with only {WEIGHTS} and {SETTINGS}, which the "
                "run may replace; got something else. Move it, or choose another folder."
            )


def _is_model(place: Path) -> bool:
    """Whether a place is a saved model, whole or not, and nothing of the user's lies in it."""
    if place.is_symlink() or not place.is_dir():
        return False
    return {path.name for path in place.iterdir()} <= {WEIGHTS, SETTINGS} | OF_DESKTOPS


def aside_of(place: Path) -> Path:
    """Where an old model is while a new one takes its place."""
    return place.with_name(f".{place.name}.old")

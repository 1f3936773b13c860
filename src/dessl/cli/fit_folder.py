"""The folder of ``dessl fit``: when it may be used, and how a new model replaces an old one.

A folder is ours only if it has ``training/settings.json``. Only files with our names and contents
are replaced; anything else is the user's, and such a folder is refused before training.
"""

import json
import os
import shutil
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dessl._files import file_sha256, sweep, write_whole
from dessl.cli.errors import command, writable_folder
from dessl.cli.output import say
from dessl.data.errors import DataError, few
from dessl.results.facts import FACTS, MODEL, REPORT, TRAINING, TWIN, RunFacts, read_facts
from dessl.saved import SETTINGS, WEIGHTS, SavedModel, save_model
from dessl.training.folder import DifferentRunError, locked_folder

RUN_SETTINGS = "settings.json"
FINISHED_ALREADY = (
    "{out} is already finished: nothing was trained. To train again, choose another --out."
)
NEW = ".{}.new"  # name of a model until it replaces an old one
OPTIONS = "options.json"  # the options and the command of the run, written when it starts
FINISHED = "finished.json"  # the options of the run, written when it is complete
LARGE, DOOMED = 100 * 2**20, ".checkpoints.old"  # bytes, and the name while being removed
OF_DESKTOPS = {".DS_Store", "Thumbs.db", "desktop.ini"}  # added by file browsers
NOT_TRAINED_WITH = ("margin", "refit", "device")  # options that may change in a resumed run
KINDS = {"risk": str, "lam": int | float | str, "networks": int, "pool": bool}


@contextmanager
def own_folder(
    out: Path,
    settings: Mapping[str, Any],
    *,
    resume: bool,
    identity: Mapping[str, Any] | None = None,
) -> Iterator[None]:
    """Lock a folder for a run, new or resumed, against other processes.

    Args:
        out: The folder; created if missing.
        settings: ``risk``, ``lam``, ``networks`` and ``pool`` of the run. Other settings are
            checked when each network is trained.
        resume: Whether to resume an existing run.
        identity: Options and files of the run, to name those that differ when it is resumed.

    Raises:
        FileExistsError: It has files of a different run, or of no run.
    """
    existing = _existing_settings(out)
    if existing is None:
        _check_free(out)
    else:
        _check_run(out, existing, settings, resume=resume)
    writable_folder(out)
    if existing is None:
        write_whole(out / TRAINING / RUN_SETTINGS, json.dumps(dict(settings)) + "\n")
        if identity is not None:
            entries = {**identity, "command": command()}
            write_whole(out / TRAINING / OPTIONS, json.dumps(entries) + "\n")
    with locked_folder(out / TRAINING):
        for name in (FINISHED, OPTIONS):
            sweep(out / TRAINING / name)
        for left in (out / TRAINING).rglob(DOOMED):
            shutil.rmtree(left, ignore_errors=True)
        for name in (MODEL, TWIN):
            _recover(out / name)
        for place in (out / FACTS, out / REPORT, out / TRAINING / RUN_SETTINGS):
            sweep(place)
        yield


@contextmanager
def naming_options(out: Path, identity: Mapping[str, Any]) -> Iterator[None]:
    """If the networks of a folder were trained with other options, say which.

    Args:
        out: The folder of the run.
        identity: Options and files of this call.

    Raises:
        FileExistsError: The options differ.
    """
    try:
        yield
    except DifferentRunError as error:
        if changed := _changed(out, identity):
            raise _different(out, changed) from error
        raise


def run_options(out: Path) -> dict[str, Any]:
    """Return the options of the run in a folder, by name; none for a run of an older version."""
    options = _entries(out / TRAINING / OPTIONS).get("options")
    return options if isinstance(options, dict) else {}


def check_same_run(out: Path, identity: Mapping[str, Any]) -> None:
    """Refuse a folder with a run of other options or files, before anything is trained.

    Raises:
        FileExistsError: The options differ.
    """
    if changed := _changed(out, identity):
        raise _different(out, changed)


def check_not_unfinished(out: Path) -> None:
    """Refuse a run that was started but not finished, and say how to resume it.

    Raises:
        DataError: The folder has an unfinished run.
    """
    training = out / TRAINING
    if not (training / RUN_SETTINGS).is_file() or (training / FINISHED).is_file():
        return
    typed = _entries(training / OPTIONS).get("command")  # None for a run of an older version
    raise DataError.of(
        out,
        expected="a finished run",
        got="an unfinished one",
        do="Wait if it is still running; if it was stopped, run the same dessl fit command again "
        + (f"to resume it: {typed}" if isinstance(typed, str) else "to resume it."),
    )


def _different(out: Path, changed: Sequence[str]) -> FileExistsError:
    return FileExistsError(
        f"{out} has a different run ({'; '.join(changed)}). Choose another folder, or use the "
        "settings of that run."
    )


def _changed(out: Path, identity: Mapping[str, Any]) -> list[str]:
    """The options and files that differ from those of the folder's run, in words."""
    before, files_before = run_options(out), _entries(out / TRAINING / OPTIONS).get("files")
    if not before or not isinstance(files_before, dict):
        return []  # a run of an older version
    now, files = json.loads(json.dumps(identity["options"])), identity["files"]
    content = files.get(now.get("data"))
    moved = content is not None and content == files_before.get(before.get("data"))
    may_change = {*NOT_TRAINED_WITH, "data"} if moved else NOT_TRAINED_WITH
    changed = [
        f"{_option(name)}: {_given(before.get(name))} there, {_given(now[name])} now"
        for name in now
        if now[name] != before.get(name) and name not in may_change
    ]
    both = files.keys() & files_before.keys()
    rewritten = sorted(text for text in both if files[text] != files_before[text])
    return changed + [f"the contents of {text} changed" for text in rewritten]


def _option(name: str) -> str:
    names = {"data": "DATA", "all_classes": "--no-missing-label"}
    return names.get(name, "--" + name.replace("_", "-"))


def _given(value: object) -> str:
    if value is None:
        return "not given"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def finished_facts(
    out: Path, identity: Mapping[str, Any], models: Sequence[str] = (MODEL, TWIN)
) -> RunFacts | None:
    """Return the facts of a finished run with these options, or None without such a run.

    If its files are missing or damaged, say which; resuming the run makes them again.
    """
    found = _finished(out)
    sums = found.pop("sha256", {})
    if found != json.loads(json.dumps(identity)):
        return None
    if any(os.path.lexists(out / name) and not _is_model(out / name) for name in models):
        return None  # refused by own_folder
    files = (f"{name}/{file}" for name in models for file in (WEIGHTS, SETTINGS))
    damaged = [f"{name} is {why}" for name in files if (why := _damage(out / name, sums.get(name)))]
    facts, report = None, _damage(out / REPORT)
    try:
        facts = read_facts(out)
    except DataError:
        damaged.append(f"{FACTS} is {_damage(out / FACTS) or 'damaged'}")
    damaged += [f"{REPORT} is {report}"] if report else []
    if not damaged:
        return facts
    kept = any((out / TRAINING).rglob("checkpoints"))
    how = "restored from its checkpoints" if kept else "trained again: it has no checkpoints"
    say(
        f"{out} was finished, but {few(damaged)}. The run is now {how}. To use a copy of your own "
        "instead, press Ctrl-C and put the files back."
    )
    return None


def mark_finished(
    out: Path, identity: Mapping[str, Any], models: Sequence[str] = (MODEL, TWIN)
) -> None:
    """Record that the run with these options is complete, and the sha256 of its models.

    If it was finished before, say whether its models are the same.
    """
    sums = {
        f"{name}/{file}": file_sha256(out / name / file)
        for name in models
        for file in (WEIGHTS, SETTINGS)
    }
    before = _finished(out).get("sha256")
    write_whole(out / TRAINING / FINISHED, json.dumps({**identity, "sha256": sums}) + "\n")
    if before == sums:
        say("The models are bit-identical to those that were finished before.")
    elif before is not None:
        warnings.warn(
            "the models are not bit-identical to those that were finished before: versions, "
            "processor or number of threads may have changed. Use the new report.",
            UserWarning,
            stacklevel=2,
        )


def _finished(out: Path) -> dict[str, Any]:
    """The options and checksums of the folder's finished run; empty without one."""
    found = _entries(out / TRAINING / FINISHED)
    return found if isinstance(found.get("sha256", {}), dict) else {}


def _entries(place: Path) -> dict[str, Any]:
    """The entries of a JSON file; empty if it is missing or damaged."""
    try:
        found = json.loads(place.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _damage(path: Path, sha256: str | None = None) -> str:
    """What is wrong with a file, in a word; empty if nothing."""
    if not path.is_file():
        return "missing"
    return "damaged" if sha256 is not None and file_sha256(path) != sha256 else ""


def drop_large_checkpoints(out: Path) -> None:
    """Remove the checkpoints of a finished run if they are large: nothing resumes from them."""
    folders = [place for place in (out / TRAINING).rglob("checkpoints") if place.is_dir()]
    files = [path for place in folders for path in place.rglob("*") if path.is_file()]
    if sum(path.stat().st_size for path in files) > LARGE:
        for place in folders:
            place.rename(place.with_name(DOOMED))  # so that a half-removed one is never resumed
            shutil.rmtree(place.with_name(DOOMED), ignore_errors=True)


def put_model(place: Path, saved: SavedModel) -> None:
    """Save a model and replace an existing one; an identical one stays untouched.

    The old model is removed only after the new one is in place. If the process is killed between
    the two renames, both keep hidden names, and the next run in the folder restores the old one.
    """
    fresh, aside = place.with_name(NEW.format(place.name)), old_model_place(place)
    save_model(fresh, saved)
    try:
        pairs = ((fresh / name, place / name) for name in (WEIGHTS, SETTINGS))
        if not all(old.is_file() and new.read_bytes() == old.read_bytes() for new, old in pairs):
            if place.exists():
                place.rename(aside)
            fresh.rename(place)
    finally:
        _recover(place)


def _recover(place: Path) -> None:
    """Restore a model that a killed process moved aside, and remove its leftovers."""
    fresh, aside = place.with_name(NEW.format(place.name)), old_model_place(place)
    if _is_model(aside) and not os.path.lexists(place):
        aside.rename(place)
    unfinished = place.parent.glob(f".{fresh.name}.????????")  # as dessl._files.neighbour names it
    for left in (aside, fresh, *unfinished):
        if _is_model(left):
            shutil.rmtree(left, ignore_errors=True)


def _existing_settings(out: Path) -> dict[str, Any] | None:
    """The settings of a folder's run; None if there is no file of settings."""
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
        f"{content[:60].decode(errors='replace')!r}. It is damaged, or was not written by "
        "dessl. Choose another folder."
    )


def _check_free(out: Path) -> None:
    """Refuse a folder if a file that is not ours has one of our names."""
    taken = [name for name in (MODEL, TWIN, FACTS, REPORT) if os.path.lexists(out / name)]
    training, temporary = out / TRAINING, f".{RUN_SETTINGS}."  # left by a run killed at its start
    if not training.is_dir():
        taken += [TRAINING] if os.path.lexists(training) else []
    elif any(not path.name.startswith(temporary) for path in training.iterdir()):
        taken.append(TRAINING)
    if taken:
        raise FileExistsError(
            f"{out} has {', '.join(taken)} not written by dessl fit (there is no "
            f"{Path(TRAINING) / RUN_SETTINGS}). Choose another folder."
        )


def _check_run(
    out: Path, existing: Mapping[str, Any], now: Mapping[str, Any], *, resume: bool
) -> None:
    """Refuse if resuming is off, the run differs, or its model is not ours."""
    if not resume:
        raise FileExistsError(
            f"{out} already has a run. Omit --no-resume to resume it, or choose another folder."
        )
    changed = [
        f"{name}: {existing[name]} there, {now[name]} now"
        for name in now
        if existing[name] != now[name]
    ]
    if changed:
        raise _different(out, changed)
    for name in (MODEL, TWIN):
        if os.path.lexists(out / name) and not _is_model(out / name):
            raise FileExistsError(
                f"{out / name}: expected a model folder with only {WEIGHTS} and {SETTINGS}; got "
                "other files too. Move them, or choose another folder."
            )


def _is_model(place: Path) -> bool:
    """Whether a path is a saved model, complete or not, without any other files."""
    if place.is_symlink() or not place.is_dir():
        return False
    return {path.name for path in place.iterdir()} <= {WEIGHTS, SETTINGS} | OF_DESKTOPS


def old_model_place(place: Path) -> Path:
    """Temporary name of an old model while it is being replaced."""
    return place.with_name(f".{place.name}.old")

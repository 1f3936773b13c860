"""Every reader of files and arguments, with the errors by which it may refuse an input."""

import contextlib
import io
import json
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from damage import spoilt_index
from trainings import Kind, trained

from dessl import DeSSLClassifier
from dessl._entries import EntryError, read_toml
from dessl.cli.main import main
from dessl.data import DataError, SemiData, open_rows
from dessl.data.formats.answers import read_answers, teacher_columns
from dessl.data.formats.cifar import read_cifar10, read_cifar100, read_records
from dessl.data.formats.fitting import read_new_table, read_table
from dessl.data.formats.folder import read_image_folder, read_new_images
from dessl.data.formats.frames import frame_encoding, is_numbers, read_frame
from dessl.data.formats.idx import read_idx, read_mnist
from dessl.data.formats.medmnist import read_medmnist
from dessl.data.formats.npy import read_embeddings, read_new_embeddings
from dessl.data.formats.npz import read_new_npz, read_npz
from dessl.data.formats.stl10 import read_stl10
from dessl.data.formats.svhn import read_svhn
from dessl.data.formats.tables import open_table
from dessl.data.parts import RawData
from dessl.data.stored.large import large_embeddings, large_table
from dessl.results.facts import read_facts
from dessl.saved import SavedModelError, load_model
from dessl.teachers import Answers
from dessl.training import DivergenceError
from dessl.training.checkpoint import CheckpointError, load_checkpoint
from dessl.training.folder import _check_identity, _read_identity
from dessl_paper.catalogue import at_profile, experiment_from
from dessl_paper.results import read_results


class Reader(NamedTuple):
    """How a format is read, and the errors that are refusals."""

    read: Callable[..., object]
    refusals: tuple[type[Exception], ...]


def whole(raw: RawData) -> None:
    """Check what a reader gave, as ``SemiData`` takes it."""
    data = SemiData.from_raw(raw)
    for part in (data, data.test, data.validation):
        if part is not None:
            assert len(part.x) == len(part.y)
            assert int(part.y.min()) >= -1
            assert int(part.y.max()) < data.n_classes


def table(folder: Path, *, name: str, label: str, later: bool = False, **options: Any) -> None:
    """Read a table, and perhaps the same again as a later one."""
    raw, encoding = read_table(folder / name, label=label, **options)
    whole(raw)
    if later:
        again = read_new_table(folder / name, encoding)
        assert again.x.shape == raw.x.shape


def npy(
    folder: Path, *, names: list[str], labels: str, label: str | None = None, later: bool
) -> None:
    """Read embeddings side by side and their labels, and perhaps again for a trained model."""
    paths = [folder / name for name in names]
    raw = read_embeddings(paths, labels=folder / labels, label=label)
    whole(raw)
    if later:
        again = read_new_embeddings(paths, raw.class_names, labels=folder / labels, label=label)
        assert again.x.equal(raw.x)


def large_rows(data: SemiData | None) -> None:
    """Check data of which most rows stay on disk, and read all of them."""
    if data is None:  # so few are read into memory
        return
    assert data.stored is not None
    rest = data.stored.rows(np.arange(len(data.stored)))
    assert rest.shape == (len(data.stored), *data.x.shape[1:])
    assert np.isfinite(rest).all()


def large(folder: Path, *, name: str, label: str, **options: Any) -> None:
    """Read a table in blocks, as if it were larger than memory."""
    place = folder / "place"
    large_rows(large_table(folder / name, place=place, label=label, sample=2, **options))


def large_npy(folder: Path, *, names: list[str], labels: str, label: str | None = None) -> None:
    """Read an array from disk row by row, as if it were larger than memory."""
    path = folder / names[0]
    large_rows(large_embeddings(path, labels=folder / labels, label=label, sample=2))


def answers(folder: Path, *, label: str, teachers: list[str], later: bool) -> None:
    """Read a table with teachers' answers as ``dessl fit --teacher`` does."""
    path = folder / "data.csv"
    opened = open_table(path)
    known = [*opened.columns, *opened.unread]
    columns = {name: teacher_columns(known, name, path) for name in teachers}
    aside = [one for names in columns.values() for one in names]
    raw, _ = read_table(path, label=label, ignore=aside)
    whole(raw)
    found = read_answers(opened, columns, raw.class_names)
    for name, values in found.items():
        given = Answers.of(values, raw.class_names, name=name)
        assert len(given) == len(raw.x)
        assert bool(given.probabilities.isfinite().all())
    if later:
        assert read_answers(opened, columns, raw.class_names).keys() == found.keys()


def frame(folder: Path, *, labels: list[int], arrow: bool, later: bool) -> None:
    """Read a data frame as ``DeSSLClassifier.fit`` does, once its maker could make one."""
    made = made_frame(json.loads((folder / "frame.json").read_bytes()), arrow=arrow)
    codes = np.array(labels, np.int64)
    if made is None or len(made) != len(codes):
        raise DataError("nobody could make such a frame")
    if is_numbers(made):
        return
    read = read_frame(made)
    encoding = frame_encoding(
        read.table(), codes, label="label", class_names=("a", "b"), categorical=read.categorical
    )
    x = encoding.features(read.table())
    assert x.shape == (len(codes), len(encoding.feature_names))
    if later:
        assert np.array_equal(x, encoding.features(read_frame(made).table()))


def npz(folder: Path, *, later: bool = False) -> None:
    """Read an npz file, and perhaps the same again for a trained model."""
    raw = read_npz(folder / "data.npz")
    whole(raw)
    if later:
        read_new_npz(folder / "data.npz", raw.class_names)


def images(folder: Path, *, later: bool = False) -> None:
    """Read a folder of images, and perhaps the same again for a trained model."""
    raw = read_image_folder(folder)
    whole(raw)
    if later:
        read_new_images(folder, raw.class_names, raw.x.shape[1:], bits=raw.bits)


def svhn(folder: Path, *, checksums: dict[str, str] | None) -> None:
    """Read SVHN's files, known by their checksums or rebuilt."""
    whole(read_svhn(folder, checksums=checksums))


def stored(
    folder: Path,
    *,
    source: str,
    index: str | None = None,
    spoil: int | None = None,
    shape: list[int] | None = None,
    **options: Any,
) -> None:
    """Open stored rows and read the first and the last; perhaps again after spoiling the index."""
    place = None if index is None else folder / index
    more = {"shape": None if shape is None else tuple(shape), "index": place}
    if spoil is not None and place is not None:
        open_rows(str(folder / source), **more, **options)
        chance = random.Random(spoil)
        kept = chance.choice(sorted(place.iterdir()))
        kept.write_bytes(spoilt_index(chance, kept.read_bytes()))
    found = open_rows(str(folder / source), **more, **options)
    some = found.rows([*range(min(len(found), 100)), len(found) - 1])
    assert some.shape == (len(some), *found.shape)
    assert some.dtype == np.uint8 or np.isfinite(some).all()
    assert found.identity() == open_rows(str(folder / source), **more, **options).identity()


def resumed(folder: Path, *, kind: Kind, intact: bool) -> None:
    """Resume a training; with one intact checkpoint it must go on."""
    try:
        trained(kind, folder)
    except DivergenceError:
        raise
    except (RuntimeError, ValueError) as error:
        if intact:
            raise AssertionError(f"not resumed from the checkpoint before: {error}") from error
        raise


def estimator(folder: Path) -> None:
    """Load a saved estimator, and predict a row where it takes plain numbers."""
    loaded = DeSSLClassifier.from_pretrained(folder)
    if (saved := loaded._saved).encoding is None:
        assert len(loaded.predict(np.zeros((1, *saved.shape)))) == 1


def identity(folder: Path, *, wanted: dict[str, Any]) -> None:
    """Read the ``run.json`` of a run and compare it with the run that is to be trained."""
    _check_identity(_read_identity(folder / "run.json"), wanted, folder)


def experiment(folder: Path, *, name: str, profile: Any) -> None:
    """Read the TOML file of an experiment."""
    entries = read_toml(folder / f"{name}.toml")
    experiment_from(name, profile, at_profile(name, profile, entries))


def made_frame(columns: list[dict[str, Any]], *, arrow: bool) -> Any:
    """The data frame of pandas, or of Arrow, that a file describes; None if there is no such."""
    import pandas as pd
    import pyarrow as pa

    makers: dict[str, Callable[[Any], Any]] = {
        "datetime": lambda values: pd.to_datetime(pd.Series(values)),
        "zoned": lambda values: pd.to_datetime(pd.Series(values)).dt.tz_localize("UTC"),
        "timedelta": lambda values: pd.to_timedelta(pd.Series(values), unit="s"),
        "period": lambda values: pd.Series(pd.PeriodIndex(values, freq="M")),
        "complex": lambda values: pd.Series(values, dtype="complex128"),
        "bytes": lambda values: pd.Series([str(value).encode() for value in values]),
        "arrow": lambda values: pd.Series(values, dtype=pd.ArrowDtype(pa.string())),
        "list": pd.Series,
    }
    try:
        series = []
        for column in columns:
            kind, values = column["kind"], column["values"]
            make = makers.get(kind, lambda values, kind=kind: pd.Series(values, dtype=kind))
            series.append(make(values).rename(column["name"]))
        made = pd.concat(series, axis=1)
        return pa.Table.from_pandas(made, preserve_index=False) if arrow else made
    except Exception:  # noqa: BLE001 (pandas and Arrow refuse in many ways)
        return None


class BadExitError(Exception):
    """A command that ended otherwise than with 0 or 2."""


class CommandRefusedError(Exception):
    """A command that ended with 2 and one line."""


def command(folder: Path, *, arguments: list[str], piped: str = "") -> None:
    """Run ``dessl`` in this process, in a folder, with a file on standard input."""
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    content = (folder / piped).read_bytes() if piped else b""
    before, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(content))
    with (
        contextlib.chdir(folder),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main(arguments)
            code: object = 0
        except SystemExit as left:
            code = left.code or 0
        finally:
            sys.stdin = before
    out.flush()
    said, shown = err.getvalue(), out.buffer.getvalue().decode()  # type: ignore[attr-defined]
    if {"\x1b", "\x07"} & set(said + shown):
        raise BadExitError(f"{arguments}: a command to the terminal: {said[-300:]!r}")
    if code not in (0, 2) or "Traceback" in said:
        raise BadExitError(f"{arguments}: exit code {code}: {said[-500:]}")
    if code == 2:
        raise CommandRefusedError(said.strip() or shown.strip())
    last = arguments[arguments.index("--json") - 1] if "--json" in arguments[1:] else "--json"
    if not last.startswith("-") and "--help" not in arguments:  # not the value of an option
        json.loads(shown)


READERS = {
    "csv": Reader(table, (DataError,)),
    "parquet": Reader(table, (DataError,)),
    "npz": Reader(npz, (DataError,)),
    "npy": Reader(npy, (DataError,)),
    "excel": Reader(table, (DataError,)),
    "large table": Reader(large, (DataError,)),
    "large npy": Reader(large_npy, (DataError,)),
    "answers": Reader(answers, (ValueError,)),
    "stored": Reader(stored, (ValueError,)),
    "resume": Reader(resumed, (ValueError, RuntimeError)),
    "estimator": Reader(estimator, (ValueError,)),
    "frame": Reader(frame, (DataError,)),
    "idx": Reader(lambda folder: read_idx(folder / "file"), (DataError,)),
    "mnist": Reader(lambda folder: whole(read_mnist(folder)), (DataError,)),
    "cifar": Reader(lambda folder, classes: read_records([folder / "file"], classes), (DataError,)),
    "cifar10": Reader(lambda folder: whole(read_cifar10(folder)), (DataError,)),
    "cifar100": Reader(
        lambda folder, labels: whole(read_cifar100(folder, labels=labels)), (DataError,)
    ),
    "stl10": Reader(lambda folder: whole(read_stl10(folder)), (DataError,)),
    "medmnist": Reader(lambda folder: whole(read_medmnist(folder / "data.npz")), (DataError,)),
    "svhn": Reader(svhn, (DataError,)),
    "images": Reader(images, (DataError,)),
    "model": Reader(load_model, (SavedModelError, DataError)),
    "checkpoint": Reader(load_checkpoint, (CheckpointError,)),
    "run": Reader(identity, (ValueError,)),
    "facts": Reader(read_facts, (DataError,)),
    "records": Reader(read_results, (DataError,)),
    "experiment": Reader(experiment, (EntryError,)),
    "arguments": Reader(command, (CommandRefusedError,)),
}

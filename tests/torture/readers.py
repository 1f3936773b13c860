"""Every reader of files and arguments, with the errors by which it may refuse an input."""

import contextlib
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from dessl._entries import EntryError, read_toml
from dessl.cli.main import main
from dessl.data import DataError, SemiData
from dessl.data.formats.cifar import read_cifar10, read_cifar100, read_records
from dessl.data.formats.fitting import read_new_table, read_table
from dessl.data.formats.folder import read_image_folder, read_new_images
from dessl.data.formats.idx import read_idx, read_mnist
from dessl.data.formats.medmnist import read_medmnist
from dessl.data.formats.npz import read_new_npz, read_npz
from dessl.data.formats.stl10 import read_stl10
from dessl.data.formats.svhn import read_svhn
from dessl.data.parts import RawData
from dessl.results.facts import read_facts
from dessl.saved import SavedModelError, load_model
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


def svhn(folder: Path, *, checksums: dict[str, str]) -> None:
    """Read SVHN's files, known by their checksums."""
    whole(read_svhn(folder, checksums=checksums))


def identity(folder: Path, *, wanted: dict[str, Any]) -> None:
    """Read the ``run.json`` of a run and compare it with the run that is to be trained."""
    _check_identity(_read_identity(folder / "run.json"), wanted, folder)


def experiment(folder: Path, *, name: str, profile: Any) -> None:
    """Read the TOML file of an experiment."""
    entries = read_toml(folder / f"{name}.toml")
    experiment_from(name, profile, at_profile(name, profile, entries))


class BadExitError(Exception):
    """A command that ended otherwise than with 0 or 2."""


class CommandRefusedError(Exception):
    """A command that ended with 2 and one line."""


def command(folder: Path, *, arguments: list[str]) -> None:
    """Run ``dessl`` in this process, in a folder."""
    out, err = io.StringIO(), io.StringIO()
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
    said = err.getvalue()
    if code not in (0, 2) or "Traceback" in said:
        raise BadExitError(f"{arguments}: exit code {code}: {said[-500:]}")
    if code == 2:
        raise CommandRefusedError(said.strip() or out.getvalue().strip())
    before = arguments[arguments.index("--json") - 1] if "--json" in arguments[1:] else "--json"
    if not before.startswith("--") and "--help" not in arguments:  # not the value of an option
        json.loads(out.getvalue())


READERS = {
    "csv": Reader(table, (DataError,)),
    "parquet": Reader(table, (DataError,)),
    "npz": Reader(npz, (DataError,)),
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

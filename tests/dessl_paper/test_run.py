"""The runner: every experiment in small, folders that are refused, and runs that are resumed."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.training.several_ranks import run_ranks
from torch import distributed

from dessl.data import DataError, SemiData
from dessl.results.record import Record, read_records
from dessl.training import loop
from dessl.training.folder import locked_folder
from dessl.training.population_step import PopulationStep
from dessl_paper import run
from dessl_paper.catalogue import experiment_names, load_experiment
from dessl_paper.results import read_experiment
from dessl_paper.run import _held, begin, run_experiment
from dessl_paper.specification import DataSetting, Experiment, cells_of

Tiny = Callable[..., Experiment]


LIKE_ANOTHER = (
    "cifar10-pseudo-label", "cifar100-pseudo-label", "medmnist-long", "mnist-label-noise",
    "mnist-long",
)  # fmt: skip


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow) if name in LIKE_ANOTHER else name
        for name in experiment_names()
    ],
)
def test_every_experiment_runs_at_smoke(name: str, tmp_path: Path) -> None:
    experiment = load_experiment(name, "smoke")
    run_experiment(experiment, tmp_path)
    records = {record.key: record for record in read_records(tmp_path)}
    assert set(records) == {cell.key for cell in cells_of(experiment)}
    for record in records.values():
        assert record.training["diverged"] is None
        assert record.training["seconds"] > 0
        assert {"torch", "commit", "device"} <= set(record.made_with)
        assert record.made_with["device"] == "cpu"
        for metric in experiment.metrics:
            if experiment.kind != "probe":
                assert isinstance(record.metrics[metric], float), metric
    assert sorted(path.name for path in tmp_path.iterdir()) == ["experiment.json", "runs"]


def test_what_the_user_keeps_beside_the_training_stays(tiny: Tiny, tmp_path: Path) -> None:
    def keep(*_: object) -> None:
        (tmp_path / "training" / "mine.txt").write_text("mine")

    run_experiment(tiny(), tmp_path, notice=keep)
    assert [path.name for path in (tmp_path / "training").iterdir()] == ["mine.txt"]


def test_records_that_a_killed_process_left_half_are_swept(tiny: Tiny, tmp_path: Path) -> None:
    begin(tmp_path, tiny(), resume=True)
    half = tmp_path / "runs" / ".some-run.json.0123abcd"
    mine = tmp_path / "runs" / ".some-run.json.backup"
    half.parent.mkdir()
    for path in (half, mine):
        path.write_text("{")
    with _held(tmp_path, tiny(), resume=True):
        assert sorted(half.parent.iterdir()) == [mine]


def test_a_folder_is_of_one_experiment_for_good(tmp_path: Path, tiny: Tiny) -> None:
    begin(tmp_path, tiny(), resume=True)
    begin(tmp_path, tiny(), resume=True)
    with pytest.raises(DataError, match="of 'tiny' at profile 'smoke'; got other settings: plan"):
        begin(tmp_path, tiny(plan={"learning_rate": 0.5}), resume=True)
    with pytest.raises(DataError, match="got other settings: profile"):
        begin(tmp_path, dataclasses.replace(tiny(), profile="paper"), resume=True)
    with pytest.raises(DataError, match="resume is off; got results of 'tiny'"):
        begin(tmp_path, tiny(), resume=False)
    assert read_experiment(tmp_path).as_dict() == tiny().as_dict()


def test_a_folder_with_something_else_in_it_is_refused(tmp_path: Path, tiny: Tiny) -> None:
    (tmp_path / "training").mkdir()
    (tmp_path / ".experiment.json.abcdefgh").touch()  # of a process that was killed
    with pytest.raises(DataError, match=r"a folder with 'training'\. Choose another --out"):
        begin(tmp_path, tiny(), resume=True)
    (tmp_path / "training").rmdir()
    begin(tmp_path, tiny(), resume=True)


def test_words_and_populations_may_change_and_seeds_grow(tmp_path: Path, tiny: Tiny) -> None:
    begin(tmp_path, tiny(seeds=3, notes=["said of these runs"]), resume=True)
    other = tiny(seeds=1, notes=["another word"], title="Another title", population=4)
    begin(tmp_path, other, resume=True)
    kept = read_experiment(tmp_path)
    assert (kept.seeds, kept.title, kept.population) == (3, "Another title", 4)
    assert kept.notes == ("said of these runs",)
    begin(tmp_path, tiny(seeds=5), resume=True)
    assert read_experiment(tmp_path).seeds == 5


class Interruption:
    """A notice that breaks a sweep off before a training, as Ctrl-C does."""

    def __init__(self, at: int = 10**9) -> None:
        self.at = at
        self.seen: list[tuple[str, int, int]] = []

    def __call__(self, name: str, done: int, total: int) -> None:
        if len(self.seen) == self.at:
            raise KeyboardInterrupt
        self.seen.append((name, done, total))


def timeless(record: Record) -> dict[str, Any]:
    """A record without what the clock says."""
    entries = dataclasses.asdict(record)
    del entries["training"]["seconds"]
    for event in entries["history"]:
        del event["steps_per_second"]
    return entries


def _run_by_all(_: Path, experiment: Experiment, out: Path) -> None:
    run_experiment(experiment, out, progress=False)


@pytest.mark.skipif(not distributed.is_gloo_available(), reason="this PyTorch has no gloo")
@pytest.mark.parametrize("population", [pytest.param(0, marks=pytest.mark.slow), 4])
def test_ranks_share_the_runs(tiny: Tiny, tmp_path: Path, population: int) -> None:
    experiment, alone, both = tiny(population=population), tmp_path / "1", tmp_path / "2"
    run_experiment(experiment, alone)
    assert run_ranks(2, _run_by_all, tmp_path, experiment, both) == [0, 0]
    expected, found = ({one.key: one for one in read_records(out)} for out in (alone, both))
    assert found.keys() == expected.keys()
    for key, record in found.items():
        assert record.training.pop("runs_at_once") == (2 if population else 1)
        expected[key].training.pop("runs_at_once")
        assert record.made_with.pop("processes") == 2
        assert expected[key].made_with.pop("processes") == 1
        assert timeless(record) == timeless(expected[key])
    assert not (both / "training").exists()


def files(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((out / "runs").iterdir())}


@pytest.mark.parametrize("population", [0, 2])
def test_a_broken_off_sweep_goes_on_to_the_end_of_an_unbroken_one(
    tiny: Tiny, tmp_path: Path, population: int
) -> None:
    experiment = tiny(population=population)
    run_experiment(experiment, tmp_path / "whole")
    broken, trainings = tmp_path / "broken", 2 if population else 4
    with pytest.raises(KeyboardInterrupt):
        run_experiment(experiment, broken, notice=Interruption(at=1))
    before = files(broken)
    assert len(before) == (2 if population else 1)
    rest = Interruption()
    run_experiment(experiment, broken, notice=rest)
    assert len(rest.seen) == trainings - 1
    assert rest.seen[0][1:] == (len(before), 4)
    after = files(broken)
    assert {name: after[name] for name in before} == before
    for one, other in zip(read_records(tmp_path / "whole"), read_records(broken), strict=True):
        assert timeless(one) == timeless(other)
    nothing = Interruption()
    run_experiment(experiment, broken, notice=nothing)
    assert nothing.seen == []
    assert files(broken) == after


@pytest.mark.parametrize("damage", ["5", '[["a"]]', '{"a', "", "\x00"])
def test_a_damaged_note_of_what_was_begun_is_passed_over(
    tiny: Tiny, tmp_path: Path, damage: str
) -> None:
    experiment = tiny(seeds=1)
    run_experiment(experiment, tmp_path)
    missing = min((tmp_path / "runs").iterdir())
    missing.unlink()
    note = tmp_path / "training" / "begun" / "cells.json"
    note.parent.mkdir(parents=True)
    note.write_text(damage)
    run_experiment(experiment, tmp_path)
    assert missing.is_file()


def test_a_broken_off_run_goes_on_from_its_checkpoint(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = tiny(seeds=1)
    run_experiment(experiment, tmp_path / "whole")
    save, saved = loop.save_checkpoint, []

    def save_then_stop(folder: Path, step: int, *state: Any) -> Path:
        place = save(folder, step, *state)
        saved.append((folder.parent.name, step))
        if len(saved) == 2:
            raise KeyboardInterrupt
        return place

    monkeypatch.setattr(loop, "save_checkpoint", save_then_stop)
    with pytest.raises(KeyboardInterrupt):
        run_experiment(experiment, tmp_path / "broken")
    assert not (tmp_path / "broken" / "runs").exists()
    run_experiment(experiment, tmp_path / "broken")
    first, second = (cell.key for cell in cells_of(experiment))
    # Evaluations are at steps 2, 4 and 6: the first run does only its last two steps again.
    assert saved == [(first, 2), (first, 4), (first, 6), (second, 2), (second, 4), (second, 6)]
    for one, other in zip(
        read_records(tmp_path / "whole"), read_records(tmp_path / "broken"), strict=True
    ):
        assert timeless(one) == timeless(other)


@pytest.mark.parametrize("then", [4, 2, 0])
def test_a_population_broken_off_between_its_records_is_not_trained_again(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, then: int
) -> None:
    experiment = tiny(population=4)
    run_experiment(experiment, tmp_path / "whole")
    write = run.write_record
    written: list[str] = []

    def write_then_stop(out: Path, record: Record) -> None:
        if len(written) == 1:
            raise KeyboardInterrupt
        written.append(record.key)
        write(out, record)

    with monkeypatch.context() as patch:
        patch.setattr(run, "write_record", write_then_stop)
        with pytest.raises(KeyboardInterrupt):
            run_experiment(experiment, tmp_path / "broken")
    steps: list[int] = []
    monkeypatch.setattr(PopulationStep, "__call__", lambda self, step: steps.append(step))
    run_experiment(tiny(population=then), tmp_path / "broken")
    assert steps == []
    pairs = zip(read_records(tmp_path / "whole"), read_records(tmp_path / "broken"), strict=True)
    assert all(timeless(one) == timeless(other) for one, other in pairs)


def test_more_seeds_add_runs_to_those_that_are_there(tiny: Tiny, tmp_path: Path) -> None:
    run_experiment(tiny(seeds=1), tmp_path)
    before = files(tmp_path)
    run_experiment(tiny(seeds=2), tmp_path)
    after = files(tmp_path)
    assert len(after) == 2 * len(before) == 4
    assert {name: after[name] for name in before} == before


def test_a_sweep_does_not_go_on_with_other_data_nor_past_a_damaged_record(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_experiment(tiny(seeds=1), tmp_path)
    before, data = files(tmp_path), run.experiment_data

    def found(setting: DataSetting, *, curve: str) -> SemiData:
        rows = data(setting, curve=curve)
        rows.name = "mnist"  # as if the set had come to the disk
        return rows

    with monkeypatch.context() as patch:
        patch.setattr(run, "experiment_data", found)
        with pytest.raises(DataError, match=r"got mnist and mnist \(generated\)\. Remove the runs"):
            run_experiment(tiny(seeds=2), tmp_path)
    assert files(tmp_path) == before
    (tmp_path / "runs" / next(iter(before))).write_text("{")
    with pytest.raises(DataError, match="damaged"):
        run_experiment(tiny(seeds=2), tmp_path)


def test_two_processes_do_not_share_a_folder(tiny: Tiny, tmp_path: Path) -> None:
    def second(*_: object) -> None:
        run_experiment(tiny(), tmp_path)

    with pytest.raises(RuntimeError, match="is training in"):
        run_experiment(tiny(), tmp_path, notice=second)


def test_a_folder_in_which_another_process_trains_is_left_as_it_is(
    tiny: Tiny, tmp_path: Path
) -> None:
    begin(tmp_path, tiny(seeds=2), resume=True)
    before = read_experiment(tmp_path)
    with (
        locked_folder(tmp_path / "training"),
        pytest.raises(RuntimeError, match="another process"),
    ):
        run_experiment(tiny(seeds=7, title="another"), tmp_path)
    assert read_experiment(tmp_path) == before


def test_a_folder_that_is_refused_has_no_lock_left(tiny: Tiny, tmp_path: Path) -> None:
    begin(tmp_path, tiny(), resume=True)
    with pytest.raises(DataError, match="other settings: plan"):
        run_experiment(tiny(plan={"learning_rate": 0.5}), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["experiment.json"]

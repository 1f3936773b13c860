"""The runner: every experiment in small, going on after a break, divergence, populations."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from dessl.data import DataError, SemiData
from dessl.experiments import outcome, sweep
from dessl.experiments.cells import cells_of
from dessl.experiments.record import Record, read_records
from dessl.experiments.specification import (
    DataSetting,
    Experiment,
    experiment_names,
    load_experiment,
)
from dessl.experiments.sweep import run_experiment
from dessl.training import TrainPlan, loop
from dessl.training.population_step import PopulationStep

Tiny = Callable[..., Experiment]


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


def files(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((out / "runs").iterdir())}


@pytest.mark.parametrize("name", experiment_names())
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
    write = sweep.write_record
    written: list[str] = []

    def write_then_stop(out: Path, record: Record) -> None:
        if len(written) == 1:
            raise KeyboardInterrupt
        written.append(record.key)
        write(out, record)

    with monkeypatch.context() as patch:
        patch.setattr(sweep, "write_record", write_then_stop)
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
    before, data = files(tmp_path), sweep.experiment_data

    def found(setting: DataSetting, *, curve: str) -> SemiData:
        rows = data(setting, curve=curve)
        rows.name = "mnist"  # as if the set had come to the disk
        return rows

    with monkeypatch.context() as patch:
        patch.setattr(sweep, "experiment_data", found)
        with pytest.raises(DataError, match=r"got mnist and mnist \(generated\)\. Remove the runs"):
            run_experiment(tiny(seeds=2), tmp_path)
    assert files(tmp_path) == before
    (tmp_path / "runs" / next(iter(before))).write_text("{")
    with pytest.raises(DataError, match="damaged"):
        run_experiment(tiny(seeds=2), tmp_path)


@pytest.mark.parametrize("population", [0, 8])
@pytest.mark.filterwarnings("ignore:the run of seed")  # of the population's own
def test_a_diverged_run_is_recorded_as_one_and_stops_no_other(
    tiny: Tiny, tmp_path: Path, population: int
) -> None:
    wild = {"title": "wild", "risk": "ssl", "lam": 1.0, "plan": {"risk_limit": 1e-3}}
    run_experiment(tiny(methods={"wild": wild}, population=population), tmp_path)
    records = read_records(tmp_path)
    assert len(records) == 6
    for record in records:
        diverged = record.training["diverged"]
        assert (diverged is not None) == (record.method == "wild")
        if diverged:
            assert "the run diverged at step 1" in diverged
            assert "λ = 1" in diverged
            assert (record.metrics, record.history) == ({}, [])
        else:
            assert record.metrics["accuracy"] >= 0


def test_populations_and_runs_by_themselves_agree(tiny: Tiny, tmp_path: Path) -> None:
    for population in (0, 8):
        run_experiment(tiny(population=population), tmp_path / str(population))
    alone, together = (read_records(tmp_path / name) for name in ("0", "8"))
    assert {record.training["runs_at_once"] for record in together} == {4}
    assert {record.training["runs_at_once"] for record in alone} == {1}
    for one, other in zip(alone, together, strict=True):
        assert one.key == other.key
        assert one.training["selected_step"] == other.training["selected_step"]
        for metric in ("accuracy", "cross_entropy", "brier"):
            assert one.metrics[metric] == pytest.approx(other.metrics[metric], abs=1e-5)


def test_a_record_says_how_its_run_was_made(tiny: Tiny, tmp_path: Path) -> None:
    experiment = tiny(seeds=1)
    run_experiment(experiment, tmp_path)
    for cell, record in zip(cells_of(experiment), read_records(tmp_path), strict=True):
        assert TrainPlan.from_dict(record.settings["plan"]) == cell.plan(experiment)
        assert record.settings["data"]["labels"] == record.labels == 30
        assert record.data == "mnist (generated)"
        assert [event["step"] for event in record.history] == [2, 4, 6]
        assert record.training["selected_step"] in (2, 4, 6)
        accuracies = [event["validation"]["accuracy"] for event in record.history]
        chosen = accuracies.index(max(accuracies))
        assert record.training["selected_step"] == record.history[chosen]["step"]


def test_a_run_that_is_watched_on_the_test_set_is_measured_at_its_last_step(
    tiny: Tiny, tmp_path: Path
) -> None:
    data = {"name": "mnist", "labels": 30, "draw": "balanced", "rows": 60, "generated": True}
    run_experiment(tiny(seeds=1, data=[data], curve="test", plan={"select": "last"}), tmp_path)
    for record in read_records(tmp_path):
        last = record.history[-1]["validation"]
        assert record.training["selected_step"] == 6
        assert last["cross_entropy"] == pytest.approx(record.metrics["cross_entropy"], abs=1e-5)


def test_every_label_is_counted(tiny: Tiny, tmp_path: Path) -> None:
    own = {"title": "all", "risk": "complete_case", "every_label": True}
    run_experiment(tiny(seeds=1, methods={"supervised": own}), tmp_path)
    labels = {record.method: record.labels for record in read_records(tmp_path)}
    assert labels == {"complete_case": 30, "de_entropy": 30, "supervised": 60}


def test_two_processes_do_not_share_a_folder(tiny: Tiny, tmp_path: Path) -> None:
    def second(*_: object) -> None:
        run_experiment(tiny(), tmp_path)

    with pytest.raises(RuntimeError, match="is training in"):
        run_experiment(tiny(), tmp_path, notice=second)


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_metrics_are_measured_with_cudnn_but_without_tf32(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, evaluate = [], outcome.evaluate

    def watched(*arguments: Any, **options: Any) -> Any:
        cudnn = torch.backends.cudnn
        seen.append((cudnn.enabled, cudnn.allow_tf32))
        return evaluate(*arguments, **options)

    monkeypatch.setattr(outcome, "evaluate", watched)
    run_experiment(tiny(seeds=1), tmp_path, device="cuda")
    assert set(seen) == {(True, False)}

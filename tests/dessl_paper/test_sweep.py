"""The runner: every experiment in small, divergence, populations, what records say."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from dessl.results.record import read_records
from dessl.training import TrainPlan
from dessl_paper import outcome
from dessl_paper.cells import cells_of
from dessl_paper.specification import (
    Experiment,
    experiment_names,
    load_experiment,
)
from dessl_paper.sweep import run_experiment

Tiny = Callable[..., Experiment]


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


def test_what_the_user_keeps_beside_the_training_stays(tiny: Tiny, tmp_path: Path) -> None:
    def keep(*_: object) -> None:
        (tmp_path / "training" / "mine.txt").write_text("mine")

    run_experiment(tiny(), tmp_path, notice=keep)
    assert [path.name for path in (tmp_path / "training").iterdir()] == ["mine.txt"]


def test_populations_and_runs_by_themselves_agree(tiny: Tiny, tmp_path: Path) -> None:
    for population in (0, 8):
        began = time.perf_counter()
        run_experiment(tiny(population=population), tmp_path / str(population))
        whole = time.perf_counter() - began
        seconds = [
            record.training["seconds"] for record in read_records(tmp_path / str(population))
        ]
        assert sum(seconds) <= whole  # runs at once share what their training took
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

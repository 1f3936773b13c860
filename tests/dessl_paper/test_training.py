"""A cell's parts and training: views, divergence, populations, and what records say."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from dessl.results.record import read_records
from dessl.training import TrainPlan
from dessl_paper import training
from dessl_paper.catalogue import load_experiment
from dessl_paper.run import run_experiment
from dessl_paper.sources import generated
from dessl_paper.specification import Experiment, cells_of
from dessl_paper.training import network, unlabelled_term


def test_views_draw_anew_for_each_split_and_add_the_noise_they_say() -> None:
    paper = load_experiment("consistency-cifar10", "paper")
    views = {**paper.views, "view": {**paper.views["view"], "shift": 0, "flip": False}}
    grey = torch.full((8, 3, 32, 32), 128, dtype=torch.uint8)
    seen = [
        built.view(grey, built.generator(grey.device))  # type: ignore[operator]
        for built in (unlabelled_term({"name": "pi_model"}, views, seed=seed) for seed in (0, 0, 1))
    ]
    assert torch.equal(seen[0], seen[1])
    assert not torch.equal(seen[0], seen[2])
    levels = (128 / 255 - torch.tensor(views["mean"])) / torch.tensor(views["std"])
    torch.testing.assert_close(seen[0].mean((0, 2, 3)), levels, atol=0.01, rtol=0)
    torch.testing.assert_close(seen[0].std((0, 2, 3)), torch.full((3,), 0.15), atol=0.01, rtol=0)


def test_unknown_parts_are_named() -> None:
    with pytest.raises(ValueError, match=r"surrogate must be one of 'entropy'"):
        unlabelled_term({"name": "magic"}, {})
    with pytest.raises(ValueError, match=r"model\.name must be one of 'mlp'"):
        network({"name": "magic"}, generated("mnist", 4))


Tiny = Callable[..., Experiment]


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
    seen, evaluate = [], training.evaluate

    def watched(*arguments: Any, **options: Any) -> Any:
        cudnn = torch.backends.cudnn
        seen.append((cudnn.enabled, cudnn.allow_tf32))
        return evaluate(*arguments, **options)

    monkeypatch.setattr(training, "evaluate", watched)
    run_experiment(tiny(seeds=1), tmp_path, device="cuda")
    assert set(seen) == {(True, False)}

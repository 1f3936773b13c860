"""Groups of a population: what is trained together, kept, and cut."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.training.test_population import (
    BrokenOffError,
    assert_logits_kept,
    assert_same,
    plan_of,
    small_mlp,
    sweep,
    table,
)

from dessl.surrogates import Entropy
from dessl.training import loop, population_step
from dessl.training.checkpoint import load_checkpoint
from dessl.training.division import FILE, new_groups
from dessl.training.population import train_population
from dessl.training.stacked_runs import Population, PopulationRun


def broken_off(out: Path, runs: list[PopulationRun], patch: pytest.MonkeyPatch, **more: Any) -> Any:
    """Train until the group of unlabelled risks has saved step 5."""
    saved = loop.save_checkpoint

    def breaking(folder: Path, step: int, *rest: Any) -> Path:
        place = saved(folder, step, *rest)
        if folder.parent.name == "population-1":
            raise BrokenOffError
        return place

    with patch.context() as within:
        within.setattr(Population, "save_seconds", 0.0)
        within.setattr(loop, "save_checkpoint", breaking)
        with pytest.raises(BrokenOffError):
            train_population(small_mlp, Entropy(), table(), runs, out=out, **more)


def test_groups_have_each_run_once_and_no_more_than_asked() -> None:
    risks = ["debiased", "ssl", "complete_case", "debiased", "ssl"]
    for most in range(1, 6):
        groups = list(new_groups(risks, most))
        assert sorted(run for group in groups for run in group) == list(range(5))
        assert max(map(len, groups)) <= most
        assert [2] in groups  # a complete case sees no unlabelled row


@pytest.mark.parametrize("settings", [{}, {"optimiser": "adamw", "ema": 0.9}], ids=["sgd", "adamw"])
def test_a_broken_off_group_is_cut_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any]
) -> None:
    data = table()
    runs, plan = sweep(data), plan_of(**settings, select="accuracy")
    whole = train_population(small_mlp, Entropy(), data, runs, plan, keep_logits=True)
    # So few row numbers at once that a smaller group would draw more steps ahead.
    monkeypatch.setattr(population_step, "AHEAD", 6 * 21 * 4)
    broken_off(tmp_path, runs, monkeypatch, plan=plan, keep_logits=True)
    found = train_population(
        small_mlp, Entropy(), data, runs, plan, chunk=4, out=tmp_path, keep_logits=True
    )
    for run, one, other in zip(runs, whole, found, strict=True):
        assert_same(one, other, 1e-5)
        assert_logits_kept(other, data.y[run.draw.validation])
    groups = json.loads((tmp_path / FILE).read_text())
    assert {name: len(group) for name, group in groups.items()} == {
        "population-0": 2,
        "population-1.0": 4,
        "population-1.1": 2,
    }
    assert {place.name for place in tmp_path.iterdir()} == {FILE, *groups}
    # In larger chunks again, groups stay as they are: all of it is finished.
    again = train_population(small_mlp, Entropy(), data, runs, plan, out=tmp_path, keep_logits=True)
    for one, other in zip(found, again, strict=True):
        assert_same(one, other, 0)


def test_a_cut_checkpoint_has_the_runs_to_the_last_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, plan = table(), plan_of()
    runs = sweep(data)
    broken_off(tmp_path, runs, monkeypatch, plan=plan)
    parent = load_checkpoint(tmp_path / "population-1" / "checkpoints" / "step-000000005")
    monkeypatch.setattr("dessl.training.population.drive", lambda *_, **__: None)
    train_population(small_mlp, Entropy(), data, runs, plan, chunk=4, out=tmp_path)
    parts = [
        load_checkpoint(tmp_path / f"population-1.{part}" / "checkpoints" / "step-000000005")
        for part in range(2)
    ]
    for kind, tensors in parent.weights.items():
        for name, value in tensors.items():
            assert torch.equal(torch.cat([part.weights[kind][name] for part in parts]), value)
    histories = [one["history"] for part in parts for one in part.state["members"]]
    assert histories == [one["history"] for one in parent.state["members"]]
    assert [len(part.state["members"]) for part in parts] == [4, 2]
    for number, memory in parent.state["optimiser"]["state"].items():
        joined = [part.state["optimiser"]["state"][number]["momentum_buffer"] for part in parts]
        assert torch.equal(torch.cat(joined), memory["momentum_buffer"])
    large, small = (part.state["seconds"] for part in parts)
    assert large == pytest.approx(2 * small)  # so that each run keeps its share


def test_groups_of_other_runs_are_refused_and_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, plan = table(), plan_of()
    runs = sweep(data)
    broken_off(tmp_path, runs, monkeypatch, plan=plan)
    before = (tmp_path / FILE).read_text()
    other = [dataclasses.replace(run, lam=0.123) for run in runs]
    with pytest.raises(ValueError, match=r"has a different run \(.*different settings of the runs"):
        train_population(small_mlp, Entropy(), data, other, plan, out=tmp_path, chunk=4)
    with pytest.raises(FileExistsError, match="resume=True"):
        train_population(small_mlp, Entropy(), data, runs, plan, out=tmp_path, resume=False)
    assert (tmp_path / FILE).read_text() == before


@pytest.mark.parametrize(
    "text", ["", "[]", '{"population-0": [0, 0]}', '{"../a": [0]}', '{"population-0": 3}', "nope"]
)
def test_a_damaged_list_of_groups_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    data = table()
    with pytest.raises(ValueError, match=rf"{FILE}: expected .* damaged"):
        train_population(small_mlp, Entropy(), data, sweep(data)[:1], plan_of(), out=tmp_path)


def test_a_sweep_from_before_groups_were_kept_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, plan = table(), plan_of()
    runs = sweep(data)
    whole = train_population(small_mlp, Entropy(), data, runs, plan)
    broken_off(tmp_path, runs, monkeypatch, plan=plan)
    (tmp_path / FILE).unlink()
    found = train_population(small_mlp, Entropy(), data, runs, plan, out=tmp_path)
    for one, other in zip(whole, found, strict=True):
        assert_same(one, other, 0)

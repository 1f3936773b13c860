"""The loop: a run that is stopped and resumed is the run that never stopped."""

import json
import math
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from dessl import SemiData
from dessl.surrogates import (
    SURROGATES,
    Entropy,
    FixMatch,
)
from dessl.training import Event, TrainPlan, TrainResult, train


class StopError(Exception):
    pass


class StopAt:
    """A callback that ends the process's part in a run at a step."""

    def __init__(self, step: int) -> None:
        self.step = step

    def __call__(self, event: Event) -> None:
        if event.step == self.step:
            raise StopError


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[key], other[key]) for key in one)


def told(history: tuple[Event, ...]) -> list[dict[str, Any]]:
    """What events say, but for the clock."""
    return [{k: v for k, v in vars(e).items() if k != "steps_per_second"} for e in history]


def assert_same_run(one: TrainResult, other: TrainResult) -> None:
    assert same(one.model.state_dict(), other.model.state_dict())
    assert told(one.history) == told(other.history)
    assert (one.step, one.steps) == (other.step, other.steps)


@pytest.mark.parametrize("name", ["fixmatch", "mean_teacher", "temporal_ensembling", "freematch"])
@pytest.mark.parametrize("optimiser", ["sgd", "adamw", "muon"])
def test_a_resumed_run_ends_bit_identical(
    name: str, optimiser: str, make_data: Any, make_model: Any, make_plan: Any, tmp_path: Path
) -> None:
    plan = make_plan(
        lam=0.3, optimiser=optimiser, schedule="cosine", ramp="ramp", ema=0.9, select="brier"
    )
    whole = train(make_model, SURROGATES[name](seed=1), make_data(), plan)
    for step in (4, 8):
        with pytest.raises(StopError):
            train(
                make_model,
                SURROGATES[name](seed=1),
                make_data(),
                plan,
                out=tmp_path,
                callbacks=[StopAt(step)],
            )
    resumed = train(make_model, SURROGATES[name](seed=1), make_data(), plan, out=tmp_path)
    assert_same_run(whole, resumed)
    again = train(make_model, SURROGATES[name](seed=1), make_data(), plan, out=tmp_path)
    assert_same_run(whole, again)  # a finished run is only read


def test_weights_selected_before_a_stop_are_selected_after_it(
    make_data: Any, make_model: Any, make_plan: Any, tmp_path: Path
) -> None:
    plan = make_plan(select="accuracy")
    whole = train(make_model, Entropy(), make_data(), plan)
    assert whole.step == 4  # or the test shows nothing
    with pytest.raises(StopError):
        train(make_model, Entropy(), make_data(), plan, out=tmp_path, callbacks=[StopAt(8)])
    assert_same_run(whole, train(make_model, Entropy(), make_data(), plan, out=tmp_path))


def test_seconds_are_those_of_all_sessions(
    make_data: Any, make_model: Any, make_plan: Any, tmp_path: Path
) -> None:
    plan, began = make_plan(), time.perf_counter()
    pause = lambda event: time.sleep(0.5 if event.step == 4 else 0.0)  # noqa: E731
    with pytest.raises(StopError):
        train(make_model, Entropy(), make_data(), plan, out=tmp_path, callbacks=[pause, StopAt(8)])
    resumed = train(make_model, Entropy(), make_data(), plan, out=tmp_path)
    assert 0.5 < resumed.seconds < time.perf_counter() - began


def test_lines_after_the_last_checkpoint_come_once(
    make_data: Any, make_model: Any, make_plan: Any, tmp_path: Path
) -> None:
    plan = make_plan()
    with pytest.raises(StopError):
        train(make_model, Entropy(), make_data(), plan, out=tmp_path, callbacks=[StopAt(8)])
    with (tmp_path / "history.jsonl").open("a") as file:  # a kill between line and checkpoint,
        file.write('{"step": 12, "ri')  # and in the middle of the line
    unfinished = tmp_path / "checkpoints" / ".step-000000011"
    unfinished.mkdir()
    train(make_model, Entropy(), make_data(), plan, out=tmp_path)
    assert not unfinished.exists()
    lines = (tmp_path / "history.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [4, 8, 12]


def test_checkpoints_are_no_closer_in_time_than_asked(
    make_data: Any, make_model: Any, make_plan: Any, tmp_path: Path
) -> None:
    plan, rare = make_plan(), {"out": tmp_path, "checkpoint_seconds": 1000.0}
    whole = train(make_model, Entropy(), make_data(), plan)
    with pytest.raises(StopError):
        train(make_model, Entropy(), make_data(), plan, callbacks=[StopAt(8)], **rare)
    assert not list(tmp_path.glob("checkpoints/*"))
    again = train(make_model, Entropy(), make_data(), plan, **rare)
    assert [place.name for place in tmp_path.glob("checkpoints/*")] == ["step-000000012"]
    lines = (tmp_path / "history.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [4, 8, 12]
    for mine, other in zip(again.model.parameters(), whole.model.parameters(), strict=True):
        assert torch.equal(mine, other)
    with pytest.raises(ValueError, match="checkpoint_seconds must lie in"):
        train(make_model, Entropy(), make_data(), plan, checkpoint_seconds=-1.0)


def test_numbers_that_are_not_there_come_back_as_they_were(
    make_data: Any, make_model: Any, make_plan: Any, tmp_path: Path
) -> None:
    data = make_data()
    x, y = data.validation
    one_class = SemiData(data.x, data.y, validation=(x[y == 0], y[y == 0]))
    whole = train(make_model, Entropy(), one_class, make_plan(), out=tmp_path)
    assert math.isnan(whole.history[0].validation["auc"])
    again = train(make_model, Entropy(), one_class, make_plan(), out=tmp_path)
    assert repr(again.history) == repr(whole.history)


def test_what_callbacks_draw_is_not_the_run_s(
    make_data: Any, make_model: Any, make_plan: Any, tmp_path: Path
) -> None:
    def draw(event: Event) -> None:
        torch.rand(event.step)

    whole = train(make_model, Entropy(), make_data(), make_plan())  # with dropout
    drawing = train(make_model, Entropy(), make_data(), make_plan(), callbacks=[draw])
    assert_same_run(whole, drawing)


@pytest.mark.parametrize("kills", [3, pytest.param(30, marks=pytest.mark.slow)])
def test_killed_at_random_moments_nothing_is_lost(kills: int, tmp_path: Path) -> None:
    driver = Path(__file__).with_name("kill_driver.py")
    result = subprocess.run(
        [sys.executable, str(driver), str(tmp_path), str(kills)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    found = json.loads(result.stdout)
    assert found["kills"] == kills
    assert found["identical"] == found["finished"] >= 1


@pytest.mark.parametrize("harm", ["flip", "cut", "remove", "manifest"])
def test_a_damaged_newest_checkpoint_gives_way_to_the_one_before(
    harm: str, make_data: Any, make_model: Any, make_plan: Any, tmp_path: Path
) -> None:
    plan = make_plan(lam=0.3)
    whole = train(make_model, FixMatch(), make_data(), plan)
    with pytest.raises(StopError):
        train(make_model, FixMatch(), make_data(), plan, out=tmp_path, callbacks=[StopAt(8)])
    newest = tmp_path / "checkpoints" / "step-000000008"
    file = newest / ("manifest.json" if harm == "manifest" else "model.safetensors")
    content = bytearray(file.read_bytes())
    if harm == "remove":
        file.unlink()
    elif harm == "flip":
        content[-1] ^= 1
        file.write_bytes(content)
    else:
        file.write_bytes(content[: len(content) // 2])
    with pytest.warns(UserWarning, match=r"step-000000008 is damaged.*Using the previous"):
        resumed = train(make_model, FixMatch(), make_data(), plan, out=tmp_path)
    assert_same_run(whole, resumed)


def test_a_clock_that_stands_still_stops_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "perf_counter", lambda: 5.0)
    data = SemiData(torch.randn(20, 2), torch.arange(20) % 2)
    plan = TrainPlan(steps=2, labelled_batch=4, unlabelled_batch=4, risk="complete_case")
    result = train(lambda: torch.nn.Linear(2, 2), Entropy(), data, plan)
    assert math.isfinite(result.history[-1].steps_per_second)

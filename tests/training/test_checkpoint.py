"""Checkpoints: whole or absent, checked, two of them, and a resumed run that ends bit-identical."""

import json
import math
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from dessl import SemiData
from dessl.surrogates import (
    SURROGATES,
    Combine,
    Entropy,
    FixMatch,
    FlexMatch,
    MeanTeacher,
    Smooth,
    Surrogate,
    Teacher,
)
from dessl.training import CheckpointError, Event, TrainResult, train
from dessl.training.checkpoint import load_checkpoint, newest_checkpoint, save_checkpoint
from dessl.training.folder import sha256_of


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
    with pytest.warns(UserWarning, match=r"step-000000008 is damaged.*The checkpoint before it"):
        resumed = train(make_model, FixMatch(), make_data(), plan, out=tmp_path)
    assert_same_run(whole, resumed)


def test_no_whole_checkpoint_is_an_error(tmp_path: Path) -> None:
    place = save_checkpoint(tmp_path, 1, {"model": {"w": torch.ones(2)}}, {"done": 1})
    (place / "state.pt").write_bytes(b"")
    with (
        pytest.warns(UserWarning, match="state.pt does not have the sha256"),
        pytest.raises(CheckpointError, match="Delete the folder to start the run over"),
    ):
        newest_checkpoint(tmp_path)


def test_a_checkpoint_of_another_format_is_refused(tmp_path: Path) -> None:
    place = save_checkpoint(tmp_path, 1, {}, {"done": 1})
    (place / "manifest.json").write_text('{"format": 99, "sha256": {}}')
    with pytest.raises(CheckpointError, match="has format 99, not 2"):
        load_checkpoint(place)


def test_the_two_newest_are_kept(tmp_path: Path) -> None:
    tied = torch.ones(2)
    for step in (1, 2, 10, 9):
        save_checkpoint(tmp_path, step, {"model": {"a": tied, "b": tied}}, {"done": step})
    assert sorted(p.name for p in tmp_path.iterdir()) == ["step-000000009", "step-000000010"]
    save_checkpoint(
        tmp_path, 10, {"model": {"a": 2 * tied}}, {"done": 10}
    )  # over one that is there
    found = newest_checkpoint(tmp_path)
    assert found is not None
    assert found.state["done"] == 10
    assert found.weights["model"]["a"].tolist() == [2, 2]


def test_a_failed_write_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_checkpoint(tmp_path, 1, {}, {"done": 1})

    def full_disk(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full_disk)
        with pytest.raises(OSError, match="No space left"):
            save_checkpoint(tmp_path, 2, {}, {"done": 2})
    found = newest_checkpoint(tmp_path)
    assert found is not None
    assert found.state["done"] == 1


def test_another_run_s_folder_is_refused(
    make_data: Any, make_model: Any, make_plan: Any, tmp_path: Path
) -> None:
    train(make_model, Entropy(), make_data(), make_plan(), out=tmp_path)
    with pytest.raises(ValueError, match=r"holds another run \(lam: 1.0 there, 0.5 now\)"):
        train(make_model, Entropy(), make_data(), make_plan(lam=0.5), out=tmp_path)
    surrogate = r"'Entropy\(seed=0\)' there, 'MeanTeacher\(decay=0.9, seed=0\)' now"
    with pytest.raises(ValueError, match=surrogate):
        train(make_model, MeanTeacher(decay=0.9), make_data(), make_plan(), out=tmp_path)
    with pytest.raises(ValueError, match=r"'Entropy\(seed=0\)' there, 'Entropy\(seed=1\)' now"):
        train(make_model, Entropy(seed=1), make_data(), make_plan(), out=tmp_path)
    with pytest.raises(
        ValueError, match=r"model: 'Sequential' there, 'Linear' now; .*parameters: "
    ):
        train(lambda: nn.Linear(4, 2), Entropy(), make_data(), make_plan(), out=tmp_path)
    data = make_data()
    fewer = torch.where(torch.arange(120) < 19, data.y, -1)
    x, y = data.validation
    for other in (
        SemiData(data.x, fewer, validation=(x, y)),
        SemiData(-data.x, data.y, validation=(x, y)),
        SemiData(data.x, data.y, validation=(-x, y)),
        SemiData(data.x, data.y, validation=(x, 1 - y)),
        SemiData(data.x, data.y, validation=(x, y), ids=torch.arange(120).flip(0)),
    ):
        with pytest.raises(ValueError, match="data rows_sha256"):
            train(make_model, Entropy(), other, make_plan(), out=tmp_path)
    with pytest.raises(FileExistsError, match=r"holds a run already. Pass resume=True"):
        train(make_model, Entropy(), make_data(), make_plan(), out=tmp_path, resume=False)


class Activated(nn.Module):
    """A model that prints the function it was given, with the function's place in memory."""

    def __init__(self, rate: float = 0.2) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.Dropout(rate), nn.Linear(8, 2))
        self.activation = lambda x: x.relu()

    def extra_repr(self) -> str:
        return f"activation={self.activation}"

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.layers(self.activation(x))
        return logits


def test_a_model_of_the_same_class_and_size_is_known_by_what_it_prints(
    make_data: Any, make_plan: Any, tmp_path: Path
) -> None:
    kept = [Activated()]  # so that the next one's function lies elsewhere
    assert repr(Activated()) != repr(kept[0])
    train(kept[0], Entropy(), make_data(), make_plan(), out=tmp_path)
    train(Activated, Entropy(), make_data(), make_plan(), out=tmp_path)
    with pytest.raises(ValueError, match=r"holds another run \(model_repr_sha256: "):
        train(Activated(0.5), Entropy(), make_data(), make_plan(), out=tmp_path)


def test_a_run_that_noted_less_is_refused(
    make_data: Any, make_model: Any, make_plan: Any, tmp_path: Path
) -> None:
    train(make_model, Entropy(), make_data(), make_plan(), out=tmp_path)
    noted = json.loads((tmp_path / "run.json").read_text())
    del noted["model_repr_sha256"]
    (tmp_path / "run.json").write_text(json.dumps(noted))
    with pytest.raises(ValueError, match=r"\(model_repr_sha256: not noted there, '\w+' now\)"):
        train(make_model, Entropy(), make_data(), make_plan(), out=tmp_path)


@pytest.mark.parametrize("content", ["[]", "", "{", '{"plan": 1}', '{"data": []}'])
def test_a_damaged_note_of_the_run_is_refused_in_words(
    content: str, make_data: Any, make_model: Any, make_plan: Any, tmp_path: Path
) -> None:
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(ValueError, match=r"run.json: expected the plan and data of the run there"):
        train(make_model, Entropy(), make_data(), make_plan(), out=tmp_path)
    assert (tmp_path / "run.json").read_text() == content


def answers(seed: int) -> Tensor:
    """A table of soft labels for each row, those of the validation part included."""
    return torch.rand(160, 2, generator=torch.Generator().manual_seed(seed)).softmax(-1)


class Noting(Entropy):
    """A term whose state is made at once, and of another start."""

    def __init__(self, start: float = 0.0) -> None:
        super().__init__()
        self.start = start
        self.register_buffer("mean", torch.tensor(start))

    def after_step(self, model: Any, rows: Any, scores: Any) -> None:
        self.mean.lerp_(scores.h.mean(), 0.1)


@pytest.mark.parametrize(
    ("there", "now"),
    [
        (Smooth(FlexMatch(0.9)), Smooth(FlexMatch(0.5))),
        (Combine([Entropy(), FixMatch()]), Combine([Entropy(), FixMatch()], weights=[1, 0.5])),
        (Teacher(answers(0)), Teacher(answers(1))),
        (Smooth(Teacher(answers(0))), Smooth(Teacher(answers(1)))),
        (Noting(), Noting(1.0)),
    ],
)
def test_terms_of_terms_are_known_again(
    there: Surrogate,
    now: Surrogate,
    make_data: Any,
    make_model: Any,
    make_plan: Any,
    tmp_path: Path,
) -> None:
    plan = make_plan(lam=0.1, bound="nonnegative")
    train(make_model, there, make_data(), plan, out=tmp_path)
    train(make_model, there, make_data(), plan, out=tmp_path)  # a used one is the same
    with pytest.raises(ValueError, match=r"holds another run \(surrogate: "):
        train(make_model, now, make_data(), plan, out=tmp_path)


def test_tables_of_any_type_have_a_digest() -> None:
    table = torch.rand(3, 2)
    assert sha256_of(table.bfloat16()) == sha256_of(table.bfloat16().clone())
    assert sha256_of(table.bfloat16()) != sha256_of(-table.bfloat16())
    assert len(sha256_of(torch.tensor(True))) == 64


def test_a_call_that_is_refused_leaves_the_folder_free(
    make_data: Any, make_model: Any, make_plan: Any, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match="graph='on' needs CUDA"):
        train(make_model, Entropy(), make_data(), make_plan(graph="on"), out=tmp_path)
    with pytest.raises(ValueError, match="none requires a gradient"):
        train(nn.Identity, Entropy(), make_data(), make_plan(), out=tmp_path)
    train(make_model, Entropy(), make_data(), make_plan(), out=tmp_path, resume=False)


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


def test_a_second_process_is_refused(
    make_data: Any, make_model: Any, make_plan: Any, tmp_path: Path
) -> None:
    code = (
        "import sys; from dessl.training.folder import locked_folder\n"
        f"with locked_folder({str(tmp_path)!r}):\n"
        "    print('held', flush=True); sys.stdin.read()\n"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(RuntimeError, match=rf"another process \(number {holder.pid}\)"):
            train(make_model, Entropy(), make_data(), make_plan(), out=tmp_path)
    finally:
        holder.kill()
        holder.communicate()
    train(make_model, Entropy(), make_data(), make_plan(), out=tmp_path)  # a killed one lets go


def test_all_state_is_loaded_without_unpickling(
    make_data: Any, make_model: Any, make_plan: Any, tmp_path: Path
) -> None:
    surrogate: Surrogate = MeanTeacher()
    train(make_model, surrogate, make_data(), make_plan(optimiser="adamw"), out=tmp_path)
    place = max((tmp_path / "checkpoints").iterdir())
    state = torch.load(place / "state.pt", weights_only=True)
    assert {"optimiser", "surrogate", "streams", "random", "history"} <= state.keys()
    shutil.rmtree(place)


@pytest.mark.parametrize("kills", [5, pytest.param(30, marks=pytest.mark.slow)])
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

"""The progress bar shows where a run is; TensorBoard gets every number."""

import io
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dessl.surrogates import Entropy
from dessl.training import TensorBoard, progress, train


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_a_bar_with_the_last_metrics(
    make_data: Any, make_model: Any, make_plan: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    for shown in (True, False):
        terminal = Terminal()
        monkeypatch.setattr(sys, "stderr", terminal)
        result = train(make_model, Entropy(), make_data(), make_plan(), progress=shown)
        accuracy = result.history[-1].validation["accuracy"]
        text = terminal.getvalue()
        assert ("12/12" in text and f"accuracy, % {100 * accuracy:.1f}" in text) == shown


def test_no_terminal_gets_nothing(
    make_data: Any, make_model: Any, make_plan: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    train(make_model, Entropy(), make_data(), make_plan())
    assert capfd.readouterr() == ("", "")


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_tensorboard_gets_every_number(
    make_data: Any, make_model: Any, make_plan: Any, tmp_path: Path
) -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    board = TensorBoard(tmp_path)
    result = train(make_model, Entropy(), make_data(), make_plan(), callbacks=[board])
    read = accumulator.EventAccumulator(str(tmp_path))
    read.Reload()
    tags = read.Tags()["scalars"]
    assert {"risk", "loss", "lam_opt", "mask_labelled", "validation/accuracy"} <= set(tags)
    steps = [(scalar.step, scalar.value) for scalar in read.Scalars("loss")]
    assert steps == [(e.step, pytest.approx(e.loss)) for e in result.history]


def test_without_tensorboard_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(ImportError, match=r"pip install 'dessl\[tensorboard\]'"):
        TensorBoard("anywhere")


def test_one_bar_for_several_parts_names_them_and_ends_full(
    make_data: Any, make_model: Any, make_plan: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(progress, "SECONDS", 0.0)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with progress.whole_bar(4, shown=True):
        for number in (1, 2):
            with progress.doing(f"network {number}"):
                train(make_model, Entropy(), make_data(), make_plan())
        with progress.doing("pool"):  # and one part fewer than was thought
            pass
    last = [line for line in re.split("[\r\n]", terminal.getvalue()) if "%" in line][-1]
    assert re.search("100 %.*done", last)
    assert "12/12" not in terminal.getvalue()


def test_a_whole_bar_moves_forward_by_parts() -> None:
    moves: list[dict[str, Any]] = []
    bar = SimpleNamespace(update=lambda task, **fields: moves.append(fields))
    whole = progress.WholeBar(bar, 0, parts=2)
    whole.move("a, step 1 of 4", 0.25, 1)
    whole.end(1)  # it stopped early
    whole.move("b", 0.0, 1)
    whole.end(1)
    whole.move("c", 0.5, 1)  # one more than was thought
    assert [move["completed"] for move in moves] == [0.25, 1, 1, 2, 2.5]
    assert moves[-1] == {"completed": 2.5, "total": 3, "what": "c"}


def test_a_part_that_trains_twice_never_moves_back() -> None:
    moves: list[float] = []
    bar = SimpleNamespace(update=lambda task, **fields: moves.append(fields["completed"]))
    whole = progress.WholeBar(bar, 0, parts=1)
    for share in (0.5, 1.0, 0.2, 0.9):
        whole.move("students", share, 1)
    assert moves == [0.5, 1.0, 1.0, 1.0]


def test_trainings_without_a_bar_of_their_own_move_a_bar_of_every_training(
    make_data: Any, make_model: Any, make_plan: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "SECONDS", 0.0)
    seen: list[str] = []
    monkeypatch.setattr(
        progress.MinuteLines, "update", lambda self, _, what="", **__: seen.append(what)
    )
    for every in (False, True):
        with progress.whole_bar(1, shown=True, every=every), progress.doing("students"):
            train(make_model, Entropy(), make_data(), make_plan(), progress=False)
        assert any("students, step" in what for what in seen) == every


def test_no_terminal_gets_no_whole_bar(capfd: pytest.CaptureFixture[str]) -> None:
    with progress.whole_bar(1, shown=True), progress.doing("something"):
        pass
    assert capfd.readouterr() == ("", "")


def test_a_log_gets_a_line_a_minute(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([0.0, 30.0, 61.0, 90.0, 150.0])
    monkeypatch.setattr("dessl.training.progress.time.perf_counter", lambda: next(clock))
    lines = progress.MinuteLines()
    for done, what in ((0.5, "a"), (1.0, "b"), (2.0, "c"), (3.0, "d")):
        lines.update(None, completed=done, total=4.0, what=what)
    assert capfd.readouterr().err.splitlines() == [
        "25 %, 1 min so far, about 3 min left: b",
        "75 %, 2 min so far, less than a minute left: d",
    ]

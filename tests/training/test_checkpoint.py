"""Checkpoints: whole or absent, checked, two of them, and a resumed run that ends bit-identical."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from dessl.surrogates import (
    MeanTeacher,
    Surrogate,
)
from dessl.training import CheckpointError, train
from dessl.training.checkpoint import load_checkpoint, newest_checkpoint, save_checkpoint


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
    with pytest.raises(CheckpointError, match="has format 99, not 3"):
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


def test_all_state_is_loaded_without_unpickling(
    make_data: Any, make_model: Any, make_plan: Any, tmp_path: Path
) -> None:
    surrogate: Surrogate = MeanTeacher()
    train(make_model, surrogate, make_data(), make_plan(optimiser="adamw"), out=tmp_path)
    place = max((tmp_path / "checkpoints").iterdir())
    state = torch.load(place / "state.pt", weights_only=True)
    assert {"optimiser", "surrogate", "streams", "random", "members"} <= state.keys()
    shutil.rmtree(place)

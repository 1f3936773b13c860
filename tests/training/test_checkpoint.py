"""Checkpoints: whole or absent, checked, two of them, and a resumed run that ends bit-identical."""

import hashlib
import io
import json
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
from dessl.training.checkpoint import (
    FORMAT,
    Checkpoint,
    load_checkpoint,
    remove_unfinished,
    save_checkpoint,
    usable_checkpoints,
)


def newest(folder: Path) -> Checkpoint:
    return next(usable_checkpoints(folder))[1]


def test_no_whole_checkpoint_is_an_error(tmp_path: Path) -> None:
    place = save_checkpoint(tmp_path, 1, {"model": {"w": torch.ones(2)}}, {"done": 1})
    (place / "state.pt").write_bytes(b"")
    with (
        pytest.warns(UserWarning, match="state.pt does not have the sha256"),
        pytest.raises(CheckpointError, match="Delete the folder to start the run over"),
    ):
        newest(tmp_path)


def test_a_checkpoint_of_another_format_is_refused(tmp_path: Path) -> None:
    place = save_checkpoint(tmp_path, 1, {}, {"done": 1})
    (place / "manifest.json").write_text('{"format": 99, "sha256": {}}')
    with pytest.raises(CheckpointError, match="has format 99, not 3"):
        load_checkpoint(place)


def test_the_two_newest_are_kept(tmp_path: Path) -> None:
    tied = torch.ones(2)
    for step in (1, 2, 9, 10):
        save_checkpoint(tmp_path, step, {"model": {"a": tied, "b": tied}}, {"done": step})
    assert sorted(p.name for p in tmp_path.iterdir()) == ["step-000000009", "step-000000010"]
    save_checkpoint(
        tmp_path, 10, {"model": {"a": 2 * tied}}, {"done": 10}
    )  # over one that is there
    found = newest(tmp_path)
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
    found = newest(tmp_path)
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


def summed(place: Path, name: str, content: bytes) -> None:
    """Put a file into a checkpoint, with the sha256 that its manifest wants."""
    (place / name).write_bytes(content)
    manifest = json.loads((place / "manifest.json").read_text())
    manifest["sha256"][name] = hashlib.sha256(content).hexdigest()
    (place / "manifest.json").write_text(json.dumps(manifest))


def noted(content: object) -> Any:
    return lambda place: (place / "manifest.json").write_text(json.dumps(content))


def saved_as(state: object) -> bytes:
    buffer = io.BytesIO()
    torch.save(state, buffer)
    return buffer.getvalue()


HARMS = {
    "no sums": noted({"format": FORMAT, "sha256": {}}),
    "a list of sums": noted({"format": FORMAT, "sha256": ["state.pt"]}),
    "a number for sums": noted({"format": FORMAT, "sha256": {"state.pt": 7}}),
    "a list": noted([]),
    "null": noted(None),
    "another folder's file": noted({"format": FORMAT, "sha256": {"../a": "", "state.pt": ""}}),
    "deep": lambda place: (place / "manifest.json").write_text("[" * 100_000),
    "garbage for state": lambda place: summed(place, "state.pt", b"garbage"),
    "garbage for weights": lambda place: summed(place, "model.safetensors", b"garbage"),
    "no dict": lambda place: summed(place, "state.pt", saved_as([1, 2])),
    "not for us": lambda place: summed(place, "state.pt", saved_as({"done": object})),
    "a file": lambda place: (shutil.rmtree(place), place.write_text("mine")),
    "a link": lambda place: (place.rename(place.parent / "b"), place.symlink_to("b")),
    "a link to nothing": lambda place: (shutil.rmtree(place), place.symlink_to("nowhere")),
}


@pytest.mark.parametrize("harm", HARMS)
def test_a_wrong_checkpoint_gives_way_and_is_named(harm: str, tmp_path: Path) -> None:
    for step in (4, 8):
        save_checkpoint(tmp_path, step, {"model": {"w": torch.ones(2)}}, {"done": step})
    HARMS[harm](tmp_path / "step-000000008")
    (tmp_path / "step-notes.txt").write_text("mine")
    with pytest.warns(UserWarning, match="step-000000008 is damaged.*Using the previous"):
        assert newest(tmp_path).state["done"] == 4
    save_checkpoint(tmp_path, 8, {}, {"done": 8})  # in the place of what is there
    assert newest(tmp_path).state["done"] == 8
    assert (tmp_path / "step-notes.txt").read_text() == "mine"


def test_a_file_in_the_place_of_all_checkpoints_is_named(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").write_text("")
    with pytest.raises(CheckpointError, match="checkpoints must be a folder"):
        newest(tmp_path / "checkpoints")


def test_a_link_is_removed_and_what_it_leads_to_is_not(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "a").touch()
    folder = tmp_path / "checkpoints"
    save_checkpoint(folder, 4, {}, {"done": 4})
    (folder / "step-000000008").symlink_to(precious)
    (folder / ".step-000000009").symlink_to(precious)
    remove_unfinished(folder)
    save_checkpoint(folder, 8, {}, {"done": 8})
    assert sorted(p.name for p in folder.iterdir()) == ["step-000000004", "step-000000008"]
    assert (precious / "a").exists()

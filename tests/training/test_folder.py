"""Whose a folder is: what must match to resume, and one process at a time."""

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from dessl import SemiData
from dessl.surrogates import (
    Combine,
    Entropy,
    FixMatch,
    FlexMatch,
    MeanTeacher,
    Smooth,
    Surrogate,
    Teacher,
)
from dessl.training import train
from dessl.training.identity import sha256_of


def test_another_run_s_folder_is_refused(
    make_data: Any, make_model: Any, make_plan: Any, tmp_path: Path
) -> None:
    train(make_model, Entropy(), make_data(), make_plan(), out=tmp_path)
    with pytest.raises(ValueError, match=r"has a different run \(lam: 1.0 there, 0.5 now\)"):
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
        with pytest.raises(ValueError, match="different rows or labels"):
            train(make_model, Entropy(), other, make_plan(), out=tmp_path)
    with pytest.raises(FileExistsError, match=r"already has a run. Pass resume=True"):
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
    with pytest.raises(ValueError, match=r"has a different run \(a different model\)"):
        train(Activated(0.5), Entropy(), make_data(), make_plan(), out=tmp_path)


def test_a_run_that_noted_less_is_refused(
    make_data: Any, make_model: Any, make_plan: Any, tmp_path: Path
) -> None:
    train(make_model, Entropy(), make_data(), make_plan(), out=tmp_path)
    noted = json.loads((tmp_path / "run.json").read_text())
    del noted["model_repr_sha256"]
    (tmp_path / "run.json").write_text(json.dumps(noted | {"dessl": "0.0.1"}))
    words = r"\(model_repr_sha256: missing there, '\w+' now\).* that run and version 0\.0\.1"
    with pytest.raises(ValueError, match=words):
        train(make_model, Entropy(), make_data(), make_plan(), out=tmp_path)


def test_a_run_of_an_earlier_version_says_that_it_cannot_be_resumed(
    make_data: Any, make_model: Any, make_plan: Any, tmp_path: Path
) -> None:
    train(make_model, Entropy(), make_data(), make_plan(), out=tmp_path)
    noted = json.loads((tmp_path / "run.json").read_text())
    del noted["format"]
    (tmp_path / "run.json").write_text(json.dumps(noted | {"dessl": "0.0.1"}))
    with pytest.raises(ValueError, match=r"another version of dessl \(0\.0\.1\).*cannot resume"):
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
    with pytest.raises(ValueError, match=r"has a different run \(surrogate: "):
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


def state_without(place: Path, key: str) -> None:
    """Take one entry out of a checkpoint's state, with a sha256 that fits."""
    state = torch.load(place / "state.pt", weights_only=True)
    del state[key]
    torch.save(state, place / "state.pt")
    manifest = json.loads((place / "manifest.json").read_text())
    content = (place / "state.pt").read_bytes()
    manifest["sha256"]["state.pt"] = hashlib.sha256(content).hexdigest()
    (place / "manifest.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize("key", ["done", "seconds", "members", "random", "optimiser", "streams"])
def test_a_checkpoint_that_lacks_something_gives_way(
    key: str, make_data: Any, make_model: Any, make_plan: Any, tmp_path: Path
) -> None:
    plan = make_plan(select="accuracy", ema=0.9)
    whole = train(make_model, Entropy(), make_data(), plan, out=tmp_path)
    state_without(tmp_path / "checkpoints" / "step-000000012", key)
    with pytest.warns(UserWarning, match=f"step-000000012 is damaged: it lacks '{key}'"):
        resumed = train(make_model, Entropy(), make_data(), plan, out=tmp_path)
    assert len(resumed.history) == len(whole.history)
    for one, other in zip(resumed.model.parameters(), whole.model.parameters(), strict=True):
        assert torch.equal(one, other)


def test_the_next_run_sweeps_what_killed_ones_left(
    make_data: Any, make_model: Any, make_plan: Any, tmp_path: Path
) -> None:
    train(make_model, Entropy(), make_data(), make_plan(), out=tmp_path)
    before = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*"))
    checkpoints = tmp_path / "checkpoints"
    for litter in (".run.json.0123abcd", ".history.jsonl.89efcdab"):
        (tmp_path / litter).write_text("{")
    shutil.copytree(checkpoints / "step-000000008", checkpoints / "step-000000004")
    shutil.copytree(checkpoints / "step-000000008", checkpoints / ".step-000000016")
    shutil.copytree(checkpoints / "step-000000008", checkpoints / ".step-000000001.old")
    (tmp_path / ".run.json.mine").write_text("kept: not one of ours")
    train(make_model, Entropy(), make_data(), make_plan(), out=tmp_path)
    (tmp_path / ".run.json.mine").unlink()
    assert sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*")) == before


def test_a_file_is_no_folder_for_a_run(
    make_data: Any, make_model: Any, make_plan: Any, tmp_path: Path
) -> None:
    (tmp_path / "run").write_text("notes")
    with pytest.raises(FileExistsError, match=r"run is a file.*Choose another name"):
        train(make_model, Entropy(), make_data(), make_plan(), out=tmp_path / "run")

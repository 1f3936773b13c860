import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch


@pytest.fixture(scope="module")
def pool(script: Callable[[str], ModuleType]) -> ModuleType:
    return script("outside_teacher_pool")


def record(pool: ModuleType, data: str, losses: tuple[float, ...]) -> dict:
    scores = {
        name: {"cross_entropy": loss} for name, loss in zip(pool.METHODS, losses, strict=True)
    }
    return {"data": data, "teacher": "good", "scores": scores}


def test_tables_have_means_and_differences(pool: ModuleType) -> None:
    losses = ((0.5, 0.4, 0.3, 0.6, 0.35), (0.5, 0.45, 0.3, 0.6, 0.35))
    some = [record(pool, "embeddings", one) for one in losses]
    other = record(pool, "moons", losses[0])
    found = pool.summary([*some, other])
    assert list(found["worlds"]) == ["embeddings", "teacher: good"]
    first = found["worlds"]["embeddings"]
    assert first["cross_entropy"]["student"] == pytest.approx(0.425)
    change = first["student - default"]
    assert change["mean"] == pytest.approx(-0.075)
    assert (change["cells"], change["lower"]) == (2, 2)
    assert change["low"] < -0.1
    page = pool.page(found)
    assert "| embeddings | 2 | 0.500 | 0.425 | 0.300 | 0.600 |" in page
    assert "−0.075" in page


def test_worlds_have_the_teachers_of_the_trial(pool: ModuleType) -> None:
    for name, n_classes, share in (("embeddings", 4, 0.7), ("digits-trial", 10, 0.8)):
        x, y, said = pool.world(name, 0)
        assert len(x) == len(y) == len(said)
        assert len(torch.unique(y)) == n_classes
        assert float((said == y).double().mean()) == pytest.approx(share, abs=0.05)


def test_a_cell_has_all_models_and_is_not_run_twice(
    pool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = {"hidden": (8,), "steps": 10, "student_steps": 10, "unlabelled_batch": 16}
    setting = pool.NetworkSetting(**short)
    monkeypatch.setattr(pool, "NetworkSetting", lambda: setting)
    default = pool.DeSSLClassifier
    monkeypatch.setattr(
        pool, "DeSSLClassifier", lambda random_state: default(random_state=random_state, steps=10)
    )
    words = ["--cells", tmp_path, "--out", tmp_path, "--draws", 1, "--only", "digits-trial"]
    monkeypatch.setattr(sys, "argv", ["outside_teacher_pool.py", *map(str, words)])
    pool.main()
    file = tmp_path / "digits-trial-150-confuses-classes-0.json"
    assert set(json.loads(file.read_text())["scores"]) == set(pool.METHODS)
    monkeypatch.setattr(pool, "measured", lambda cell: pytest.fail("measured again"))
    pool.main()
    assert (tmp_path / "outside_teacher_pool.md").exists()

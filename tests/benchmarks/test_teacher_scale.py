import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest


@pytest.fixture(scope="module")
def scale(script: Callable[[str], ModuleType]) -> ModuleType:
    return script("teacher_scale")


def test_files_have_gold_labels_and_answers(
    scale: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scale, "TEST", 50)
    for form in ("csv", "npy"):
        scale.write(tmp_path, 400, form)
    x, y, said = (np.load(tmp_path / f"{name}.npy") for name in ("x", "y", "said"))
    assert x.shape == (450, scale.COLUMNS)
    assert 0.6 < float((y == said).mean()) < 0.95
    lines = (tmp_path / "rows.csv").read_text().splitlines()
    assert lines[0].endswith("x24,gold,said")
    assert [line.split(",")[-2] != "" for line in lines[1:]] == [True] * 300 + [False] * 100


def test_a_size_that_is_there_is_not_run_again(
    scale: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def measured(words: list[str], *, check: bool) -> None:
        asked.append(words[words.index("--rows") + 1])
        Path(words[words.index("--one") + 1]).write_text(json.dumps({"seconds": 1.0}))

    monkeypatch.setattr(scale.subprocess, "run", measured)
    place = tmp_path / "found.json"
    words = ["--rows", "10", "20", "--methods", "DeSSLClassifier", "--out", str(place)]
    monkeypatch.setattr(sys, "argv", ["teacher_scale.py", *words])
    for _ in range(2):
        scale.main()
    assert asked == ["10", "20"]
    assert json.loads(place.read_text())["methods"]["DeSSLClassifier"]["20"] == {"seconds": 1.0}

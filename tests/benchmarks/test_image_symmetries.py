import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest


def record(accuracy: float, symmetries: list[str], draw: int = 0) -> dict[str, object]:
    scores = {"accuracy": accuracy, "cross_entropy": 1 - accuracy, "brier": 1 - accuracy}
    return {
        "set": "cells", "labels": 250, "draw": draw, "device": "cpu", "processor_seconds": 30.0,
        "scores": {"default": scores}, "symmetries": symmetries,
    }  # fmt: skip


def test_differences_are_paired_over_draws(script: Callable[[str], ModuleType]) -> None:
    symmetries = script("image_symmetries")
    still = record(0.8, [])
    pairs = [
        {"with": {**record(0.9, ["flip", "turn"]), "processor_seconds": 45.0}, "without": still},
        {"with": still, "without": still},
    ]
    line = symmetries.table(pairs).splitlines()[2]
    assert line.startswith("| cells | 250 | cpu | 2 | 1 | 0 | 1 | 85.0 ± 63.5 | +5.0 ± 63.5 |")
    assert line.endswith("| 38 | 1.25 |")
    assert symmetries.gains(pairs, "accuracy", 100) == [pytest.approx(10), 0]


def test_a_fit_without_them_is_made_only_if_some_are_safe(
    script: Callable[[str], ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    symmetries = script("image_symmetries")
    fits = []

    def measured(name: str, n: int, draw: int, *rest: object, probe: bool) -> dict[str, object]:
        fits.append((draw, probe))
        return record(0.9, ["flip"] if probe and draw else [], draw)

    monkeypatch.setattr(symmetries, "measured", measured)
    assert symmetries.pair(tmp_path, "cells", 250, 0, "cpu", None, late=True) is None
    for _ in range(2):  # the second time, from files
        pairs = [symmetries.pair(tmp_path, "cells", 250, draw, "cpu", None) for draw in (0, 1)]
    assert fits == [(0, True), (1, True), (1, False)]
    assert pairs[0]["without"] == pairs[0]["with"]
    assert pairs[1]["with"]["symmetries"] == ["flip"]
    assert json.loads((tmp_path / "cells-250-cpu-1-still.json").read_text()) == pairs[1]["without"]

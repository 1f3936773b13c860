"""A tiny run of the benchmark of labels that are not missing at random."""

from collections.abc import Callable
from types import ModuleType

import numpy as np
import pytest


def test_labels_depend_on_x_or_on_the_class(script: Callable[[str], ModuleType]) -> None:
    module = script("weighted_pool")
    x, y = np.random.default_rng(0).normal(size=(400, 3)), np.arange(400) % 2
    by_class = module.chances("class", x, y, 100)
    assert by_class[y == 0].mean() == pytest.approx(3 * by_class[y == 1].mean())
    assert by_class.sum() == pytest.approx(100)
    by_x = module.chances("x", x, y, 100)
    assert by_x.min() >= module.FEWEST
    assert np.unique(by_x).size > 300


def test_a_smoke_run_measures_every_model(
    script: Callable[[str], ModuleType], capsys: pytest.CaptureFixture[str]
) -> None:
    script("weighted_pool").main(["--smoke"])
    line = capsys.readouterr().out.strip().splitlines()[-1]
    assert line.startswith("| x | breast_cancer | 1 | 0.")

"""The benchmark of λ that follows the run: its rows are apart, its table is paired."""

from collections.abc import Callable
from types import ModuleType

import pytest
import torch


@pytest.mark.parametrize("name", ["digits", "breast_cancer", "wine"])
def test_parts_are_apart(script: Callable[[str], ModuleType], name: str) -> None:
    module = script("online_lambda")
    (data, y), n = module.drawn(name, 1), module.SETS[name]
    assert len(y) == len(data)
    assert data.n_labelled + len(data.validation.y) == n
    assert len(data.validation.y) == round(module.HELD_OUT * n)
    parts = (data.x, data.test.x, torch.cat([data.x, data.test.x]))
    own, tested, both = (len(torch.unique(part, dim=0)) for part in parts)
    assert both == own + tested


def test_differences_are_paired_over_draws(script: Callable[[str], ModuleType]) -> None:
    module = script("online_lambda")
    ways = {"complete case": 0.0, "debiased, online λ": -0.1}
    records = [
        {
            "set": name, "term": term, "way": way, "draw": draw, "lam": 0.5, "lams": None,
            "log_loss": draw + added, "accuracy": 0.9,
        }
        for name in module.SETS
        for term in module.TERMS
        for way, added in ways.items()
        for draw in range(3)
    ]  # fmt: skip
    last = "| digits | entropy | debiased, online λ | 0.50 | 90.0 | 0.900 | -0.100 ± 0.000 |"
    assert module.table(records).splitlines()[3] == last


def test_one_teacher_is_mostly_right_and_the_other_guesses(
    script: Callable[[str], ModuleType],
) -> None:
    module = script("online_lambda")
    y = torch.arange(6000) % 3
    right = [
        float((term.probabilities.argmax(1) == y).float().mean())
        for term in module.teachers(y, 3, 0).terms
    ]
    assert right == pytest.approx([0.85 + 0.15 / 3, 1 / 3], abs=0.02)
    said = module.teachers(y, 3, 0).terms[0].probabilities.amax(1)
    torch.testing.assert_close(said, torch.full((6000,), 0.9))

import json
import math
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch


@pytest.fixture(scope="module")
def gate(script: Callable[[str], ModuleType]) -> ModuleType:
    return script("answers_gate")


def test_the_mixture_of_gold_rows_is_undone(
    gate: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A short run: doubting what was undone gives the loss that the report decided by."""
    import tree_students  # where the networks are trained

    short = {"hidden": (8,), "steps": 10, "student_steps": 10, "unlabelled_batch": 16}
    setting = tree_students.NetworkSetting(**short)
    monkeypatch.setattr(tree_students, "NetworkSetting", lambda: setting)
    seen: list[Any] = []
    monkeypatch.setattr(
        gate, "decided", lambda *args, **names: seen.append(decided(*args, **names)) or seen[-1]
    )
    from dessl.teachers.student import decided

    found = gate.measured(gate.Cell("hostile", 40, "right 0.9", 0))
    choice = seen[0].report.with_answers
    doubted = found["forms"][gate.DOUBTED]
    assert doubted["over without"][0] == pytest.approx(choice.without_loss - choice.pooled_loss)
    assert doubted["over alone"] == pytest.approx(
        (choice.alone_loss - choice.pooled_loss, choice.alone_error), abs=1e-6
    )
    assert gate.kept(found, gate.DOUBTED, (1.0, 0.5)) is choice.kept
    assert found["forms"][gate.AS_IT_IS]["new rows"] < 1


def test_a_teacher_that_is_right_on_a_share(gate: ModuleType) -> None:
    y = torch.arange(30_000) % 3
    found = gate.said("right 0.9", torch.zeros(len(y), 1), y, 0)
    counts = torch.stack([((found - y) % 3 == shift).double().mean() for shift in range(3)])
    torch.testing.assert_close(counts, torch.tensor([0.9, 0.05, 0.05]).double(), atol=0.007, rtol=0)


@pytest.mark.parametrize(
    ("bars", "used"), [((1.0, 1.0), False), ((1.0, 0.5), True), ((-math.inf, -math.inf), True)]
)
def test_both_bars_count(gate: ModuleType, bars: tuple[float, float], *, used: bool) -> None:
    forms = {"as it is": {"over without": (0.3, 0.1), "over alone": (0.07, 0.1), "new rows": 0.4}}
    record = {"forms": forms, "weight": 0.5}
    assert gate.kept(record, "as it is", bars) is used
    assert not gate.kept({**record, "weight": 0.0}, "as it is", bars)


def test_the_committed_page_is_that_of_its_numbers(gate: ModuleType) -> None:
    results = Path(gate.__file__).parent / "results"
    found: dict[str, Any] = json.loads((results / "answers_gate.json").read_text())
    assert gate.page(found) == (results / "answers_gate.md").read_text()
    assert found["runs"] == len(gate.cells(gate.DRAWS))

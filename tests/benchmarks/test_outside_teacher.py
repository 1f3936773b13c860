from collections.abc import Callable
from types import ModuleType

import pytest
import torch

from dessl.evaluation import metrics_from_probabilities


@pytest.fixture(scope="module")
def outside(script: Callable[[str], ModuleType]) -> ModuleType:
    return script("outside_teacher")


def test_teachers_are_what_they_are_called(outside: ModuleType) -> None:
    g = torch.Generator().manual_seed(0)
    x, y = torch.randn(4000, 3, generator=g), torch.randint(3, (4000,), generator=g)

    def metrics(kind: str):
        return metrics_from_probabilities(outside.answers_of(kind, x, y, seed=1), y)

    good, noisy, sure = metrics("good"), metrics("noisy"), metrics("overconfident")
    assert good.ece < 0.03
    assert good.accuracy > noisy.accuracy + 0.1
    assert sure.accuracy == noisy.accuracy
    assert sure.ece > 0.15
    assert metrics("shuffled").accuracy == pytest.approx(1 / 3, abs=0.03)
    assert metrics("inverted").accuracy < 0.05
    permuted = outside.answers_of("permuted", x, y, seed=1)
    assert torch.equal(permuted.roll(-1, dims=1), outside.answers_of("good", x, y, seed=1))
    biased = [metrics(f"biased {s}").accuracy for s in outside.STRENGTHS]
    assert biased == sorted(biased, reverse=True)
    assert biased[-1] < good.accuracy - 0.2
    hard = outside.answers_of("hard", x, y, seed=1)
    assert torch.equal(hard, outside.answers_of("biased 0.6", x, y, seed=1).argmax(1))
    region = metrics("region 0.4")
    assert region.accuracy == pytest.approx(good.accuracy * 0.8, abs=0.04)


def test_every_data_set_has_rows_for_its_gold_labels(outside: ModuleType) -> None:
    for name, sizes in outside.SETS.items():
        x, y = outside.rows_of(name)
        assert x.shape == (len(y), x.shape[1])
        assert len(y) - len(y) // 4 > max(sizes) + 10
        assert int(y.min()) == 0
        assert len(y.unique()) == int(y.max()) + 1


def test_the_table_counts_cells_that_are_surely_worse_and_better(outside: ModuleType) -> None:
    def record(draw: int, teacher: str, gap: float) -> dict:
        scores = {
            "gold only": {"cross_entropy": 1.0 + draw, "accuracy": 0.5},
            "ours": {"cross_entropy": 1.0 + draw + gap + 0.001 * draw, "accuracy": 0.6},
        }
        return {"data": "d", "n_gold": 100, "teacher": teacher, "draw": draw, "scores": scores}

    records = [record(d, t, gap) for d in range(3) for t, gap in (("good", -0.1), ("noisy", 0.2))]
    found = outside.gaps(records, "cross_entropy")
    assert found["ours"]["d, 100, good"].mean == pytest.approx(-0.099)
    both = outside.table(found, ("good", "noisy"))
    assert "| ours | 2 | +0.051 (" in both
    assert "| 1 | 1 | +0.201 |" in both
    assert "| ours | 1 | -0.099 | 0 | 1 | -0.099 |" in outside.table(found, ("good",))

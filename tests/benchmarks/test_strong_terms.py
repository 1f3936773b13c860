from collections.abc import Callable
from types import ModuleType

import torch

from dessl import SemiData


def record(name: str, draw: int, gain: float) -> dict[str, object]:
    def scores(accuracy: float) -> dict[str, float]:
        return {"accuracy": accuracy, "cross_entropy": 1 - accuracy, "brier": 0.1}

    methods = {
        "complete case": scores(0.5),
        "DeFixMatch": scores(0.6),
        "DeSoftMatch": scores(0.6 + gain),
        "DeFixMatch, pooled": scores(0.7),
        "DeSoftMatch, pooled": scores(0.7 - gain),
    }
    judges = {"hidden": methods, "test": methods}
    return {"set": name, "labels": 1000, "draw": draw, "scores": judges}


def test_differences_are_means_over_draws_and_then_over_sets(
    script: Callable[[str], ModuleType],
) -> None:
    terms = script("strong_terms")
    records = [record("a", 0, 0.1), record("a", 1, 0.3), record("b", 0, 0.1)]
    lines = terms.table(records).splitlines()
    row = "50.0 ± 0.0 | 60.0 ± 0.0 | 80.0 ± 127.1 | 70.0 ± 0.0 | 50.0 ± 127.1"
    assert f"| a | 1,000 | 2 | accuracy | {row} |" in lines
    assert "| b | 1,000 | 1 | cross-entropy | 0.500 | 0.400 | 0.300 | 0.300 | 0.400 |" in lines
    gains = [line for line in lines if line.startswith("- DeSoftMatch minus DeFixMatch")]
    assert gains == 2 * [
        "- DeSoftMatch minus DeFixMatch: accuracy +15.00 ± 63.53, cross-entropy -0.150 ± 0.635 "
        "(over 2 sets)",
        "- DeSoftMatch minus DeFixMatch, pooled: accuracy -15.00 ± 63.53, cross-entropy +0.150 ± "
        "0.635 (over 2 sets)",
    ]


def test_hidden_rows_are_unlabelled_and_have_their_own_labels(
    script: Callable[[str], ModuleType],
) -> None:
    terms = script("strong_terms")
    whole = SemiData(torch.arange(30)[:, None].float(), torch.arange(30) % 3)
    terms.load = lambda name, download: whole
    known = torch.where(torch.arange(30) < 10, whole.y, -1)
    x, y = terms.hidden_rows(SemiData(whole.x, known, class_names=["0", "1", "2"]), "any")
    numbers = x[:, 0].long()
    assert numbers.sort().values.tolist() == list(range(10, 30))
    assert y.tolist() == (numbers % 3).tolist()

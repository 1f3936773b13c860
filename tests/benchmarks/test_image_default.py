from collections.abc import Callable
from types import ModuleType


def test_the_table_has_a_line_for_each_set_and_device(
    script: Callable[[str], ModuleType],
) -> None:
    default = script("image_default")
    scores = {
        "default": {"accuracy": 0.9, "cross_entropy": 0.3, "brier": 0.2},
        "complete case": {"accuracy": 0.5, "cross_entropy": 1.2, "brier": 0.6},
    }
    one = {"set": "cifar10", "labels": 250, "draw": 0, "scores": scores, "seconds": 60.0}
    records = [
        {**one, "device": "cuda", "symmetries": ["flip", "upside_down", "turn"]},
        {**one, "device": "cuda", "draw": 1, "symmetries": ["flip"]},
        {**one, "device": "cpu", "symmetries": []},
    ]
    lines = default.table(records).splitlines()
    cells = "90.0 | 50.0 | +40.0 | 0.300 | 1.200 | -0.900 | -0.400"
    assert lines[2] == f"| cifar10 | 250 | cpu | 1 | {cells} | 0 of 1 | 0 of 1 | 60 |"
    assert lines[3].startswith("| cifar10 | 250 | cuda | 2 | 90.0 ± 0.0 | 50.0 ± 0.0 | +40.0 ± 0.0")
    assert "| 2 of 2 | 1 of 2 | 60 |" in lines[3]

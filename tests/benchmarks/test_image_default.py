from collections.abc import Callable
from types import ModuleType

import pytest
import torch


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


def test_defaults_with_the_same_labels_are_side_by_side(
    script: Callable[[str], ModuleType],
) -> None:
    def run(device: str, accuracy: float, draw: int = 0) -> dict[str, object]:
        scores = {"accuracy": accuracy, "cross_entropy": 1 - accuracy}
        both = {"default": scores, "complete case": {"accuracy": 0.5, "cross_entropy": 0.7}}
        return {"set": "mnist", "labels": 100, "draw": draw, "device": device, "lam": 0.5,
                "scores": both}  # fmt: skip

    runs = [run("cuda", 0.9), run("cpu", 0.8), run("cpu", 0.1, draw=1)]
    lines = script("image_default").side_by_side(runs).splitlines()
    assert lines[2:] == [
        "| mnist | 100 | 0 | DeSoftMatch | 90.0, 0.100 | 50.0, 0.700 | 80.0, 0.200 | – |"
    ]


@pytest.mark.parametrize("channels", [1, 3])
def test_a_folder_gives_back_every_pixel_and_label(
    script: Callable[[str], ModuleType], channels: int
) -> None:
    x = torch.randint(256, (12, channels, 5, 6), dtype=torch.uint8)
    y = torch.tensor([4, -1, 0, -1, 10, 4, -1, 0, 10, -1, -1, 4])  # no row of the other classes
    read_x, read_y = script("image_default").through_folder(x, y)
    assert torch.equal(read_x, x)
    assert torch.equal(read_y, y)

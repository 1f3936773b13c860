import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch

Script = Callable[[str], ModuleType]


def test_the_network_has_the_published_number_of_parameters(script: Script) -> None:
    model = script("image_sizes").resnet_50()
    assert sum(p.numel() for p in model.parameters()) == 25_557_032
    assert model.eval()(torch.rand(1, 3, 64, 64)).shape == (1, 1000)


@pytest.mark.slow
def test_a_smoke_run_measures_images(script: Script, tmp_path: Path) -> None:
    out = tmp_path / "sizes.json"
    script("image_sizes").main(["--smoke", "--out", str(out)])
    for its in json.loads(out.read_text())["cases"].values():
        assert its["mode"] == "eager"
        assert its["images/s"] == pytest.approx(3 * its["steps/s"])
        assert its["seconds of views of 8 GPUs' rows"] > 0

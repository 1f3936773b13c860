import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

Script = Callable[[str], ModuleType]
RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"


def test_a_sparse_file_is_an_array_of_zeros(script: Script, tmp_path: Path) -> None:
    script("streaming").sparse_npy(tmp_path / "a.npy", 7, (2, 3), "float32")
    assert np.array_equal(np.load(tmp_path / "a.npy"), np.zeros((7, 2, 3), np.float32))


def test_committed_memory_is_flat_and_speed_within_a_fifth() -> None:
    found = json.loads((RESULTS / "streaming.json").read_text())
    peaks = [one["MB at the peak"] for one in found["memory"]]
    sizes = [one["gigabytes"] for one in found["memory"]]
    assert max(sizes) >= 20 * min(sizes)
    assert max(peaks) - min(peaks) < 40
    assert max(one["rows"] for one in found["memory"]) >= 10**8
    for ways in found["speed"].values():
        assert ways["from disk"]["ratio"] > 0.8


def test_a_gpu_fed_from_elsewhere_is_committed_within_a_twentieth() -> None:
    found = json.loads((RESULTS / "streaming-h200.json").read_text())
    assert found["machine"]["device"] == "NVIDIA H200"
    assert min(way["ratio"] for way in found["device"].values()) > 0.95


@pytest.mark.slow
def test_a_smoke_run_measures(script: Script, tmp_path: Path) -> None:
    out = tmp_path / "streaming.json"
    script("streaming").main(["memory", "speed", "device", "--smoke", "--out", str(out)])
    found = json.loads(out.read_text())
    assert set(found["device"]) == {"device", "host memory", "disk"}
    assert len(found["memory"]) == 2

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
import torch

from dessl.models import wrn_28_2

Script = Callable[[str], ModuleType]


@pytest.mark.slow
def test_a_smoke_run_measures_steps(
    script: Script, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    step = script("step")
    out = tmp_path / "step.json"
    step.main(["--smoke", "--out", str(out)])
    found, printed = json.loads(out.read_text()), capsys.readouterr().out
    assert set(found["ways"]) == set(step.SMOKE)
    for name, way in found["ways"].items():
        assert way["mode"] == "eager"
        assert f"{name:<32} {way['steps/s']:8.2f} steps/s" in printed
        assert way["share of floor"] == pytest.approx(way["steps/s"] * way["floor"]["seconds"])


def test_kernels_are_sorted_by_kind(script: Script) -> None:
    kind_of = script("step_profile").kind_of
    kinds = {
        "sm90_xmma_wgrad_indexed_implicit_gemm_bf16": "gradients of weights",
        "sm90_xmma_dgrad_implicit_gemm_bf16": "gradients of inputs",
        "sm90_xmma_fprop_implicit_gemm_bf16": "convolutions",
        "triton_red_fused__native_batch_norm_39": "statistics and other sums",
        "triton_poi_fused_add_38": "element by element",
        "nvjet_sm90_tst_32x512": "matrix products",
        "Memset (Unknown)": "copies",
        "anything": "other",
    }
    assert {name: kind_of(name) for name in kinds} == kinds


@pytest.mark.slow
def test_a_smoke_run_of_the_profile(script: Script, tmp_path: Path) -> None:
    out = tmp_path / "profile.json"
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "CUDA is not available")
        script("step_profile").main(["--smoke", "--out", str(out)])
    assert json.loads(out.read_text())["steps/s"]["default"]["median"] > 0


def test_operations_and_bytes_of_the_floor(script: Script) -> None:
    floor = script("floor")
    device = torch.device("cpu")
    joint = floor.least_time([(1024, True)], 1e12, 1e12, device)
    apart = floor.least_time([(512, False), (576, True)], 1e12, 1e12, device)
    assert joint["Tflop"] == pytest.approx(1024 * 1.285234176e-3, rel=1e-6)  # as models.py counts
    assert 0.7 < apart["Tflop"] / joint["Tflop"] < 0.8  # a quarter less
    stem = 2 * (3 * 32 * 32 + 16 * 32 * 32)  # bf16 in and out of the first convolution
    model = torch.nn.Sequential(wrn_28_2().stem)
    assert floor.moved_bytes(model, [(2, False)]) == 2 * stem


def test_the_cpu_benchmark_runs(
    script: Script, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    cpu = script("cpu")
    monkeypatch.setattr(cpu, "MODELS", {"mlp": cpu.MODELS["mlp"]})
    out = tmp_path / "cpu.json"
    cpu.main(["--smoke", "--out", str(out)])
    found = json.loads(out.read_text())
    assert found["memory"]["peak, MB"] > 0
    for kind in ("clock", "processor"):
        times = [found["overhead"]["mlp"][f"{loop}, ms ({kind})"] for loop in ("ours", "bare")]
        assert found["overhead"]["mlp"][f"overhead ({kind})"] == pytest.approx(
            times[0] / times[1] - 1
        )

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def test_a_smoke_run_writes_its_table(tmp_path: Path) -> None:
    pytest.importorskip("ppi_py", reason="ppi-python is an extra for benchmarks")
    run = subprocess.run(
        [sys.executable, "-m", "benchmarks.coverage", "--smoke", "--out", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=True,
    )
    report = json.loads((tmp_path / "coverage.json").read_text())
    intervals = {result["interval"] for result in report["results"]}
    glide = {"glide-py"} if importlib.util.find_spec("glide") else set()
    assert intervals == glide | {
        "score",
        "leverage_t",
        "cross_fit",
        "bootstrap",
        "Student t",
        "Wilson",
        "ppi-python",
    }
    for result in report["results"]:
        missed = result["missed_below"] + result["missed_above"]
        assert abs(result["coverage"] + missed - 1) < 1e-5
        assert 0 < result["width"] <= 2
        assert f"{100 * result['coverage']:.1f}" in run.stdout
    assert (tmp_path / "coverage.md").read_text() in run.stdout
    assert report["machine"]["ppi-python"] in run.stdout

import json
from itertools import pairwise
from pathlib import Path

import pytest

from dessl.models import MODELS


@pytest.fixture(scope="module")
def benchmark(script):
    return script("models")


def test_every_network_is_measured(benchmark) -> None:
    assert set(benchmark.CASES) == set(MODELS)


def test_a_smoke_run_writes_what_it_prints(benchmark, tmp_path: Path, capsys) -> None:
    out = tmp_path / "models.json"
    benchmark.main(["--smoke", "--only", "mlp", "lenet", "--out", str(out)])
    report = json.loads(out.read_text())
    printed = capsys.readouterr().out
    assert [result["name"] for result in report["results"]] == ["mlp", "lenet"]
    for result in report["results"]:
        assert f"{result['rows_per_second']:,.0f}" in printed
        assert 0 < result["slowest"] <= result["rows_per_second"] <= result["fastest"]
        share = result["tflops"] / report["peak_tflops"]
        assert result["share_of_peak"] == pytest.approx(share)
    assert report["machine"]["torch"] in printed


def test_operations_are_counted_by_hand_too(benchmark, tmp_path: Path) -> None:
    out = tmp_path / "models.json"
    benchmark.main(["--smoke", "--only", "mlp", "--out", str(out)])
    widths = [64, 256, 256, 256, 10]
    products = [a * b for a, b in pairwise(widths)]
    # forward, gradient of the weights, and gradient of the input but for the first layer's
    expected = 2 * (3 * sum(products) - products[0])
    assert json.loads(out.read_text())["results"][0]["gflop_per_row"] * 1e9 == pytest.approx(
        expected
    )

import json
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def benchmark(script):
    return script("population")


def test_the_figure_is_the_papers(benchmark) -> None:
    setting = benchmark.FIGURE
    assert setting.runs == 210
    steps = (setting.labels - setting.validation) // setting.labelled
    assert steps * benchmark.EPOCHS * setting.runs == 2_580_480


def test_a_smoke_run_writes_what_it_prints(benchmark, tmp_path: Path, capsys) -> None:
    out = tmp_path / "population.json"
    benchmark.main(["--smoke", "--out", str(out)])
    report = json.loads(out.read_text())
    printed = capsys.readouterr().out
    ways = {rate["way"]: rate for rate in report["rates"]}
    assert len(ways) == 4
    for rate in ways.values():
        assert 0 < rate["slowest"] <= rate["model_steps_per_second"] <= rate["fastest"]
        assert f"{rate['model_steps_per_second']:,.0f} model-steps/s" in printed
    ratio = report["model_steps_per_second"] / ways["eager loop"]["model_steps_per_second"]
    assert report["times_eager"] == pytest.approx(ratio)
    seconds = report["figure_model_steps"] / report["model_steps_per_second"]
    assert report["figure_minutes"] == pytest.approx(seconds / 60)

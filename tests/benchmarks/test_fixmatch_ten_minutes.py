import json
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats

from dessl.models import FastCifar

KEPT = {"n", "accuracy", "worst_class_accuracy", "cross_entropy", "brier", "ece"}


@pytest.fixture(scope="module")
def benchmark(script):
    return script("fixmatch_ten_minutes")


@pytest.mark.parametrize(
    ("options", "judge"), [((), "80 test rows"), (("--validation", "20"), "20 held-out labels")]
)
def test_a_training_is_measured_as_it_is_and_with_mirror_images(
    benchmark, options, judge: str, tmp_path: Path, capsys, no_public_sets
) -> None:
    with no_public_sets():
        benchmark.main(["--smoke", *options, "--out", str(tmp_path / "out.json")])
    found = json.loads((tmp_path / "out.json").read_text())
    assert found["judged_on"] == judge
    assert set(found["as_it_is"]) == set(found["mirrored"]) == KEPT
    assert found["as_it_is"] != found["mirrored"]
    if options:
        assert found["metrics"] == {}
        last = found["history"][-1]["validation"]
    else:
        last = found["metrics"]
    assert found["as_it_is"]["brier"] == pytest.approx(last["brier"], abs=1e-6)
    assert "mirrored: accuracy" in capsys.readouterr().out


def test_both_are_measured_in_full_float32_as_records_are(
    benchmark, tmp_path: Path, monkeypatch, no_public_sets
) -> None:
    coarse = []
    forward = FastCifar.forward

    def watched(self: FastCifar, x: torch.Tensor) -> torch.Tensor:
        if len(x) > 50:  # more rows than a batch of the training has: those of the test set
            coarse.append(torch.backends.cudnn.allow_tf32)
        return forward(self, x)

    monkeypatch.setattr(FastCifar, "forward", watched)
    with no_public_sets():
        benchmark.main(["--smoke"])
    assert coarse.count(False) == 3  # the record's, as it is, mirrored
    assert not any(coarse[-3:])


@pytest.mark.parametrize(
    ("setting", "method", "file"),
    [
        ("width-96", "de_fixmatch", "fixmatch_ten_minutes"),
        ("width-96", "de_fixmatch", "fixmatch_ten_minutes_96"),
        ("width-96", "fixmatch", "fixmatch_ten_minutes_96_fixmatch"),
        ("width-96", "complete_case", "fixmatch_ten_minutes_96_complete_case"),
        ("width-96-linear", "de_fixmatch", "fixmatch_ten_minutes_linear"),
        ("width-128", "de_fixmatch", "fixmatch_ten_minutes_128"),
        ("width-128", "de_fixmatch", "fixmatch_ten_minutes_128_seed1"),
        ("width-128", "de_fixmatch", "fixmatch_ten_minutes_128_seed2"),
    ],
)
def test_the_settings_are_those_of_the_committed_trainings(
    benchmark, setting: str, method: str, file: str
) -> None:
    results = Path(benchmark.__file__).parent / "results"
    found = json.loads((results / f"{file}.json").read_text())
    done = found["settings"]
    seed = str(found["seed"])
    options = benchmark.arguments(["--setting", setting, "--method", method, "--seed", seed])
    experiment = benchmark.chosen(options)
    cell = benchmark.cells_of(experiment)[options.seed]
    plan = json.loads(json.dumps(cell.plan(experiment).as_dict()))
    assert {name: value for name, value in plan.items() if name != "evaluate_every"} == {
        name: value for name, value in done["plan"].items() if name != "evaluate_every"
    }
    assert experiment.model == done["model"]
    assert cell.method.surrogate == done["surrogate"]
    assert found["method"] == method


def test_a_seed_below_zero_is_refused(benchmark, capsys) -> None:
    with pytest.raises(SystemExit):
        benchmark.arguments(["--seed", "-1"])
    assert "--seed must be at least 0; got -1." in capsys.readouterr().err


def test_the_committed_mean_is_that_of_the_three_seeds(benchmark, tmp_path: Path) -> None:
    results = Path(benchmark.__file__).parent / "results"
    names = [f"fixmatch_ten_minutes_128{seed}.json" for seed in ("", "_seed1", "_seed2")]
    files = [str(results / name) for name in names]
    benchmark.main(["--mean", *files, "--out", str(tmp_path / "mean.json")])
    found = json.loads((tmp_path / "mean.json").read_text())
    assert found == json.loads((results / "fixmatch_ten_minutes_128_seeds.json").read_text())
    accuracies = [json.loads(Path(f).read_text())["mirrored"]["accuracy"] for f in files]
    mean, half = found["mirrored"]["accuracy"].values()
    interval = stats.t.interval(0.95, 2, np.mean(accuracies), stats.sem(accuracies))
    assert (mean - half, mean + half) == pytest.approx(interval)

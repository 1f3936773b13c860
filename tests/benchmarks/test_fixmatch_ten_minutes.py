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


def test_a_start_without_labels_is_in_the_log(benchmark, tmp_path: Path, no_public_sets) -> None:
    """Also if the same folder has a training without it, which it must not go on from."""
    found = {}
    runs = ("--runs", str(tmp_path / "runs"))
    for setting in ("width-64", "contrastive"):
        file = tmp_path / f"{setting}.json"
        with no_public_sets():
            benchmark.main(["--smoke", "--setting", setting, *runs, "--out", str(file)])
        found[setting] = json.loads(file.read_text())
    plain, learnt = found["width-64"], found["contrastive"]
    assert learnt["settings"]["model"] == {**plain["settings"]["model"], "contrastive_steps": 2}
    assert learnt["settings"]["plan"] == plain["settings"]["plan"]
    assert learnt["metrics"] != plain["metrics"]


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


def test_the_forms_of_image_labels_are_built_as_there(benchmark, script) -> None:
    labels = script("image_labels")
    assert {"softmatch", "softmatch_ssl"} <= set(benchmark.FORMS)
    for name in ("softmatch", "softmatch_ssl", "bounded_star"):
        options = benchmark.arguments(
            ["--method", name, "--labels", "250", "--setting", "width-64"]
        )
        experiment = benchmark.chosen(options)
        (cell,) = benchmark.cells_of(experiment)
        form = labels.FORMS[name]
        assert (cell.method.title, cell.lam) == (form.title, form.lam)
        assert cell.method.surrogate == form.surrogate
        assert experiment.model == labels.NETWORKS["fast_cifar"]
        assert (cell.data.labels, cell.data.draw) == (250, "balanced")
        plan, ours = cell.plan(experiment).as_dict(), experiment.plan | {"steps": labels.STEPS}
        theirs = labels.load_experiment("fixmatch-cifar10", "fast").plan
        expected = {**theirs, **form.plan, "risk": form.risk, "lam": form.lam, "seed": 0}
        expected |= {"steps": labels.STEPS, "evaluate_every": ours["evaluate_every"]}
        assert plan == labels.TrainPlan.from_dict(expected).as_dict()


@pytest.mark.parametrize("labels", [4000, 250, 40])
@pytest.mark.parametrize("setting", ["five-minutes", "ten-minutes", "width-64"])
def test_every_setting_has_a_small_form_for_every_number_of_labels(
    benchmark, setting: str, labels: int, tmp_path: Path, no_public_sets
) -> None:
    out = tmp_path / "out.json"
    given = ["--smoke", "--setting", setting, "--labels", str(labels), "--method", "softmatch"]
    with no_public_sets():
        benchmark.main([*given, "--out", str(out)])
    found = json.loads(out.read_text())
    assert (found["title"], found["settings"]["plan"]["steps"]) == ("DeSoftMatch", 2)
    assert found["seconds_from_command"] > found["training"]["seconds"]
    assert found["gpu_gib_of_others"] is None  # there is none


def test_the_steps_of_timed_settings_follow_from_committed_logs(benchmark) -> None:
    results = Path(benchmark.__file__).parent / "results"
    before = []
    for width, rate in benchmark.STEPS_PER_SECOND.items():
        log = json.loads((results / f"fixmatch_ten_minutes_{width}.json").read_text())
        rates = [evaluation["steps_per_second"] for evaluation in log["history"]]
        assert rate == pytest.approx(np.median(rates), rel=0.005)
        first = log["history"][0]
        before.append(first["step"] / first["steps_per_second"] - first["step"] / rate)
    assert max(before) == pytest.approx(49, abs=1)  # compiling, as the comment says
    for name, minutes in (("five-minutes", 5), ("ten-minutes", 10)):
        setting = benchmark.SETTINGS[name]
        seconds = setting["plan"]["steps"] / benchmark.STEPS_PER_SECOND[setting["width"]]
        assert 60 * minutes - 10 < seconds + benchmark.SECONDS_BEFORE <= 60 * minutes
    assert benchmark.steps_within(5, 96) == 16_500


def test_a_resumed_run_is_not_timed_from_the_command(
    benchmark, tmp_path: Path, capsys, no_public_sets
) -> None:
    given = ["--smoke", "--runs", str(tmp_path / "runs"), "--out", str(tmp_path / "out.json")]
    with no_public_sets():
        benchmark.main(given)
        assert "seconds_from_command" in json.loads((tmp_path / "out.json").read_text())
        benchmark.main(given)
    assert "seconds_from_command" not in json.loads((tmp_path / "out.json").read_text())
    assert "from the start of training (resumed)" in capsys.readouterr().out


def test_a_run_that_diverges_leaves_its_log(
    benchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_public_sets
) -> None:
    def diverged(*_: object, **__: object):
        return benchmark.Diverged("the run diverged at step 1.", 2.0)

    monkeypatch.setattr(benchmark, "trained_alone", diverged)
    with no_public_sets(), pytest.raises(SystemExit, match="the run diverged at step 1"):
        benchmark.main(["--smoke", "--out", str(tmp_path / "out.json")])
    found = json.loads((tmp_path / "out.json").read_text())
    assert found["training"]["diverged"] == "the run diverged at step 1."


def test_kernels_are_compiled_anew(benchmark, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "before")
    monkeypatch.delenv("TRITON_CACHE_DIR", raising=False)
    with benchmark.fresh_kernels():
        folder = Path(benchmark.os.environ["TORCHINDUCTOR_CACHE_DIR"])
        assert not folder.exists()
        assert "TRITON_CACHE_DIR" in benchmark.os.environ
    assert benchmark.os.environ["TORCHINDUCTOR_CACHE_DIR"] == "before"
    assert "TRITON_CACHE_DIR" not in benchmark.os.environ


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

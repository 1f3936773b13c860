"""An experiment's file: every one loads, profiles are laid over, and slips are errors."""

from collections.abc import Callable

import pytest
import torch

from dessl.training import TrainPlan
from dessl_paper.cells import cells_of
from dessl_paper.parts import network, term
from dessl_paper.probe import PROBES
from dessl_paper.sources import generated
from dessl_paper.specification import (
    PROFILES,
    Experiment,
    experiment_names,
    laid_over,
    load_experiment,
)
from dessl_paper.targets import targets_at

Tiny = Callable[..., Experiment]
ALL = [(name, profile) for name in experiment_names() for profile in PROFILES]


def test_the_papers_experiments_are_all_there() -> None:
    assert set(experiment_names()) >= {
        "toy", "mnist", "mnist-label-noise", "medmnist", "cifar10-pseudo-label",
        "cifar100-pseudo-label", "fixmatch-cifar10", "fixmatch-cifar100", "fixmatch-stl10",
        "consistency-cifar10", "consistency-svhn",
    }  # fmt: skip


@pytest.mark.parametrize(("name", "profile"), ALL)
def test_every_file_loads_at_every_profile(name: str, profile: str) -> None:
    experiment = load_experiment(name, profile)
    assert experiment.title
    assert experiment.paper
    assert experiment.metrics
    assert experiment.notes  # none of the paper's experiments is given whole by its sources
    targets_at(experiment.targets)
    cells = cells_of(experiment)
    assert len(cells) == len({cell.key for cell in cells})
    if experiment.kind == "toy":
        return
    for cell in cells:
        assert isinstance(cell.plan(experiment), TrainPlan)
    for method in experiment.methods:
        term(method.surrogate, experiment.views)
    if profile == "smoke":
        data = generated(experiment.data[0].name, 4)
        assert len(list(network(experiment.model, data)().parameters())) > 0


@pytest.mark.parametrize("name", experiment_names())
def test_smoke_is_small_and_needs_no_data(name: str) -> None:
    smoke, paper = load_experiment(name, "smoke"), load_experiment(name, "paper")
    assert len(cells_of(smoke)) <= 12
    assert len(cells_of(paper)) >= len(cells_of(load_experiment(name, "fast")))
    assert {method.name for method in smoke.methods} == {method.name for method in paper.methods}
    if smoke.kind != "toy":
        assert all(0 < data.rows <= 300 and data.generated for data in smoke.data)
        assert not any(data.rows or data.generated for data in paper.data)


def test_tables_are_merged_and_anything_else_is_replaced() -> None:
    below = {"plan": {"steps": 9, "lam": 1}, "lams": [1, 2], "model": {"name": "a", "width": 2}}
    above = {"plan": {"steps": 3}, "lams": [5], "model": {"name": "b"}}
    assert laid_over(below, above) == {
        "plan": {"steps": 3, "lam": 1},
        "lams": [5],
        "model": {"name": "b"},
    }
    assert laid_over(below, {"model": {"width": 4}})["model"] == {"name": "a", "width": 4}
    assert laid_over(below, {"model": {"name": "a", "width": 4}})["model"]["width"] == 4
    assert below["plan"] == {"steps": 9, "lam": 1}


def test_profiles_differ_from_the_paper_only_where_they_say_so() -> None:
    fast, paper = (load_experiment("consistency-cifar10", name) for name in ("fast", "paper"))
    assert [data.labels for data in paper.data] == [250, 500, 1000, 2000, 4000, 8000]
    assert [data.labels for data in fast.data] == [4000]
    assert (paper.plan["steps"], fast.plan["steps"]) == (500_000, 4000)
    assert fast.method("vat").surrogate == paper.method("vat").surrogate | {"xi": 1.0}
    assert fast.method("de_pi_model") == paper.method("de_pi_model")
    assert fast.views == paper.views


def test_oliver_weights_are_ours_times_classes() -> None:
    """20 and 8 on the mean over ten classes; 0.3 for VAT and 0.1 for the entropy."""
    paper = load_experiment("consistency-cifar10", "paper")
    assert paper.method("pi_model").lams == (20 / 10,)
    assert paper.method("mean_teacher").lams == (8 / 10,)
    vat = paper.method("vat")
    assert vat.lams[0] * vat.surrogate["entropy_weight"] == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("other", "says"),
    [
        ({"sedes": 3}, "tiny has no setting 'sedes'; it has name, profile"),
        ({"data": [{"name": "mnist", "label": 3}]}, "data has no setting 'label'; it has name"),
        ({"data": [{"name": "mnist"}]}, "data is not whole: .*'labels'"),
        ({"methods": {"x": {"titel": "X"}}}, "methods.x has no setting 'titel'"),
        ({"methods": {"x": {"risk": "ssl"}}}, "methods.x is not whole: .*'title'"),
        ({"plan": {"stepz": 3}}, "a TrainPlan has no setting 'stepz'; did you mean 'steps'?"),
        ({"plan": {"epochs": 3}}, "exactly one of steps and epochs"),
        ({"kind": "trainign"}, "kind must be one of 'training', 'probe', 'toy'"),
        ({"curve": "tset"}, "curve must be one of 'validation', 'test'"),
        ({"seeds": 0}, "seeds must be at least 1"),
        ({"data": []}, "needs one entry at least in data and in methods"),
        ({"curve": "test"}, "holds labels out for validation"),
        (
            {"curve": "test", "data": [{"name": "mnist", "labels": 30}]},
            "a run that is watched on the test set selects nothing; got select='accuracy'",
        ),
    ],
)
def test_slips_are_errors(tiny: Tiny, other: dict[str, object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        tiny(**other)


def test_unknown_names_and_profiles() -> None:
    with pytest.raises(ValueError, match=r"experiment must be one of .*'toy'; got 'tyo'"):
        load_experiment("tyo")
    with pytest.raises(ValueError, match="profile must be one of 'smoke', 'fast', 'paper'"):
        load_experiment("toy", "slow")


def test_views_draw_anew_for_each_split_and_add_the_noise_they_say() -> None:
    paper = load_experiment("consistency-cifar10", "paper")
    views = {**paper.views, "view": {**paper.views["view"], "shift": 0, "flip": False}}
    grey = torch.full((8, 3, 32, 32), 128, dtype=torch.uint8)
    seen = [
        built.view(grey, built.generator(grey.device))  # type: ignore[operator]
        for built in (term({"name": "pi_model"}, views, seed=seed) for seed in (0, 0, 1))
    ]
    assert torch.equal(seen[0], seen[1])
    assert not torch.equal(seen[0], seen[2])
    levels = (128 / 255 - torch.tensor(views["mean"])) / torch.tensor(views["std"])
    torch.testing.assert_close(seen[0].mean((0, 2, 3)), levels, atol=0.01, rtol=0)
    torch.testing.assert_close(seen[0].std((0, 2, 3)), torch.full((3,), 0.15), atol=0.01, rtol=0)


def test_unknown_parts_are_named() -> None:
    with pytest.raises(ValueError, match="surrogate must be one of 'entropy'"):
        term({"name": "magic"}, {})
    with pytest.raises(ValueError, match="model must be one of 'mlp'"):
        network({"name": "magic"}, generated("mnist", 4))


@pytest.mark.parametrize("profile", PROFILES)
def test_the_probes_look_at_one_model(profile: str) -> None:
    probes = [
        load_experiment(name, profile)
        for name in ("risk-quality", "gradient-variance", "lambda-opt")
    ]
    for one in probes:
        assert one.kind == "probe"
        assert (one.data, one.model, one.plan, one.views) == (
            probes[0].data,
            probes[0].model,
            probes[0].plan,
            probes[0].views,
        )


def test_an_experiment_like_another_says_only_what_it_does_otherwise() -> None:
    noisy, clean = load_experiment("mnist-label-noise", "paper"), load_experiment("mnist", "paper")
    differ = [key for key, value in noisy.as_dict().items() if value != clean.as_dict()[key]]
    assert differ == ["name", "title", "paper", "targets", "notes", "data"]


PROBE_NAMES = {
    "risk": "risk-quality",
    "gradient": "gradient-variance",
    "lambda_opt": "lambda-opt",
}


def test_there_is_an_experiment_for_each_probe_with_one_model_for_all() -> None:
    assert set(PROBES) == set(PROBE_NAMES)
    for profile in ("smoke", "fast", "paper"):
        experiments = [load_experiment(name, profile) for name in PROBE_NAMES.values()]
        for probe, experiment in zip(PROBE_NAMES, experiments, strict=True):
            assert experiment.settings["probe"] == probe
            assert experiment.kind == "probe"
            assert [method.risk for method in experiment.methods] == ["complete_case"]
            for shared in ("model", "plan", "data", "views", "methods"):
                assert getattr(experiment, shared) == getattr(experiments[0], shared)


def test_a_method_that_is_not_there_is_said() -> None:
    with pytest.raises(ValueError, match=r"method must be .*'de_pl'.*got 'nothing'"):
        load_experiment("mnist", "smoke").method("nothing")

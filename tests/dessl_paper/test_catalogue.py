"""The experiments' files: every one loads, profiles are laid over, and mistakes are errors."""

from collections.abc import Callable
from pathlib import Path

import pytest

from dessl._entries import EntryError
from dessl.training import TrainPlan
from dessl_paper.catalogue import (
    PROFILES,
    at_profile,
    experiment_from,
    experiment_names,
    file_entries,
    laid_over,
    load_experiment,
)
from dessl_paper.kinds import KINDS
from dessl_paper.kinds.probe import PROBES
from dessl_paper.results import finished, read_experiment
from dessl_paper.sources import generated
from dessl_paper.specification import Experiment, cells_of
from dessl_paper.targets import targets_at
from dessl_paper.training import network, unlabelled_term

Tiny = Callable[..., Experiment]


RESULTS = Path(__file__).parents[2] / "results"
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
        unlabelled_term(method.surrogate, experiment.views)
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
    assert [data.labels for data in fast.data] == [1000, 4000]
    assert (paper.plan["steps"], fast.plan["steps"]) == (500_000, 20_000)
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
        ({"sedes": 3}, "has no entry 'sedes'; did you mean 'seeds'?"),
        ({"seeds": "3"}, "seeds must be a whole number; got '3'"),
        ({"seeds": 0}, "seeds must be at least 1"),
        ({"kind": "swep"}, "kind must be one of 'sweep', 'methods', 'probe', 'toy'; got 'swep'"),
        ({"curve": "tset"}, "curve must be one of 'validation', 'test'"),
        ({"targets": "tables.nothing"}, "targets.toml has no table 'tables.nothing'"),
        ({"lams": [0.1, "1"]}, "lams[1] must be a finite number; got '1'"),
        ({"metrics": ["acuracy"]}, "metrics[0] must be one of"),
        ({"metrics": ["acuracy"]}, "got 'acuracy'; did you mean 'accuracy'?"),
        ({"metrics": ["confusion"]}, "metrics[0] must be one of"),
        ({"data": []}, "data must have at least one entry"),
        ({"data": [{"name": "mnist", "label": 3}]}, "data[0] has no entry 'label'; did you mean"),
        ({"data": [{"name": "mnist"}]}, "data[0] is missing labels"),
        ({"data": [{"name": "mnist", "labels": "sixty"}]}, "data[0].labels must be a whole number"),
        ({"data": [{"name": "mnist", "labels": 0}]}, "data[0].labels must be at least 1"),
        ({"data": [{"name": "mnits", "labels": 9}]}, "data[0].name must be one of"),
        ({"data": [{"name": "mnist", "labels": 9, "draw": "any"}]}, "data[0].draw must be one of"),
        (
            {"data": [{"name": "mnist", "labels": 9, "label_noise": 0.2}]},
            "first_seed must be above 0 if data[0] has label_noise",
        ),
        (
            {"methods": {"x": {"titel": "X"}}},
            "methods.x has no entry 'titel'; did you mean 'title'",
        ),
        ({"methods": {"x": {"risk": "ssl"}}}, "methods.x is missing title"),
        ({"methods": {"x": {"title": "X", "risk": "sls"}}}, "methods.x.risk must be one of"),
        (
            {"methods": {"x": {"title": "X", "risk": "ssl", "lam": "1"}}},
            "methods.x.lam must be a finite number or a list of finite numbers or null; got '1'",
        ),
        ({"lams": []}, "methods.de_entropy has no λ"),
        ({"model": {"name": "lnet"}}, "model.name must be one of"),
        ({"model": {"size": "28"}}, "model.size must be a whole number or a list"),
        ({"model": {"widht": 3}}, "model has no entry 'widht'"),
        ({"model": {"n_classes": 3}}, "model has no entry 'n_classes'"),
        ({"views": {"meen": 0.5}}, "views has no entry 'meen'; did you mean 'mean'?"),
        ({"views": {"mean": "grey"}}, "views.mean must be a finite number or a list"),
        ({"views": {"view": {"flipp": True}}}, "views.view has no entry 'flipp'; did you mean"),
        ({"views": {"view": {"flip": "no"}}}, "views.view.flip must be true or false; got 'no'"),
        ({"views": {"view": {"noise": "some"}}}, "views.view.noise must be a finite number"),
        ({"views": {"strong": {"n_opps": 2}}}, "views.strong has no entry 'n_opps'; did you mean"),
        ({"surrogate": {"name": "entropi"}}, "surrogate.name must be one of"),
        ({"surrogate": {"treshold": 0.9}}, "surrogate has no entry 'treshold'"),
        (
            {"methods": {"de_entropy": {"surrogate": {"name": "pseudo_label", "threshold": "x"}}}},
            "methods.de_entropy.surrogate.threshold must be a finite number; got 'x'",
        ),
        (
            {"methods": {"de_entropy": {"surrogate": {"name": "pseudo_label", "threshold": 2}}}},
            "methods.de_entropy: threshold must lie in [0, 1]",
        ),
        ({"methods": {"de_entropy": {"surrogate": {}}}}, "methods.de_entropy.surrogate is missing"),
        ({"plan": {"stepz": 3}}, "plan has no entry 'stepz'; did you mean 'steps'?"),
        ({"plan": {"seed": 3}}, "plan has no entry 'seed'"),
        ({"plan": {"nesterov": "yes"}}, "plan.nesterov must be true or false"),
        ({"plan": {"optimiser": "adma"}}, "plan.optimiser must be one of 'sgd', 'adamw', 'muon'"),
        ({"plan": {"schedule": 3}}, "plan.schedule must be text or a table; got 3"),
        ({"plan": {"schedule": {"name": "steps", "att": [0.5]}}}, "the schedule 'steps' takes"),
        ({"plan": {"epochs": 3}}, "exactly one of steps and epochs"),
        (
            {"methods": {"de_entropy": {"plan": {"momentun": 0.5}}}},
            "methods.de_entropy.plan has no entry 'momentun'; did you mean 'momentum'?",
        ),
        ({"settings": {"splits": 3}}, "settings has no entry 'splits'"),
        ({"curve": "test", "plan": {"select": "last"}}, "holds out labels for validation"),
        (
            {"curve": "test", "data": [{"name": "mnist", "labels": 30}]},
            "nothing may be selected on it; got select = 'accuracy'",
        ),
    ],
)
def test_mistakes_are_named_with_their_place(
    tiny: Tiny, other: dict[str, object], says: str
) -> None:
    with pytest.raises(EntryError) as caught:
        tiny(**other)
    assert str(caught.value).startswith("tiny.toml at profile smoke")
    assert says in str(caught.value)


def of(name: str, **other: object) -> Experiment:
    """An experiment's file with something laid over it, as a profile is."""
    own = at_profile(name, "smoke", file_entries(name))
    return experiment_from(name, "smoke", laid_over(own, other))


@pytest.mark.parametrize(
    ("name", "settings", "says"),
    [
        ("toy", {"stpes": 3}, "settings has no entry 'stpes'; did you mean 'steps'?"),
        ("toy", {"steps": 3.5}, "settings.steps must be a whole number; got 3.5"),
        ("toy", {"lam": 3.5}, "settings has no entry 'lam'"),
        ("toy", {"threshold": 3.5}, "settings: threshold must lie in [0, 1]"),
        ("risk-quality", {"probe": "rsik"}, "settings.probe must be one of 'risk', 'gradient'"),
        ("risk-quality", {"at_once": 3}, "settings has no entry 'at_once'"),
        ("risk-quality", {"splits": "all"}, "settings.splits must be a whole number; got 'all'"),
        ("risk-quality", {"terms": [{"name": "entropi"}]}, "settings.terms[0].name must be one of"),
        ("risk-quality", {"terms": []}, "settings.terms must have one unlabelled term; got 0"),
        (
            "risk-quality",
            {"terms": [{"name": "entropy", "as": "e"}]},
            "settings.terms[0]: as and confident_rows_alone go with probe = 'lambda_opt'",
        ),
        (
            "lambda-opt",
            {"terms": [{"name": "entropy"}, {"name": "pseudo_label", "treshold": 0.3}]},
            "settings.terms[1] has no entry 'treshold'; did you mean 'threshold'?",
        ),
        ("lambda-opt", {"terms": [{"name": "entropy"}]}, "metrics[1] must be one of"),
    ],
)
def test_settings_are_those_of_the_kind(name: str, settings: dict[str, object], says: str) -> None:
    with pytest.raises(EntryError) as caught:
        of(name, settings=settings)
    assert says in str(caught.value)


def test_profiles_are_tables_of_known_names() -> None:
    with pytest.raises(EntryError, match=r"a\.toml: profiles has no entry 'smoek'; did you mean"):
        at_profile("a", "fast", {"profiles": {"smoek": {}}})
    with pytest.raises(EntryError, match=r"a\.toml: profiles\.fast must be a table; got 3"):
        at_profile("a", "fast", {"profiles": {"fast": 3}})


def test_the_toy_example_has_no_network_to_choose() -> None:
    with pytest.raises(EntryError, match="model must be empty"):
        of("toy", model={"name": "lenet"})
    with pytest.raises(EntryError, match=r"methods\.entropy\.surrogate\.name must be one of"):
        of("toy", methods={"entropy": {"surrogate": {"name": "fixmatch"}}})
    with pytest.raises(EntryError, match=r"metrics\[0\] must be one of 'overlap_posterior'"):
        of("toy", metrics=["accuracy"])


@pytest.mark.parametrize(
    "folder", sorted(RESULTS.glob("*/experiment.json")), ids=lambda path: path.parent.name
)
def test_the_committed_results_are_of_experiments_that_can_be_read(folder: Path) -> None:
    experiment = read_experiment(folder.parent)
    assert experiment.kind in KINDS
    KINDS[experiment.kind].check(experiment, "experiment.json")
    keys = {cell.key for cell in cells_of(experiment)}
    assert {record.key for record in finished(folder.parent)} <= keys


def test_unknown_names_and_profiles() -> None:
    with pytest.raises(ValueError, match=r"experiment must be one of .*'toy'; got 'tyo'"):
        load_experiment("tyo")
    with pytest.raises(ValueError, match="profile must be one of 'smoke', 'fast', 'paper'"):
        load_experiment("toy", "slow")


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
    assert differ == ["name", "title", "paper", "targets", "notes", "data", "first_seed"]


PROBE_NAMES = {
    "risk": "risk-quality",
    "gradient": "gradient-variance",
    "lambda_opt": "lambda-opt",
}


def test_there_is_an_experiment_for_each_probe_with_one_model_for_all() -> None:
    assert set(PROBES) == {*PROBE_NAMES, "confidence"}
    for profile in ("smoke", "fast", "paper"):
        experiments = [load_experiment(name, profile) for name in PROBE_NAMES.values()]
        for probe, experiment in zip(PROBE_NAMES, experiments, strict=True):
            assert experiment.settings["probe"] == probe
            assert experiment.kind == "probe"
            assert [method.risk for method in experiment.methods] == ["complete_case"]
            for shared in ("model", "plan", "data", "views", "methods"):
                assert getattr(experiment, shared) == getattr(experiments[0], shared)


def test_the_longer_trainings_have_the_probes_model_and_optimiser() -> None:
    longer, usual = load_experiment("confidence", "paper"), load_experiment("lambda-opt", "paper")
    assert (longer.model, longer.views) == (usual.model, usual.views)
    other = {"epochs", "steps", "select", "ties"}
    plans = ({k: v for k, v in one.plan.items() if k not in other} for one in (longer, usual))
    assert len({tuple(sorted(plan.items())) for plan in plans}) == 1
    assert [method.plan.get("steps", 23_000) for method in longer.methods] == [23000, 60000, 23000]

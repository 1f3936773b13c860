"""The toy example: its laws, its pairing, and what its methods learn."""

import dataclasses

import numpy as np
import pytest
import torch

from dessl.data.toy import two_uniforms, two_uniforms_posterior
from dessl.objective import RiskKind
from dessl.results.record import Record, read_records
from dessl_paper.cells import cells_of
from dessl_paper.specification import load_experiment
from dessl_paper.sweep import run_experiment
from dessl_paper.toy import ToyPlan, ToyRun, trained_toy, warm_start
from dessl_paper.toy_record import toy_plan

SMALL = ToyPlan(n_labelled=4000, n_unlabelled=4000, warm_steps=400, steps=600, record_every=300)
METHODS: dict[str, tuple[RiskKind, str]] = {
    "complete_case": ("complete_case", ""),
    "pseudo_label": ("ssl", "pseudo_label"),
    "de_pseudo_label": ("debiased", "pseudo_label"),
    "entropy": ("ssl", "entropy"),
    "de_entropy": ("debiased", "entropy"),
}


def runs(plan: ToyPlan) -> dict[str, ToyRun]:
    start = warm_start(plan)
    return {name: trained_toy(start, *method) for name, method in METHODS.items()}


def test_the_laws_are_the_papers() -> None:
    data = two_uniforms(40_000, 20_000)
    x, y = data.x[data.labelled_rows, 0], data.y[data.labelled_rows]
    assert (data.n_labelled, data.n_unlabelled) == (40_000, 20_000)
    assert y.float().mean() == pytest.approx(0.5, abs=0.01)
    for label, low, high in ((0, 0.0, 3.0), (1, 1.0, 10.0)):
        points = x[y == label]
        assert points.min() >= low
        assert points.max() < high
        assert points.mean() == pytest.approx((low + high) / 2, abs=0.05)
    for low, high in ((0.0, 1.0), (1.0, 3.0), (3.0, 10.0)):
        inside = (x >= low) & (x < high)
        truth = two_uniforms_posterior(torch.tensor((low + high) / 2))
        assert y[inside].float().mean() == pytest.approx(float(truth), abs=0.01)


def test_a_seed_gives_the_same_points_and_another_seed_others() -> None:
    one, again, other = (
        two_uniforms(50, 50, generator=torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)
    )
    assert torch.equal(one.x, again.x)
    assert not torch.equal(one.x, other.x)


def test_debiased_methods_find_the_truth_and_the_usual_ones_do_not() -> None:
    found = {name: run.overlap_posterior for name, run in runs(SMALL).items()}
    # A short run: the debiased methods end near the complete case, whatever it is by then.
    assert found["complete_case"] == pytest.approx(0.25, abs=0.06)
    assert found["de_pseudo_label"] == pytest.approx(found["complete_case"], abs=0.03)
    assert found["de_entropy"] == pytest.approx(found["complete_case"], abs=0.03)
    assert found["pseudo_label"] < found["complete_case"] - 0.08
    assert found["entropy"] < found["complete_case"] - 0.1


def test_methods_start_from_one_point_and_runs_repeat() -> None:
    plan = ToyPlan(n_labelled=300, n_unlabelled=300, warm_steps=20, steps=25, record_every=10)
    before = torch.random.get_rng_state()
    first, second = runs(plan), runs(plan)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert len({run.training_cross_entropy[0] for run in first.values()}) == 1
    for name in METHODS:
        assert torch.equal(first[name].posterior, second[name].posterior)
        assert list(first[name].training_cross_entropy) == [0, 10, 20, 25]
    seen: list[int] = []
    trained_toy(warm_start(plan), "ssl", "entropy", progress=seen.append)
    assert seen == list(range(1, 26))


def test_lambda_zero_makes_every_method_the_complete_case() -> None:
    found = runs(ToyPlan(n_labelled=300, n_unlabelled=300, lam=0.0, warm_steps=10, steps=30))
    for run in found.values():
        torch.testing.assert_close(run.posterior, found["complete_case"].posterior)


def test_settings_that_cannot_run_are_refused() -> None:
    with pytest.raises(ValueError, match="steps must be at least 1; got 0"):
        ToyPlan(steps=0)
    with pytest.raises(ValueError, match=r"threshold must lie in \[0, 1\]"):
        ToyPlan(threshold=1.2)
    with pytest.raises(ValueError, match="term must be one of 'pseudo_label', 'entropy'; got ''"):
        trained_toy(warm_start(ToyPlan(n_labelled=9, n_unlabelled=9, warm_steps=0)), "ssl", "")


def test_the_rate_stands_in_the_warm_start_and_falls_to_zero_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rates, step = [], torch.optim.SGD.step

    def watched(self: torch.optim.SGD) -> None:
        rates.append(self.param_groups[0]["lr"])
        step(self)

    monkeypatch.setattr(torch.optim.SGD, "step", watched)
    plan = ToyPlan(n_labelled=50, n_unlabelled=50, batch=5, warm_steps=3, steps=4)
    trained_toy(warm_start(plan), "debiased", "entropy")
    assert rates == pytest.approx([0.1, 0.1, 0.1, 0.1, 0.075, 0.05, 0.025])


def test_the_file_is_the_plan_of_the_paper() -> None:
    for profile in ("fast", "paper"):
        experiment = load_experiment("toy", profile)
        cell = experiment.data[0]
        assert (cell.labels, experiment.settings["n_unlabelled"]) == (25_000, 25_000)
        given = {(method.name, method.risk, method.surrogate.get("name", "")) for method in
                 experiment.methods}  # fmt: skip
        assert given == {(name, *method) for name, method in METHODS.items()}
        assert all(method.lams in ((0.0,), (1.0,)) for method in experiment.methods)


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int], Record]:
    folder = tmp_path_factory.mktemp("toy")
    run_experiment(dataclasses.replace(load_experiment("toy", "smoke"), seeds=2), folder)
    return {(record.method, record.seed): record for record in read_records(folder)}


def test_records_hold_the_curves_of_the_runs(records: dict[tuple[str, int], Record]) -> None:
    plan = ToyPlan(
        n_labelled=500, n_unlabelled=500, warm_steps=40, steps=60, record_every=20, seed=1
    )
    assert len(records) == 2 * len(METHODS)
    for name, run in runs(plan).items():
        record = records[name, 1]
        assert record.metrics["overlap_posterior"] == run.overlap_posterior
        assert record.metrics["training_cross_entropy"] == run.training_cross_entropy[60]
        arrays = record.arrays
        np.testing.assert_allclose(arrays["posterior"], run.posterior, atol=6e-6)
        np.testing.assert_allclose(arrays["truth"], run.truth, atol=6e-6)
        x = np.array(arrays["grid"])
        inside = np.array(arrays["posterior"])[(x > 1.195) & (x < 2.805)]
        assert len(inside) == 161  # 1.20, 1.21, ..., 2.80
        assert run.overlap_posterior == pytest.approx(inside.mean(), abs=1e-5)
        assert arrays["steps"] == [0, 20, 40, 60]
        losses = list(run.training_cross_entropy.values())
        np.testing.assert_allclose(arrays["training_cross_entropy"], losses, atol=6e-6)
        assert record.settings["toy"]["seed"] == 1
    assert records["entropy", 0].arrays["posterior"] != records["entropy", 1].arrays["posterior"]


def test_the_histogram_counts_the_labelled_points(records: dict[tuple[str, int], Record]) -> None:
    arrays = records["entropy", 0].arrays
    data = two_uniforms(500, 500, generator=torch.Generator().manual_seed(0))
    x, y = data.x[data.labelled_rows, 0].double().numpy(), data.y[data.labelled_rows].numpy()
    for label in (0, 1):
        counts, edges = np.histogram(x[y == label], bins=50, range=(0, 10))
        assert arrays[f"histogram_class{label}"] == counts.tolist()
        np.testing.assert_allclose(arrays["histogram_edges"], edges, atol=6e-6)


def test_a_plan_refuses_settings_it_does_not_have() -> None:
    experiment = load_experiment("toy", "smoke")
    wrong = dataclasses.replace(experiment, settings={**experiment.settings, "stpes": 3})
    with pytest.raises(ValueError, match="a ToyPlan has no setting 'stpes'; it has n_labelled"):
        toy_plan(wrong, cells_of(wrong)[0])

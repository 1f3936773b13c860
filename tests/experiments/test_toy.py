"""The toy example: its laws, its pairing, and what its methods learn."""

import pytest
import torch

from dessl.data.toy import two_uniforms, two_uniforms_posterior
from dessl.experiments.toy import METHODS, ToyPlan, run_toy

SMALL = ToyPlan(n_labelled=4000, n_unlabelled=4000, warm_steps=400, steps=1200, record_every=400)


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
    result = run_toy(SMALL)
    found = {name: run.overlap_posterior for name, run in result.runs.items()}
    # A short run: the debiased methods end near the complete case, whatever it is by then.
    assert found["complete case"] == pytest.approx(0.25, abs=0.06)
    assert found["DePseudoLabel"] == pytest.approx(found["complete case"], abs=0.03)
    assert found["DeEntMin"] == pytest.approx(found["complete case"], abs=0.03)
    assert found["PseudoLabel"] < found["complete case"] - 0.08
    assert found["EntMin"] < found["complete case"] - 0.1


def test_methods_start_from_one_point_and_runs_repeat() -> None:
    plan = ToyPlan(n_labelled=300, n_unlabelled=300, warm_steps=20, steps=20, record_every=10)
    seen: list[tuple[str, int]] = []
    before = torch.random.get_rng_state()
    first = run_toy(plan, progress=lambda name, step: seen.append((name, step)))
    second = run_toy(plan)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert len({run.training_cross_entropy[0] for run in first.runs.values()}) == 1
    assert seen == [(name, step) for name in METHODS for step in range(1, 21)]
    for name in METHODS:
        assert torch.equal(first.runs[name].posterior, second.runs[name].posterior)
        assert list(first.runs[name].training_cross_entropy) == [0, 10, 20]


def test_lambda_zero_makes_every_method_the_complete_case() -> None:
    plan = ToyPlan(n_labelled=300, n_unlabelled=300, lam=0.0, warm_steps=10, steps=30)
    runs = run_toy(plan).runs
    for run in runs.values():
        torch.testing.assert_close(run.posterior, runs["complete case"].posterior)


def test_settings_that_cannot_run_are_refused() -> None:
    with pytest.raises(ValueError, match="steps must be at least 1; got 0"):
        ToyPlan(steps=0)
    with pytest.raises(ValueError, match=r"threshold must lie in \[0, 1\]"):
        ToyPlan(threshold=1.2)

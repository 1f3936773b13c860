"""The toy example's training: its pairing, and what its methods learn."""

import pytest
import torch

from dessl.objective import RiskKind
from dessl_paper.toy_training import ToyPlan, ToyRun, trained_toy, warm_start

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


@pytest.mark.slow
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

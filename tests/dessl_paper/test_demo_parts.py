"""The parts of the demonstration against what their settings say and independent computations."""

import pytest
import torch
from scipy import stats

from dessl._entries import EntryError, read_as
from dessl.data import Part, load
from dessl.recipes.trial import Trial
from dessl_paper.demo_parts import DemoPlan, demo_plan, gained, harm, intervals
from dessl_paper.toy_training import ToyPlan, trained_toy, warm_start


@pytest.fixture(scope="module")
def trial() -> Trial:
    """Two models' random logits on the test rows of digits; nothing else of the trial is read."""
    data = load("digits")
    assert data.test is not None
    source = torch.Generator().manual_seed(0)
    y = data.test.y
    noise = torch.randn(2, len(y), 10, generator=source)
    logits = noise + 3 * torch.eye(10)[y]
    fitted = type("Fitted", (), {"pool": None})()
    return Trial(data, Part(data.test.x, y), fitted, logits[0], noise[1])


def test_harm_is_the_toy_example_with_the_settings_of_the_file() -> None:
    plan = demo_plan(seed=5, most_steps=3)
    found = harm(plan)
    start = warm_start(ToyPlan(warm_steps=3, steps=3, seed=5, record_every=3))
    for risk, mean in found.means.items():
        assert mean == trained_toy(start, risk, "pseudo_label").overlap_posterior  # type: ignore[arg-type]
    assert len(found.grid) == len(found.curves["ssl"]) == 250
    assert found.truth == found.true_curve[50] == 0.25  # x = 2


def test_accuracies_of_a_trial_are_shares_of_rows(trial: Trial) -> None:
    found = gained(trial)
    right = [(p.argmax(1) == trial.test.y) for p in (trial.twin_logits, trial.logits)]
    assert [one.value for one in found.scores] == pytest.approx(
        [float(one.double().mean()) for one in right]
    )
    assert found.difference.difference == pytest.approx(
        float(right[1].double().mean() - right[0].double().mean())
    )
    low, high = stats.binomtest(int(right[1].sum()), 360).proportion_ci(method="wilson")
    assert found.scores[1].low == pytest.approx(low, abs=0.01)
    assert found.scores[1].high == pytest.approx(high, abs=0.01)


def test_intervals_know_the_labels_of_their_choice_only(trial: Trial) -> None:
    plan = demo_plan()
    found = intervals(plan, trial)
    assert len(found.draws) == plan.interval.draws == 20
    right = (trial.logits.argmax(1) == trial.test.y).double()
    assert found.truth == pytest.approx(float(right.mean()))
    by_hand = sum(one.low <= found.truth <= one.high for one in found.draws)
    assert found.covered == by_hand >= 15
    known = torch.randperm(360, generator=torch.Generator().manual_seed(plan.seed))[:50]
    wrong = trial.test.y.clone()
    hidden = torch.ones(360, dtype=torch.bool)
    hidden[known] = False
    wrong[hidden] = (wrong[hidden] + 1) % 10  # what is hidden changes nothing
    other = Trial(trial.data, Part(trial.test.x, wrong), trial.fitted, trial.logits, trial.logits)
    assert intervals(plan, other).draws[0] == found.draws[0]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"sead": 1}, "no entry 'sead'"),
        ({"gain": {"data": "digits", "labels": "sixty"}}, "gain.labels must be a whole number"),
        ({"interval": {"labels": 1, "draws": 2, "confidence": 0.9}}, "interval.labels"),
        ({"bad_advice": {"right": 2.0}}, "bad_advice.right"),
    ],
)
def test_wrong_entries_are_refused(change: dict, complaint: str) -> None:
    plan = demo_plan()
    entries = {
        "title": plan.title,
        "notes": [],
        "seed": 0,
        "harm": vars(plan.harm),
        "gain": vars(plan.gain),
        "bad_advice": vars(plan.bad_advice),
        "interval": vars(plan.interval),
    }
    with pytest.raises((EntryError, ValueError), match=complaint):
        read_as(DemoPlan, entries | change, source="demo.toml")

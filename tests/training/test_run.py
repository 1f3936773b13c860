"""The loop against a loop written out by hand, and what runs of one seed share."""

import copy
import math
import warnings
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dessl import Batches, SemiData, TrainPlan, draw_labels
from dessl.data import LabelDraw
from dessl.objective import RiskKind
from dessl.surrogates import (
    SURROGATES,
    Combine,
    Entropy,
    FixMatch,
    FixMatchStar,
    FlexMatch,
    MeanTeacher,
    PseudoLabel,
    Scores,
    Smooth,
)
from dessl.training import PopulationRun, train, train_population


def weights(model: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in model.state_dict().items()}


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[key], other[key]) for key in one)


def test_it_is_the_loop_one_would_write(make_data: Any, make_model: Any, make_plan: Any) -> None:
    plan = make_plan(
        lam=0.7, ramp="linear_ramp", schedule="cosine", weight_decay=0.1, ema=0.9, evaluate_every=6
    )
    data = make_data()
    torch.manual_seed(3)
    model = make_model()
    by_hand = copy.deepcopy(model)
    result = train(model, Entropy(), data, plan)

    torch.manual_seed(plan.seed)
    mean = copy.deepcopy(by_hand)
    flat = [p for p in by_hand.parameters() if p.ndim < 2]
    wide = [p for p in by_hand.parameters() if p.ndim >= 2]
    groups = [{"params": wide, "weight_decay": 0.1}, {"params": flat}]
    optimiser = torch.optim.SGD(groups, 0.1, momentum=0.9, nesterov=True)
    batches = Batches(data, 8, 24, seed=plan.seed)
    for k in range(12):
        batch = next(batches)
        logits = by_hand(torch.cat([batch.x_labelled, batch.x_unlabelled]))
        p = logits.softmax(-1)
        h = -(p * p.log()).sum(-1)
        loss = F.cross_entropy(logits[:8], batch.y)
        lam = 0.7 * min(1, k / (0.4 * 12))
        risk = loss + lam * (h[8:].mean() - h[:8].mean())
        for group in optimiser.param_groups:
            group["lr"] = 0.1 * (1 + math.cos(math.pi * k / 12)) / 2
        optimiser.zero_grad()
        risk.backward()
        optimiser.step()
        share = max(0.1, 1 / (k + 2))
        with torch.no_grad():
            for mine, other in zip(mean.parameters(), by_hand.parameters(), strict=True):
                mine += share * (other - mine)
            for mine, other in zip(mean.buffers(), by_hand.buffers(), strict=True):
                mine.copy_(other)
    for key, value in mean.state_dict().items():
        torch.testing.assert_close(result.model.state_dict()[key], value)
    assert result.model is model


@pytest.mark.parametrize("optimiser", ["sgd", "adamw", "muon"])
def test_every_optimiser_learns(
    optimiser: str, make_data: Any, make_model: Any, make_plan: Any
) -> None:
    plan = make_plan(optimiser=optimiser, learning_rate=0.02, steps=100, lam=0.1, evaluate_every=50)
    first, last = train(make_model, Entropy(), make_data(), plan).history
    assert last.loss < first.loss
    assert last.validation["accuracy"] > 0.8


class Clipped(FixMatch):
    """FixMatch with a forward of its own."""

    def forward(self, model: Any, rows: Any) -> Any:
        h, logits = super().forward(model, rows)
        return Scores(h.clamp(max=0.1), logits)


@pytest.mark.parametrize("targets", ["joint", "apart"])
def test_a_surrogates_own_forward_is_what_is_trained(
    targets: str, make_data: Any, make_model: Any, make_plan: Any
) -> None:
    term = Clipped(0.5, targets=targets)
    result = train(make_model, term, make_data(), make_plan(risk="ssl"))
    assert all(event.h_unlabelled <= 0.1 for event in result.history)


def test_the_complete_case_never_touches_unlabelled_rows(
    make_data: Any, make_model: Any, make_plan: Any
) -> None:
    plan = make_plan(risk="complete_case")
    clean = train(make_model, Entropy(), make_data(), plan)
    poisoned = train(make_model, Entropy(), make_data(poison=math.nan), plan)
    assert same(weights(clean.model), weights(poisoned.model))  # BatchNorm's statistics included
    assert clean.history[-1].mask_unlabelled is None
    assert clean.history[-1].h_unlabelled == 0


def test_runs_of_one_seed_share_their_draws(
    make_data: Any, make_model: Any, make_plan: Any
) -> None:
    class Spy(Entropy):
        seen: list[Tensor]

        def forward(self, model: Any, rows: Any) -> Any:
            if torch.is_grad_enabled():
                self.seen.append(rows.ids)
            return super().forward(model, rows)

    seen = {}
    for risk in ("complete_case", "ssl", "debiased"):
        spy = Spy()
        spy.seen = []
        train(make_model, spy, make_data(), make_plan(risk=risk))
        seen[risk] = torch.stack(spy.seen)
    assert torch.equal(seen["ssl"], seen["debiased"])
    assert torch.equal(seen["complete_case"], seen["debiased"][:, :8])


def test_at_lambda_zero_ssl_and_debiased_are_one(
    make_data: Any, make_model: Any, make_plan: Any
) -> None:
    ends = [
        weights(train(make_model, PseudoLabel(0.6), make_data(), make_plan(risk=risk, lam=0)).model)
        for risk in ("ssl", "debiased")
    ]
    assert same(*ends)


def test_one_surrogate_serves_two_runs_alike(
    make_data: Any, make_model: Any, make_plan: Any
) -> None:
    surrogate = MeanTeacher()
    before = torch.get_rng_state()
    ends = [weights(train(make_model, surrogate, make_data(), make_plan()).model) for _ in range(2)]
    assert same(*ends)
    assert torch.equal(before, torch.get_rng_state())  # the caller's generator is left alone


def noisy(model: Any, x: Tensor) -> Tensor:
    """A plain function, which has PyTorch's own generator alone to draw from."""
    return (model(x + torch.randn_like(x)).softmax(-1) - model(x).softmax(-1)).square().sum(-1)


@pytest.mark.parametrize("make_surrogate", [lambda: FixMatch(0.6), lambda: noisy])
def test_evaluating_more_often_changes_nothing(
    make_surrogate: Any, make_data: Any, make_model: Any, make_plan: Any
) -> None:
    ends = [
        weights(
            train(
                make_model, make_surrogate(), make_data(), make_plan(lam=0.5, evaluate_every=k)
            ).model
        )
        for k in (1, 12)
    ]
    assert same(*ends)


def test_a_validation_part_changes_no_training(
    make_data: Any, make_model: Any, make_plan: Any
) -> None:
    """Nor the counts of a surrogate that counts rows, inside of another or not."""
    data = make_data()
    alone = SemiData(data.x, data.y)
    for make in (FlexMatch, lambda: Smooth(FlexMatch()), lambda: Combine([FlexMatch()])):
        ends = [
            weights(train(make_model, make(), part, make_plan(lam=0.5, steps=40)).model)
            for part in (data, alone)
        ]
        assert same(*ends)


@pytest.mark.parametrize("name", sorted(set(SURROGATES) - {"teacher", "combine", "smooth"}))
def test_every_surrogate_trains(name: str, make_data: Any, make_model: Any, make_plan: Any) -> None:
    plan = make_plan(lam=0.01, steps=4, bound="nonnegative")
    result = train(make_model, SURROGATES[name](), make_data(), plan)
    assert result.history[0].gradient_norm > 0
    assert result.history[0].lam_opt is not None


def test_what_cannot_work_is_refused(make_data: Any, make_model: Any, make_plan: Any) -> None:
    data = make_data()
    bare = SemiData(data.x, data.y)
    with pytest.raises(ValueError, match="select='accuracy' needs a validation part"):
        train(make_model, Entropy(), bare, make_plan(select="accuracy"))
    assert train(make_model, Entropy(), bare, make_plan()).history[-1].validation is None
    with pytest.raises(TypeError, match="plan must be a TrainPlan; got dict"):
        train(make_model, Entropy(), data, make_plan().as_dict())
    with pytest.raises(TypeError, match=r"data must be a SemiData; got tuple\. .*from_dataset"):
        train(make_model, Entropy(), (data.x, data.y), make_plan())
    with pytest.raises(TypeError, match="a function that builds one; got int"):
        train(lambda: 3, Entropy(), data, make_plan())
    with pytest.raises(TypeError, match="a function that builds one; got NoneType"):
        train(None, Entropy(), data, make_plan())
    with pytest.raises(ValueError, match="none requires a gradient"):
        train(nn.Identity(), Entropy(), data, make_plan())


@pytest.mark.parametrize(
    ("callbacks", "got"),
    [([print, 3], "int in it"), (3, "int"), (None, "NoneType"), (print, "one function")],
)
def test_callbacks_that_cannot_be_called_are_refused_before_the_first_step(
    callbacks: Any, got: str, make_data: Any, make_plan: Any
) -> None:
    def model() -> nn.Module:
        raise AssertionError("no model is needed")

    with pytest.raises(TypeError, match=rf"a list of functions of an Event; got {got}\."):
        train(model, Entropy(), make_data(), make_plan(), callbacks=callbacks)


def test_validation_rows_that_are_trained_on_are_warned_of_once(
    make_data: Any, make_model: Any, make_plan: Any
) -> None:
    data = make_data()
    same = SemiData(data.x, data.y, validation=(data.x[:20], data.y[:20]))
    with pytest.warns(UserWarning, match="20 of the 20 validation rows are also") as caught:
        train(make_model, Entropy(), same, make_plan())
    assert [str(one.message) for one in caught if "validation" in str(one.message)] == [
        "20 of the 20 validation rows are also labelled training rows: metrics, select, lam_opt "
        "and an online λ need rows that are not trained on. Hold rows out with "
        "draw_labels(..., n_validation=...), or remove them from x."
    ]


@pytest.mark.parametrize("n_logits", [1, 2])
def test_a_model_of_too_few_classes_is_refused_though_no_labelled_row_shows_it(
    n_logits: int, make_data: Any, make_plan: Any
) -> None:
    data = make_data()
    three = SemiData(data.x, data.y, class_names=["a", "b", "c"])
    with pytest.raises(ValueError, match=f"data's 3 classes; it gives {n_logits} for a row"):
        train(nn.Linear(4, n_logits), Entropy(), three, make_plan())
    assert train(nn.Linear(4, n_logits), Entropy(), data, make_plan()).steps == 12


def test_a_bounded_risk_is_trained(make_data: Any, make_model: Any, make_plan: Any) -> None:
    plan = make_plan(bound="nonnegative", lam=2.0, steps=40)
    result = train(make_model, FixMatchStar(0.6), make_data(), plan)
    assert all(event.risk >= 0 for event in result.history)
    assert replace(plan, bound=None, risk="ssl").bound is None


def test_labels_that_are_not_missing_at_random_are_weighed(make_data: Any, make_plan: Any) -> None:
    """In one step of all 20 labelled rows and 40 of the 100 unlabelled ones, row by row."""
    plan = make_plan(
        steps=1, lam=0.7, risk="inverse_propensity", labelled_batch=20, unlabelled_batch=40
    )
    data, model = make_data(), nn.Linear(4, 2)
    chances = torch.rand(120, generator=torch.Generator().manual_seed(4)).double() / 2 + 0.05
    chances[20:] = torch.nan  # nobody asks for those of unlabelled rows
    data = SemiData(data.x, data.y, propensity=chances)
    with torch.no_grad():
        batch = next(Batches(data, 20, 40, seed=plan.seed))
        logits = model(torch.cat([batch.x_labelled, batch.x_unlabelled])).double()
        p = logits.softmax(-1)
        h = -(p * p.log()).sum(-1)
        pi = chances[batch.ids_labelled]
        loss = -p[:20].log().gather(1, batch.y[:, None])[:, 0]
        # Each unlabelled row of the batch stands for 100 / 40 rows of the data.
        first = (loss - 0.7 * h[:20]) / pi + 0.7 * h[:20]
        expected = (first.sum() + 0.7 * h[20:].sum() * 100 / 40) / 120
    (event,) = train(model, "entropy", data, plan).history
    assert event.risk == pytest.approx(expected.item(), rel=1e-5)
    with pytest.raises(ValueError, match=r"needs the probability.*SemiData\(..., propensity=...\)"):
        train(model, "entropy", make_data(), plan)


def test_the_debiased_risk_with_propensities_is_the_inverse_propensity_form(
    make_data: Any, make_plan: Any
) -> None:
    data = make_data()
    chances = torch.rand(120, generator=torch.Generator().manual_seed(4)) / 2 + 0.05
    data = SemiData(data.x, data.y, propensity=chances)
    plan = make_plan(steps=3, lam=0.7)
    ours, same = (
        train(lambda: nn.Linear(4, 2), "entropy", data, replace(plan, risk=risk))
        for risk in ("debiased", "inverse_propensity")
    )
    assert ours.plan.risk == "inverse_propensity"
    assert torch.equal(ours.model.weight, same.model.weight)
    with pytest.raises(ValueError, match="bound cannot be used with data that has propensities"):
        train(lambda: nn.Linear(4, 2), "entropy", data, replace(plan, bound="nonnegative"))


def test_held_out_rows_say_the_lambda_of_weighed_labels(make_plan: Any) -> None:
    x = torch.randn(90, 4, generator=torch.Generator().manual_seed(1))
    data = SemiData(x, (x[:, 0] > 0).long(), propensity=torch.full((90,), 0.4))
    draw = draw_labels(data.y, 40, n_validation=20, generator=torch.Generator().manual_seed(0))
    plan = make_plan(steps=2, labelled_batch=10, unlabelled_batch=20)
    (*_, event) = train(lambda: nn.Linear(4, 2), "entropy", data.with_labels(draw), plan).history
    assert event.lam_opt is not None
    assert math.isfinite(event.lam_opt)


def test_a_run_on_the_cpu_seeds_no_gpu(
    make_data: Any, make_model: Any, make_plan: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeds: list[int] = []
    monkeypatch.setattr(torch.cuda, "manual_seed_all", seeds.append)
    train(make_model, Entropy(), make_data(), make_plan())
    data = SemiData(torch.randn(30, 4), torch.arange(30) % 2)
    rows = torch.arange(30)
    run = PopulationRun(0, LabelDraw(rows[:8], rows[:0], rows[8:]))
    train_population(make_model, Entropy(), data, [run], make_plan())
    assert seeds == []


@pytest.mark.parametrize("risk", ["debiased", "complete_case"])
def test_slow_batch_statistics_behind_pseudo_labels_are_warned_of(risk: RiskKind) -> None:
    def network() -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.BatchNorm1d(64, momentum=0.001), nn.Linear(64, 2))

    x = torch.randint(256, (20, 1, 8, 8), dtype=torch.uint8)
    data = SemiData(x, torch.arange(20) % 3 - 1)
    plan = TrainPlan(steps=1, labelled_batch=4, unlabelled_batch=4, risk=risk)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        train(network, FixMatch(targets="apart"), data, plan)
    found = [str(one.message) for one in caught if "momentum of 0.001" in str(one.message)]
    assert len(found) == (risk == "debiased")

"""λ that follows validation rows: against per-sample gradients, and what it does to a run."""

import dataclasses
import math
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from dessl.data import LabelDraw, SemiData
from dessl.functional import cross_entropy, entropy
from dessl.models import MLP
from dessl.surrogates import (
    Combine,
    Entropy,
    FixMatch,
    FromFunction,
    PiModel,
    Rows,
    Surrogate,
    as_is,
    as_surrogate,
)
from dessl.theory import optimal_lambda_gradient, optimal_lambdas_gradient
from dessl.training import PopulationRun, TrainPlan, train, train_population
from dessl.training.online import MOST_ROWS, STEP, last_layer_gradients, next_lams


def two_classes(n: int = 400, labelled: int = 60, validation: int = 80) -> SemiData:
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(n + validation, 4, generator=generator)
    y = (x[:, 0] + 0.5 * torch.randn(n + validation, generator=generator) > 0).long()
    given = torch.where(torch.arange(n) < labelled, y[:n], -1)
    return SemiData(x[:n], given, validation=(x[n:], y[n:]))


def network() -> nn.Module:
    torch.manual_seed(0)
    return MLP(4, 2, dropout=0.0)


def prepared(surrogate: Surrogate, model: nn.Module, data: SemiData) -> Surrogate:
    surrogate.prepare(model, len(data.x) + len(data.validation.y), data.n_classes)  # type: ignore[union-attr]
    return surrogate


def by_sample(model: nn.Module, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """∇L and ∇H for the last layer by torch.func, a row at a time."""
    names = [name for name, _ in model.named_parameters()][-2:]
    weights = {name: value.detach() for name, value in model.named_parameters()}
    last = {name: weights[name] for name in names}

    def loss(own: dict[str, Tensor], row: Tensor, label: Tensor) -> Tensor:
        logits = functional_call(model, weights | own, (row[None],))
        return cross_entropy(logits, label[None])[0]

    def term(own: dict[str, Tensor], row: Tensor, label: Tensor) -> Tensor:
        return entropy(functional_call(model, weights | own, (row[None],)))[0]

    of = [vmap(grad(each), (None, 0, 0))(last, x, y) for each in (loss, term)]
    flat = [torch.cat([part[name].flatten(1) for name in names], dim=1) for part in of]
    return flat[0].double(), flat[1].double()


def test_gradients_are_those_of_single_rows() -> None:
    data, model = two_classes(), network().eval()
    loss, (h,) = last_layer_gradients(model, prepared(Entropy(), model, data), data)
    x, y = data.validation  # type: ignore[misc]
    expected_loss, expected_h = by_sample(model, x, y)
    # The columns stand in another order (weights of a class beside its bias): compare products.
    torch.testing.assert_close(loss @ h.T, expected_loss @ expected_h.T, atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(loss @ loss.T, expected_loss @ expected_loss.T, atol=1e-6, rtol=1e-5)


def test_the_next_lam_is_half_way_to_the_estimate() -> None:
    data, model = two_classes(), network().eval()
    surrogate = prepared(Entropy(), model, data)
    x, y = data.validation  # type: ignore[misc]
    estimate = optimal_lambda_gradient(*by_sample(model, x, y), data.n_unlabelled, on="all").lam
    share = data.n_unlabelled / (data.n_labelled + data.n_unlabelled)
    aim = min(max(estimate * share, 0.0), 2.0)
    plan = TrainPlan(steps=10, lam=2.0, online=True)
    found = next_lams([0.7], model, surrogate, data, plan)[0]
    assert math.isclose(found, 0.7 + STEP * (aim - 0.7), rel_tol=1e-4)


def test_views_of_a_row_count_for_that_row() -> None:
    data, model = two_classes(), network().eval()
    surrogate = prepared(PiModel(view=lambda x, generator: x), model, data)
    loss, (h,) = last_layer_gradients(model, surrogate, data)
    assert loss.shape[0] == len(data.validation.y)  # type: ignore[union-attr]
    assert torch.all(h.abs().sum(1) < 1e-6)  # equal views agree: H has no gradient


def test_a_term_that_knows_the_label_gets_the_largest_lam() -> None:
    """H close to L: the estimate is near 1 times the unlabelled share, from a start at 0."""
    data = two_classes()
    plan = TrainPlan(
        steps=60, labelled_batch=20, unlabelled_batch=60, learning_rate=0.05, lam=1.0, online=True
    )
    events = train(network, knows_the_answer(data), data, plan).history
    assert events[0].lam == 0.0
    assert 0.4 < events[-1].lam <= 1.0
    assert events[-1].h_unlabelled > 0


def knows_the_answer(data: SemiData) -> Callable[[nn.Module, Tensor], Tensor]:
    """H = the cross-entropy of an answer that is right for most rows."""
    every = torch.cat([data.x, data.validation.x])  # type: ignore[union-attr]
    answers = (every[:, 0] > 0).long()

    def term(model: nn.Module, x: Tensor) -> Tensor:
        match = (x[:, None] == every[None]).all(-1).float().argmax(1)
        return cross_entropy(model(x), answers[match])

    return term


def test_each_term_of_a_sum_gets_its_own_lam() -> None:
    data, model = two_classes(), network().eval()
    wrong = torch.randint(2, (480,), generator=torch.Generator().manual_seed(0))
    knows = knows_the_answer(data)

    def guesses(model: nn.Module, x: Tensor) -> Tensor:
        return cross_entropy(model(x), wrong[: len(x)])

    terms = [FromFunction(each, bounded_up_to=1.0) for each in (knows, guesses)]
    both = prepared(Combine(terms, weights=[2.0, 1.0]), model, data)
    both(model, Rows(data.x, torch.arange(len(data.x))))  # each has half of the views
    loss, h = last_layer_gradients(model, both, data)
    for part, term, weight in zip(h, terms, (2.0, 1.0), strict=True):
        _, (alone,) = last_layer_gradients(model, prepared(term, model, data), data)
        torch.testing.assert_close(part, weight * alone)
    plan = TrainPlan(steps=10, lam=1.0, online=True)
    estimate = optimal_lambdas_gradient(loss, h, data.n_unlabelled, on="all").lam
    share = data.n_unlabelled / (data.n_labelled + data.n_unlabelled)
    found = next_lams([0.2, 0.4], model, both, data, plan)
    aim = [min(float(estimate[0]) * share, 0.25), min(float(estimate[1]) * share, 0.5)]
    assert both.separate_bounds == (0.25, 0.5)
    assert found == pytest.approx([0.2 + STEP * (aim[0] - 0.2), 0.4 + STEP * (aim[1] - 0.4)])
    assert found[0] == pytest.approx(0.225)  # at its bound
    assert found[1] < 0.25  # hardly used


def test_in_a_run_a_sum_has_the_lams_of_its_terms() -> None:
    data = two_classes()

    def guesses(logits: Tensor) -> Tensor:
        return (logits * torch.randn(logits.shape)).sum(1)

    sum_ = Combine([knows_the_answer(data), guesses])
    plan = TrainPlan(
        steps=60, labelled_batch=20, unlabelled_batch=60, learning_rate=0.05, lam=1.0, online=True
    )
    result = train(network, sum_, data, plan)
    last = result.history[-1]
    assert result.history[0].lams == [0.0, 0.0]
    assert last.lams is not None
    assert last.lam == pytest.approx(last.lams[0])
    assert last.lams[0] > 0.4
    assert last.lams[1] < 0.1
    alone = train(network, knows_the_answer(data), data, plan)
    assert alone.history[-1].lams is None


def test_the_lams_of_a_run_do_not_outlast_it() -> None:
    data = two_classes()
    plan = TrainPlan(steps=20, labelled_batch=20, unlabelled_batch=60, lam=0.2, evaluate_every=5)

    def new() -> Combine:
        return Combine([knows_the_answer(data), Entropy()])

    used = new()
    last = train(network, used, data, dataclasses.replace(plan, lam=1.0, online=True)).history[-1]
    assert last.lams is not None
    assert min(last.lams) < max(last.lams)
    assert used.shares.tolist() == [1.0, 1.0]
    again, fresh = (train(network, sum_, data, plan).history[-1] for sum_ in (used, new()))
    assert again.risk == fresh.risk


def test_a_term_without_a_bound_leaves_the_others_theirs() -> None:
    data, plan = two_classes(), TrainPlan(steps=20, lam=1.0, online=True, evaluate_every=5)
    sum_ = Combine(
        [knows_the_answer(data), FromFunction(lambda logits: logits.sum(1), bounded_up_to=0.0)]
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        last = train(network, sum_, data, plan).history[-1]
    assert last.lams is not None
    assert last.lams[0] > 0.1
    assert last.lams[1] == 0.0


def test_lam_stops_where_the_risk_is_no_longer_bounded_below() -> None:
    data, model = two_classes(), network().eval()
    plan = TrainPlan(steps=4, lam=1.0, online=True)
    found = {}
    for bound in (math.inf, 0.1, 0.0):
        same = prepared(FromFunction(entropy, bounded_up_to=bound), model, data)
        found[bound] = next_lams([0.0], model, same, data, plan)[0]
    assert found[math.inf] > STEP * 0.1
    assert found[0.1] == pytest.approx(STEP * 0.1)
    assert found[0.0] == 0.0


def test_a_bound_of_zero_is_said_and_another_is_kept_to() -> None:
    data, plan = two_classes(), TrainPlan(steps=2, lam=1.0, online=True)
    with pytest.warns(UserWarning, match="online=True keeps λ at 0"):
        train(network, FromFunction(entropy, bounded_up_to=0.0), data, plan)
    train(network, FromFunction(entropy, bounded_up_to=0.2), data, plan)  # no warning


def test_a_term_that_knows_nothing_stays_near_zero() -> None:
    data = two_classes()
    noise = torch.randn(2, generator=torch.Generator().manual_seed(1))

    def term(logits: Tensor) -> Tensor:
        return 1 + torch.tanh(logits @ noise) * torch.randn(len(logits))

    plan = TrainPlan(steps=60, labelled_batch=20, unlabelled_batch=60, lam=1.0, online=True)
    events = train(network, term, data, plan).history
    assert max(event.lam for event in events) < 0.1


@pytest.mark.parametrize("several", [False, True])
def test_an_interrupted_run_ends_the_same(tmp_path: Path, several: bool) -> None:
    data = two_classes()

    def term() -> Surrogate:
        return Combine([knows_the_answer(data), Entropy()]) if several else Entropy()

    plan = TrainPlan(
        steps=40, labelled_batch=20, unlabelled_batch=60, lam=1.0, online=True, evaluate_every=5
    )

    class StopError(Exception):
        pass

    def stop(event: object) -> None:
        if event.step == 20:  # type: ignore[attr-defined]
            raise StopError

    whole = train(network, term(), data, plan)
    with pytest.raises(StopError):
        train(network, term(), data, plan, out=tmp_path / "run", callbacks=[stop])
    resumed = train(network, term(), data, plan, out=tmp_path / "run")
    assert [event.lam for event in resumed.history] == [event.lam for event in whole.history]
    assert [event.lams for event in resumed.history] == [event.lams for event in whole.history]
    for one, other in zip(whole.model.parameters(), resumed.model.parameters(), strict=True):
        assert torch.equal(one, other)


def test_at_most_so_many_rows_are_looked_at() -> None:
    data, model = two_classes(validation=MOST_ROWS + 40), network().eval()
    loss, _ = last_layer_gradients(model, prepared(Entropy(), model, data), data)
    assert len(loss) == MOST_ROWS


def test_what_cannot_be_is_refused() -> None:
    data = two_classes()
    plan = TrainPlan(steps=2, online=True)
    with pytest.raises(ValueError, match="validation rows"):
        train(network, "entropy", SemiData(data.x, data.y), plan)
    with pytest.raises(ValueError, match=r"last nn\.Linear"):
        train(nn.Bilinear(4, 4, 2), as_surrogate("entropy"), data, plan)
    with pytest.raises(ValueError, match="debiased risk"):
        TrainPlan(steps=2, online=True, risk="complete_case")
    draw = LabelDraw(data.labelled_rows, data.labelled_rows[:0], data.unlabelled_rows)
    runs = [PopulationRun(0, draw)]
    with pytest.raises(ValueError, match="fixed lam"):
        train_population(network, "entropy", data, runs, plan)


def test_a_plan_without_it_is_written_as_before() -> None:
    assert "online" not in TrainPlan(steps=1).as_dict()
    plan = TrainPlan(steps=1, online=True)
    assert TrainPlan.from_dict(plan.as_dict()) == plan


class Odd(nn.Module):
    """Registers its head before its body, and a layer that is never called last of all."""

    def __init__(self, like: nn.Module) -> None:
        super().__init__()
        first, *_, last = (part for part in like.modules() if isinstance(part, nn.Linear))
        self.head, self.body, self.unused = last, first, nn.Linear(3, 5)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.body(x).relu())
        return logits


def test_the_last_layer_is_the_one_called_last() -> None:
    data = two_classes()
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    found = [
        last_layer_gradients(model, prepared(Entropy(), model, data), data)
        for model in (plain, Odd(plain))
    ]
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)


def test_many_rows_sorted_by_class_are_looked_at_in_every_class() -> None:
    data, model = two_classes(validation=4 * MOST_ROWS + 40), network().eval()
    x, y = data.validation  # type: ignore[misc]
    order = y.argsort(stable=True)
    by_class = SemiData(data.x, data.y, validation=(x[order], y[order]))
    loss, _ = last_layer_gradients(model, Entropy(), by_class)
    ones = loss[:, -1] < 0  # the bias of class 1: its probability, minus 1 for its own rows
    assert len(loss) == MOST_ROWS
    assert float(ones.double().mean()) == pytest.approx(float(y.double().mean()), abs=0.01)


class Tokens(nn.Module):
    """Applies its head to each of a row's four tokens, and returns the mean."""

    def __init__(self, *, features: int, classes: int, flat: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.body, self.head, self.flat = nn.Linear(1, features), nn.Linear(features, classes), flat

    def forward(self, x: Tensor) -> Tensor:
        tokens = torch.tanh(self.body(x[..., None]))
        each = self.head(tokens.flatten(0, 1) if self.flat else tokens)
        return each.view(*x.shape, -1).mean(1)


def with_classes(classes: int, validation: int = 50) -> SemiData:
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(100 + validation, 4, generator=generator)
    y = torch.arange(len(x)) % classes
    given = torch.where(torch.arange(100) < 40, y[:100], -1)
    return SemiData(x[:100], given, validation=(x[100:], y[100:]))


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize(("features", "classes"), [(2, 3), (8, 3), (4, 2)])
def test_a_layer_applied_to_each_token_is_summed_over_them(
    features: int, classes: int, flat: bool
) -> None:
    """Also where features + 1 is the number of classes, or of tokens."""
    data = with_classes(classes)
    model = Tokens(features=features, classes=classes, flat=flat).eval()
    loss, (h,) = last_layer_gradients(model, prepared(Entropy(), model, data), data)
    expected_loss, expected_h = by_sample(model, *data.validation)  # type: ignore[misc]
    weights = features * classes
    for found, expected in ((loss, expected_loss), (h, expected_h)):
        own = expected[:, :weights].view(-1, classes, features)
        bias = expected[:, weights:].unsqueeze(-1)
        together = torch.cat([own, bias], dim=2).flatten(1)
        torch.testing.assert_close(found, together, atol=1e-6, rtol=1e-5)


def test_views_and_tokens_together_count_for_their_row() -> None:
    data, model = with_classes(3), Tokens(features=8, classes=3).eval()
    same = prepared(FixMatch(threshold=0.0, weak=as_is, strong=as_is), model, data)
    loss, (h,) = last_layer_gradients(model, same, data)
    alone, _ = last_layer_gradients(model, prepared(Entropy(), model, data), data)
    torch.testing.assert_close(loss, alone)
    assert h.shape == loss.shape


class Unused(nn.Module):
    """Computes its logits without its only ``nn.Linear``, which it may still call."""

    def __init__(self, *, called: bool) -> None:
        super().__init__()
        self.table, self.linear, self.called = nn.Bilinear(4, 4, 2), nn.Linear(4, 2), called

    def forward(self, x: Tensor) -> Tensor:
        if self.called:
            self.linear(x)
        logits: Tensor = self.table(x, x)
        return logits


@pytest.mark.parametrize("called", [False, True])
def test_logits_without_a_linear_layer_are_refused_at_the_first_step(called: bool) -> None:
    data, plan = two_classes(), TrainPlan(steps=40, online=True, evaluate_every=20)
    begun: list[int] = []

    def term(model: nn.Module, x: Tensor) -> Tensor:
        begun.append(len(x))
        return entropy(model(x))

    with pytest.raises(ValueError, match=r"depend on none of its nn\.Linear modules"):
        train(Unused(called=called), term, data, plan)
    assert len(begun) == 2  # one step and the check


def test_a_layer_called_last_that_the_logits_ignore_is_not_the_last_layer() -> None:
    class Aside(nn.Module):
        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.inner, self.aside = inner, nn.Linear(2, 7)

        def forward(self, x: Tensor) -> Tensor:
            logits: Tensor = self.inner(x)
            self.aside(logits)
            return logits

    data, plain = two_classes(), network().eval()
    found = [
        last_layer_gradients(model, prepared(Entropy(), model, data), data)
        for model in (plain, Aside(plain).eval())
    ]
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)


def test_a_term_that_calls_parts_of_the_model_is_matched_by_row() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)).eval()
    data = two_classes()

    def term(model: nn.Module, x: Tensor) -> Tensor:
        return entropy(model[2](model[1](model[0](x))))  # type: ignore[index]

    found = [
        last_layer_gradients(model, prepared(as_surrogate(each), model, data), data)
        for each in ("entropy", term)
    ]
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)


def test_tokens_before_rows_are_refused() -> None:
    class TokensFirst(Tokens):
        def forward(self, x: Tensor) -> Tensor:
            each: Tensor = self.head(torch.tanh(self.body(x.T[..., None])))
            return each.mean(0)

    data, model = with_classes(3), TokensFirst(features=8, classes=3)
    with pytest.raises(ValueError, match=r"in a pass of 50 rows it got \(4, 50, 3\)"):
        last_layer_gradients(model, prepared(Entropy(), model, data), data)

"""Uncertainty-aware pseudo-labels against loops in float64, with real dropout."""

import math
import statistics

import pytest
import torch
from torch import Tensor, nn

from dessl.surrogates import UPS, Rows

X = torch.randn(60, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
ROWS = Rows(X, torch.arange(60))


@pytest.fixture
def model() -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(2)
        layers = nn.Sequential(nn.Linear(8, 30), nn.ReLU(), nn.Dropout(0.1), nn.Linear(30, 4))
    with torch.no_grad():
        layers[3].weight.mul_(8)
    return layers.double()


def flattened(p: list[float], temperature: float) -> list[float]:
    powers = [value ** (1 / temperature) for value in p]
    return [power / sum(powers) for power in powers]


def transcribed(passes: list[Tensor], ups: UPS) -> tuple[list[float], list[str]]:
    """H of each row from the probabilities of all passes; the first is the one with a gradient."""
    values, kinds = [], []
    for row in range(len(passes[0])):
        each = [[float(p[row, c]) for p in passes] for c in range(passes[0].shape[1])]
        mean = [statistics.mean(values) for values in each]
        spread = [statistics.stdev(values) for values in each]
        k = max(range(len(mean)), key=mean.__getitem__)
        flatter = [flattened([float(v) for v in p[row]], ups.negative_temperature) for p in passes]
        excluded = [
            c
            for c in range(len(mean))
            if c != k
            and statistics.mean(p[c] for p in flatter) <= ups.negative
            and statistics.stdev(p[c] for p in flatter) <= ups.negative_spread
        ]
        if mean[k] >= ups.positive and spread[k] <= ups.positive_spread:
            values.append(-math.log(each[k][0]))
            kinds.append("positive")
        elif excluded:
            values.append(-statistics.mean(math.log(1 - each[c][0]) for c in excluded))
            kinds.append("negative")
        else:
            values.append(0.0)
            kinds.append("none")
    return values, kinds


def test_it_is_its_equation_under_real_dropout(model: nn.Module) -> None:
    ups = UPS(passes=5, negative=0.1, positive_spread=0.1, negative_spread=0.02)
    torch.manual_seed(3)
    scores = ups(model, ROWS)
    torch.manual_seed(3)
    first = model(X)
    others = model(X.repeat(4, 1)).view(4, 60, 4)
    expected, kinds = transcribed([z.softmax(-1).detach() for z in (first, *others)], ups)
    assert scores.h.tolist() == pytest.approx(expected, rel=1e-10)
    assert min(kinds.count(kind) for kind in ("positive", "negative", "none")) >= 3
    assert torch.equal(scores.logits, first[None])


def test_only_the_first_pass_has_a_gradient(model: nn.Module) -> None:
    calls: list[Tensor] = []

    def watched(x: Tensor) -> Tensor:
        calls.append(model(x))
        return calls[-1]

    scores = UPS(passes=5)(watched, ROWS)
    outputs, others = calls
    assert not others.requires_grad
    (gradient,) = torch.autograd.grad(scores.h.sum(), outputs, retain_graph=True)
    weights = list(model.parameters())
    all_paths = torch.autograd.grad(scores.h.sum(), weights, retain_graph=True)
    first_path = torch.autograd.grad(outputs, weights, gradient)
    torch.testing.assert_close(all_paths, first_path)
    assert gradient.abs().sum() > 0


def test_without_dropout_only_the_thresholds_are_left(model: nn.Module) -> None:
    model.eval()
    p = model(X).softmax(-1).detach()
    expected, _ = transcribed([p, p], UPS(2))
    assert UPS(2)(model, ROWS).h.tolist() == pytest.approx(expected)


def test_the_passes_leave_batch_norm_as_one_pass_does() -> None:
    norm = nn.BatchNorm1d(8).double()
    UPS(passes=4)(norm, ROWS)
    assert norm.num_batches_tracked == 1


class Passes:
    """A model that gives the passes' logits one after the other: the first, then the rest."""

    def __init__(self, logits: Tensor) -> None:
        self.parts = iter([logits[0], logits[1:].flatten(0, 1)])

    def __call__(self, x: Tensor) -> Tensor:
        return next(self.parts)


def worst_h(ups: UPS, usual: Tensor, first: Tensor) -> float:
    """Largest H of rows whose first pass has p(0) = first and all others p(0) = usual."""
    p = torch.cat([first[None], usual.expand(ups.passes - 1, len(first))])
    logits = torch.stack([p, 1 - p], -1).log()
    return ups(Passes(logits), Rows(first[:, None], torch.arange(len(first)))).h.max().item()


@pytest.mark.parametrize("passes", [2, 5, 10])
def test_the_bound_holds_and_is_reached(passes: int) -> None:
    ups = UPS(passes, positive=0.7, positive_spread=0.05)
    grid = torch.linspace(0.3, 0.99, 400, dtype=torch.float64)
    usual, first = (part.flatten() for part in torch.meshgrid(grid, grid, indexing="ij"))
    reach = (passes - 1) / math.sqrt(passes) * 0.05
    bound = -math.log(0.7 - reach)
    assert 0.95 * bound < worst_h(ups, usual, first) <= bound
    assert ups.bounded_up_to == math.inf


def test_where_passes_may_disagree_the_risk_is_unbounded() -> None:
    ups = UPS(10, positive_spread=1.0)
    assert ups.bounded_up_to == 0.0
    usual = torch.full((5,), 0.999, dtype=torch.float64)
    first = torch.tensor([1e-10, 1e-50, 1e-100, 1e-200, 1e-300], dtype=torch.float64)
    assert worst_h(ups, usual, first) > 600


def test_certain_predictions_have_finite_gradients() -> None:
    logits = torch.tensor([[1e4, -1e4, 0.0], [0.0, 0.0, -1e4]], requires_grad=True)
    UPS()(lambda x: x, Rows(logits, torch.arange(2))).h.sum().backward()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()


def test_one_logit_stands_for_two() -> None:
    z = X[:, :1] * 3
    both = torch.cat([torch.zeros_like(z), z], -1)
    one, two = (UPS()(lambda x: x, Rows(x, ROWS.ids)).h for x in (z, both))
    torch.testing.assert_close(one, two)


def test_a_temperature_rules_out_fewer_classes_and_the_likeliest_never() -> None:
    logits = torch.tensor([[2.0, 2.0, -2.0], [0.0, 0.0, 0.0]], dtype=torch.float64)
    rows = Rows(logits, torch.arange(2))

    def h(**settings: float) -> list[float]:
        return [value + 0 for value in UPS(**settings)(lambda x: x, rows).h.tolist()]

    rare = math.exp(-4) / (2 + math.exp(-4))  # 0.009; at t = 2 it is 0.063
    assert h(negative_temperature=1.0) == pytest.approx([-math.log(1 - rare), 0])
    assert h() == [0, 0]
    # All classes have 1/3: the first is the arg-max and stays, the others are ruled out.
    assert h(negative=0.4)[1] == pytest.approx(-math.log(2 / 3))


def test_one_pass_is_refused() -> None:
    with pytest.raises(ValueError, match="passes must be at least 2; got 1"):
        UPS(1)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_logit_that_is_not_finite_is_not_masked(bad: float) -> None:
    logits = torch.tensor([[9.0, 0.0, 0.0], [0.1, 0.0, 0.0], [bad, 0.0, 0.0]])
    h, _ = UPS()(lambda x: x, Rows(logits, torch.arange(3)))
    assert h.isnan().tolist() == [False, False, True]

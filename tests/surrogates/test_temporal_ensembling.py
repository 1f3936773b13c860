"""Temporal ensembling against a dictionary of past predictions, and the law of its H."""

import math
import statistics
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from dessl.data import Batches, SemiData
from dessl.surrogates import Rows, Scores, TemporalEnsembling, as_is

N, A = 7, 0.6


def batch(generator: torch.Generator) -> Rows:
    """Five rows of seven, with repeats now and then."""
    ids = torch.randint(N, (5,), generator=generator)
    return Rows(torch.randn(5, 4, generator=generator), ids)


class Ledger:
    """The memory as a dictionary, round by round, with the draws of the surrogate's generator."""

    def __init__(self, momentum: float, seed: int) -> None:
        self.momentum, self.rounds, self.pace = momentum, 0, 0
        self.z: dict[int, list[float]] = {}
        self.kept: dict[int, list[float]] = {}
        self.visits: dict[int, float] = {}
        self.draws = torch.Generator().manual_seed(seed)

    def target(self, row: int) -> list[float]:
        return [z / (1 - self.momentum**self.rounds) for z in self.z[row]]

    def add(self, ids: list[int], predictions: list[list[float]]) -> None:
        chances = torch.rand(len(ids), generator=self.draws).tolist()
        ends = set(self.kept) | set(ids) == set(range(N))
        unseen = N - len(self.kept)
        share = min(1.0, unseen / max(1, self.pace))
        weight = share if ends else 1.0
        first = {row: ids.index(row) for row in ids}
        begins = [row for row in first if row in self.kept or ids.count(row) > 1]
        for row, place in first.items():
            if row not in self.kept:
                self.kept[row], self.visits[row] = predictions[place], weight
                continue
            self.visits[row] += weight
            if chances[place] < weight / self.visits[row]:
                self.kept[row] = predictions[place]
        if ends:
            for row, p in self.kept.items():
                past, a = self.z.get(row, [0.0] * len(p)), self.momentum
                self.z[row] = [a * z + (1 - a) * v for z, v in zip(past, p, strict=True)]
            self.rounds += 1
            self.kept = {row: predictions[first[row]] for row in begins}
            self.visits = dict.fromkeys(begins, 1 - share)
        else:
            self.pace = len(set(self.kept)) - (N - unseen)


@pytest.mark.parametrize("momentum", [0.0, 0.6])
def test_the_equation_over_many_steps(
    momentum: float, softmax: Callable[[Tensor], list[float]]
) -> None:
    model = nn.Linear(4, 3)
    surrogate = TemporalEnsembling(momentum=momentum, view=as_is, seed=3)
    surrogate.prepare(model, N, 3)
    ledger = Ledger(momentum, seed=3)
    generator = torch.Generator().manual_seed(0)
    repeats = 0
    for _ in range(40):
        rows = batch(generator)
        scores = surrogate(model, rows)
        predictions = [softmax(row) for row in model(rows.x)]
        ids = rows.ids.tolist()
        expected = []
        for row, p in zip(ids, predictions, strict=True):
            target = ledger.target(row) if ledger.rounds else p
            assert sum(target) == pytest.approx(1)
            expected.append(sum((a - b) ** 2 for a, b in zip(p, target, strict=True)))
        torch.testing.assert_close(scores.h, torch.tensor(expected))
        surrogate.after_step(model, rows, scores)
        ledger.add(ids, predictions)
        repeats += len(ids) - len(set(ids))
    assert repeats > 0
    assert ledger.rounds > 5


class Drift(nn.Module):
    """A model whose predictions turn with time, and depend on no label."""

    def __init__(self) -> None:
        super().__init__()
        self.time = 0

    def forward(self, x: Tensor) -> Tensor:
        return 2 * torch.cat([x + 0.08 * self.time, x.flip(-1) - 0.08 * self.time], -1)


class EachVisit(TemporalEnsembling):
    """What is refused here: a memory that moves at every visit of a row."""

    def after_step(self, model: nn.Module, rows: Rows, scores: Scores) -> None:
        assert self.memory is not None
        assert self.visits is not None
        p = scores.logits[0].softmax(-1)
        self.memory[rows.ids] = A * self.memory[rows.ids] + (1 - A) * p
        self.visits[rows.ids] += 1

    def forward(self, model: Callable[[Tensor], Tensor], rows: Rows) -> Scores:
        assert self.memory is not None
        assert self.visits is not None
        logits, visits = model(rows.x), self.visits[rows.ids].unsqueeze(-1)
        target = self.memory[rows.ids] / (1 - A**visits).clamp(min=1e-9)
        distance = (logits.softmax(-1) - target).square().sum(-1)
        return Scores(torch.where(visits[:, 0] > 0, distance, 0.0), logits.unsqueeze(0))


def difference(surrogate: TemporalEnsembling, x: Tensor, seed: int) -> float:
    """Mean H on labelled rows minus that on unlabelled ones, over a short training."""
    y = torch.full((48,), -1)
    y[torch.randperm(48, generator=torch.Generator().manual_seed(seed))[:8]] = 0
    batches = Batches(SemiData(x, y, class_names=("a", "b", "c", "d")), 6, 7, seed=seed)
    model = Drift()
    surrogate.prepare(model, 48, 4)
    surrogate.draws_from(torch.arange(48))
    found = []
    for model.time in range(30):
        batch = next(batches)
        rows = Rows(
            torch.cat([batch.x_labelled, batch.x_unlabelled]),
            torch.cat([batch.ids_labelled, batch.ids_unlabelled]),
        )
        scores = surrogate(model, rows)
        surrogate.after_step(model, rows, scores)
        if model.time >= 6:  # past the first round
            found.append(float(scores.h[:6].mean() - scores.h[6:].mean()))
    return statistics.mean(found)


@pytest.mark.parametrize("kind", [TemporalEnsembling, EachVisit])
def test_H_has_one_law_on_labelled_and_unlabelled_rows(kind: type[TemporalEnsembling]) -> None:
    """Labels are drawn completely at random; labelled rows are visited 4.3 times as often."""
    x = torch.randn(48, 2, generator=torch.Generator().manual_seed(1))
    found = [difference(kind(view=as_is, seed=run), x, seed=run) for run in range(50)]
    error = statistics.stdev(found) / math.sqrt(len(found))
    z = statistics.mean(found) / error
    if kind is EachVisit:
        assert z < -10  # fresher targets: H is smaller on labelled rows
    else:
        assert abs(z) < 3


def test_a_row_keeps_each_of_its_visits_equally_often() -> None:
    surrogate, model = TemporalEnsembling(view=as_is), nn.Identity()
    surrogate.prepare(model, 301, 2)
    ids = torch.arange(300)
    for visit in range(4):  # the logits tell which visit it was; row 300 ends the round
        x = torch.tensor([float(visit), 0.0]).expand(300, 2)
        surrogate.after_step(model, Rows(x, ids), Scores(torch.zeros(300), x.unsqueeze(0)))
    last = torch.zeros(1, 2)
    surrogate.after_step(
        model, Rows(last, torch.tensor([300])), Scores(torch.zeros(1), last.unsqueeze(0))
    )
    odds = surrogate.target(ids)
    visits = (odds[:, 0].log() - odds[:, 1].log()).round()
    counts = [int((visits == visit).sum()) for visit in range(4)]
    assert sum(counts) == 300
    assert sum((count - 75) ** 2 / 75 for count in counts) < 16.3  # χ² of 3 degrees, p = 0.001


def test_a_round_waits_for_the_rows_that_steps_draw() -> None:
    rows = Rows(torch.randn(3, 2), torch.tensor([0, 2, 4]))
    told, untold = (TemporalEnsembling(view=as_is) for _ in range(2))
    for surrogate in (told, untold):
        surrogate.prepare(nn.Identity(), 6, 2)
    told.draws_from(rows.ids)
    for surrogate in (told, untold):
        surrogate.after_step(nn.Identity(), rows, surrogate(nn.Identity(), rows))
    torch.testing.assert_close(told.target(rows.ids), rows.x.softmax(-1))
    moved = Rows(rows.x + torch.tensor([1.0, 0.0]), rows.ids)
    assert (told(nn.Identity(), moved).h > 0).all()
    assert (untold(nn.Identity(), moved).h == 0).all()
    assert (told(nn.Identity(), Rows(rows.x, rows.ids + 1)).h == 0).all()  # only evaluated


def test_the_gradient_is_that_of_a_fixed_target(differences: Callable[..., Tensor]) -> None:
    model = nn.Linear(4, 3, dtype=torch.float64)
    rows = Rows(torch.randn(5, 4, dtype=torch.float64), torch.arange(5))
    surrogate = TemporalEnsembling(view=as_is)
    surrogate.prepare(model, 5, 3)
    surrogate.after_step(model, rows, surrogate(model, rows))
    with torch.no_grad():
        model.weight += 1
    target = surrogate.target(rows.ids).double()
    surrogate(model, rows).h.sum().backward()
    numeric = differences(
        lambda: float((model(rows.x).softmax(-1) - target).square().sum()), model.weight
    )
    torch.testing.assert_close(model.weight.grad, numeric, rtol=1e-6, atol=1e-7)


def test_a_large_batch_does_not_cost_its_square() -> None:
    n = 200_000  # squared, 40 GB
    surrogate = TemporalEnsembling(view=as_is)
    surrogate.prepare(nn.Identity(), n, 2)
    rows = Rows(torch.randn(n, 2), torch.arange(n).flip(0))
    surrogate.after_step(nn.Identity(), rows, surrogate(nn.Identity(), rows))
    torch.testing.assert_close(surrogate.target(rows.ids), rows.x.softmax(-1))


def test_targets_stand_still_within_a_round() -> None:
    model = nn.Linear(4, 3)
    surrogate = TemporalEnsembling(view=as_is)
    surrogate.prepare(model, N, 3)
    everything = Rows(torch.randn(N, 4), torch.arange(N))
    surrogate.after_step(model, everything, surrogate(model, everything))
    before = surrogate.target(everything.ids)
    some, rest = torch.arange(N) < 3, torch.arange(N) >= 3
    for part in (some, some, rest):
        assert torch.equal(surrogate.target(everything.ids), before)
        rows = Rows(everything.x[part] + 1, everything.ids[part])
        surrogate.after_step(model, rows, surrogate(model, rows))
    assert (surrogate.target(everything.ids) != before).any(1).all()


def test_without_prepare_the_error_says_so() -> None:
    rows = Rows(torch.zeros(2, 4), torch.arange(2))
    with pytest.raises(RuntimeError, match=r"no state yet. Call prepare"):
        TemporalEnsembling()(nn.Linear(4, 3), rows)


def test_a_momentum_of_one_is_refused() -> None:
    with pytest.raises(ValueError, match=r"momentum must lie in \[0, 1\)"):
        TemporalEnsembling(momentum=1.0)


@pytest.mark.parametrize(("classes", "logits"), [(1, 1), (1, 3), (3, 2)])
def test_a_memory_of_other_classes_than_the_model_is_refused(classes: int, logits: int) -> None:
    surrogate, model = TemporalEnsembling(view=as_is), nn.Identity()
    surrogate.prepare(model, N, classes)
    rows = Rows(torch.zeros(2, logits), torch.arange(2))
    message = f"prepared for {classes} classes; the model has {max(2, logits)}"
    with pytest.raises(ValueError, match=message):
        surrogate(model, rows)
    with pytest.raises(ValueError, match=message):
        surrogate.after_step(model, rows, Scores(torch.zeros(2), rows.x.unsqueeze(0)))

"""Trainings that other ranks did: their weights arrive, and nothing else is drawn."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from dessl.training import TrainPlan, spreading
from dessl.training.member import TrainResult
from dessl.training.spreading import Trained, spread_trainings

CPU = torch.device("cpu")


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))


def job(number: int, runs: int = 1) -> Callable[[], Trained[str]]:
    def train() -> Trained[str]:
        results = []
        for run in range(runs):
            model = network()
            with torch.no_grad():
                for part in (*model.parameters(), *model.buffers()):
                    part.fill_(10 * number + run)
            results.append(TrainResult(model, (), 3, 4, TrainPlan(steps=4), "eager", 0.5))
        return Trained(tuple(results), f"beside {number}")

    return train


def value(result: TrainResult) -> float:
    return float(result.model[0].weight[0, 0].detach())  # type: ignore[index]


def test_one_process_does_every_job_in_order() -> None:
    made = [job(number) for number in range(3)]
    found = spread_trainings(made, lambda: pytest.fail("nothing is built"), CPU)
    assert [one.extra for one in found] == ["beside 0", "beside 1", "beside 2"]
    assert [value(one.results[0]) for one in found] == [0, 10, 20]


@pytest.fixture
def two_ranks(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """This process is rank 0 of two; what rank 1 would send is made here."""
    sent = []

    def spread(jobs: list[Callable[[], Any]]) -> list[Any]:
        own = {number: jobs[number]() for number in range(0, len(jobs), 2)}
        theirs = {number: sent[number] for number in range(1, len(jobs), 2)}
        return [(own | theirs)[number] for number in range(len(jobs))]

    monkeypatch.setattr(spreading, "ranks", lambda: 2)
    monkeypatch.setattr(spreading, "spread", spread)
    return sent


def as_sent(number: int, runs: int) -> tuple[Trained[str], list[dict[str, torch.Tensor]]]:
    trained = job(number, runs)()
    weights = [dict(one.model.state_dict()) for one in trained.results]
    bare = tuple(
        TrainResult(nn.Identity(), (), one.step, one.steps, one.plan, one.mode, one.seconds)
        for one in trained.results
    )
    return Trained(bare, trained.extra), weights


def test_the_weights_of_another_rank_are_put_into_new_models(two_ranks: list[Any]) -> None:
    two_ranks += [None, as_sent(1, runs=2), None]
    built = []

    def build() -> nn.Module:
        built.append(network())
        return built[-1]

    jobs = [job(0), lambda: pytest.fail("rank 1 does this one"), job(2)]
    found = spread_trainings(jobs, build, CPU)
    assert [one.extra for one in found] == ["beside 0", "beside 1", "beside 2"]
    assert [[value(one) for one in each.results] for each in found] == [[0], [10, 11], [20]]
    assert [one.model for one in found[1].results] == built
    for one in found[1].results:
        assert not one.model.training
        assert (one.step, one.steps, one.mode) == (3, 4, "eager")
        assert float(one.model[1].running_mean[0]) == value(one)  # type: ignore[index]


def test_building_for_another_rank_draws_nothing(two_ranks: list[Any]) -> None:
    two_ranks += [None, as_sent(1, runs=1)]

    def nothing() -> Trained[str]:
        return Trained((), "none")

    state = torch.get_rng_state()
    spread_trainings([nothing, nothing], network, CPU)
    assert torch.equal(torch.get_rng_state(), state)

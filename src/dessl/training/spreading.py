"""Several trainings on several ranks: each is done by one rank, and all get the results."""

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from typing import Generic, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from dessl.training.member import TrainResult
from dessl.training.model_state import load_state_into, state_of
from dessl.training.ranks import ranks, spread

T = TypeVar("T")


class Trained(NamedTuple, Generic[T]):
    """The results of a training of one run or many, and its other outputs."""

    results: tuple[TrainResult, ...]
    extra: T


def spread_trainings(
    jobs: Sequence[Callable[[], Trained[T]]], build: Callable[[], nn.Module], device: torch.device
) -> list[Trained[T]]:
    """Do each training on one rank, as it would be done in one process; return all on every rank.

    Args:
        jobs: The trainings; the same on every rank.
        build: Builds a model, for the weights that another rank has trained.
        device: Device of this rank's models.
    """
    if ranks() == 1:
        return [job() for job in jobs]
    own: dict[int, Trained[T]] = {}

    def train_and_send(number: int) -> tuple[Trained[T], list[dict[str, Tensor]]]:
        own[number] = found = jobs[number]()
        weights = [
            {name: value.detach().cpu() for name, value in state_of(result.model).items()}
            for result in found.results
        ]
        bare = tuple(dataclasses.replace(one, model=nn.Identity()) for one in found.results)
        return Trained(bare, found.extra), weights

    found = spread([partial(train_and_send, number) for number in range(len(jobs))])
    return [
        own[number] if number in own else _received(*trained, build, device)
        for number, trained in enumerate(found)
    ]


def _received(
    sent: Trained[T],
    weights: Sequence[dict[str, Tensor]],
    build: Callable[[], nn.Module],
    device: torch.device,
) -> Trained[T]:
    results = []
    for result, state in zip(sent.results, weights, strict=True):
        with torch.random.fork_rng(devices=[]):  # these initial weights are discarded
            model = build().to(device)
        load_state_into(model, state)
        results.append(dataclasses.replace(result, model=model.eval()))
    return Trained(tuple(results), sent.extra)

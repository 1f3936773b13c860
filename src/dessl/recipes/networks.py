"""The networks of a recipe on several ranks: one for each rank at a time, the results on all."""

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

from dessl.training import TrainResult
from dessl.training.model_state import put_into, state_of
from dessl.training.ranks import ranks, spread


class Network(NamedTuple):
    """A trained network, and the logits of its held-out rows at every evaluation, if watched."""

    result: TrainResult
    logits: Tensor | None


def trained_networks(
    jobs: Sequence[Callable[[], Network]], build: Callable[[], nn.Module], device: torch.device
) -> list[Network]:
    """Train each network and return them all, on every rank.

    Several networks are spread over the ranks, each trained by one of them as it would be in one
    process. A single one is trained by all ranks together.

    Args:
        jobs: Each trains a network; the same on every rank.
        build: Builds a network, for the weights that another rank has trained.
        device: Where this rank's networks are.
    """
    if ranks() == 1 or len(jobs) == 1:
        return [job() for job in jobs]
    own: dict[int, Network] = {}

    def train_and_send(number: int) -> tuple[Network, dict[str, Tensor]]:
        own[number] = jobs[number]()
        result, logits = own[number]
        weights = {name: value.detach().cpu() for name, value in state_of(result.model).items()}
        return Network(dataclasses.replace(result, model=nn.Identity()), logits), weights

    found = spread([partial(train_and_send, number) for number in range(len(jobs))])
    return [
        own[number] if number in own else _received(*theirs, build, device)
        for number, theirs in enumerate(found)
    ]


def _received(
    sent: Network, weights: dict[str, Tensor], build: Callable[[], nn.Module], device: torch.device
) -> Network:
    with torch.random.fork_rng(devices=[]):  # these first weights are thrown away
        model = build().to(device)
    put_into(model, weights)
    return sent._replace(result=dataclasses.replace(sent.result, model=model.eval()))

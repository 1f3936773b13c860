"""Rows, answers and students that the tests of learning from answers share, each made once."""

import dataclasses
from functools import cache

import torch
from torch import Tensor

from dessl.data import SemiData
from dessl.teachers import Answers, Taught, learn_from_answers
from dessl.teachers.fold_networks import NetworkSetting, ensemble_log_p
from dessl.teachers.school import School

SHORT = NetworkSetting(
    hidden=(16,), steps=60, student_steps=60, unlabelled_batch=64, debiased=False
)
NAMES = ("a", "b", "c")


@cache
def rows() -> tuple[Tensor, Tensor]:
    """Three overlapping clouds: 600 rows, 60 of them gold, and 300 to test by."""
    g = torch.Generator().manual_seed(0)
    y = torch.randint(3, (900,), generator=g)
    centres = torch.randn(3, 4, generator=g)
    return centres[y] + 1.2 * torch.randn(900, 4, generator=g), y


def data() -> SemiData:
    x, y = rows()
    labels = [NAMES[int(c)] if row < 60 else None for row, c in enumerate(y[:600])]
    return SemiData(x[:600], labels, class_names=NAMES)


@cache
def answers(kind: str) -> Tensor:
    """What a teacher says of all 900 rows."""
    g = torch.Generator().manual_seed(1)
    _, y = rows()
    q = (2.0 * (torch.randn(900, 3, generator=g) + 2.0 * torch.eye(3)[y])).softmax(1)
    if kind == "shuffled":
        return q[torch.randperm(900, generator=g)]
    if kind == "permuted":
        return q.roll(1, dims=1)
    return q


@cache
def taught(
    kind: str,
    *,
    at_prediction: bool = False,
    debiased: bool = False,
    models: tuple[str, ...] = (),
) -> Taught:
    """Networks alone by default: with Gaussian clouds, a model of Gaussians needs no teacher."""
    setting = dataclasses.replace(SHORT, debiased=debiased)
    said = Answers.of(answers(kind)[:600], NAMES, name=kind)
    return learn_from_answers(
        data(), said, at_prediction=at_prediction, setting=setting, models=models
    )


def loss(log_p: Tensor) -> float:
    return float(-log_p.gather(1, rows()[1][600:, None]).mean())


def gold_only(found: Taught) -> float:
    return loss(ensemble_log_p(found.networks["complete_case"], found.space(rows()[0][600:])))


@cache
def school(kind: str, *models: str) -> School:
    hard = [NAMES[int(c)] for c in answers(kind).argmax(1)[:600]]
    return School.of(data(), hard, SHORT, 0, models=models)

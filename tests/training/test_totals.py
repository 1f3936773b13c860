"""Sums on the device: means, the first bad step, and K runs as K single ones."""

import math

import pytest
import torch
from torch import Tensor

from dessl.risk import Risk
from dessl.training.totals import NAMES, Totals

CPU = torch.device("cpu")
KEPT = torch.tensor([1.0, 0.0, 1.0])


def risk(*values: float) -> Risk:
    return Risk(*(torch.tensor(float(value)) for value in values))


def test_they_remember_the_first_bad_step() -> None:
    totals = Totals(CPU, limit=10.0)
    for value in (1.0, 2.0, 11.0, math.nan, 3.0):
        totals.add(risk(*[value] * 4), KEPT, 2, torch.tensor(0.0))
    (trouble,) = totals.troubles()
    assert trouble is not None
    assert (trouble.step, trouble.values["risk"]) == (3, 11.0)
    totals.restart()
    totals.add(risk(4, 1, 2, 3), KEPT, 2, torch.tensor(7.0))
    totals.add(risk(6, 1, 2, 3), KEPT, 2, torch.tensor(9.0))
    assert totals.troubles() == [None]
    (means,) = totals.means()
    assert means == dict(zip(NAMES, [5, 1, 2, 3, 0.5, 1, 8], strict=True))


@pytest.mark.parametrize("n_labelled", [4, 6])
def test_many_runs_add_up_as_each_would_alone(n_labelled: int) -> None:
    generator = torch.Generator().manual_seed(0)

    def drawn(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    steps = [(drawn(4, 3), drawn(3, 6).sign().clamp(min=0), drawn(3).abs()) for _ in range(5)]
    steps[1][0][0, 2] = 40.0  # past the limit
    steps[3][0][1, 0] = math.inf
    steps[4][2][2] = math.nan  # after a bad step: the first one counts
    together, alone = Totals(CPU, 30.0, 3), [Totals(CPU, 30.0) for _ in range(3)]
    for parts, kept, norm in steps:
        together.add(Risk(*parts), kept, n_labelled, norm)
        for k, totals in enumerate(alone):
            totals.add(Risk(*parts[:, k]), kept[k], n_labelled, norm[k])
    single = [totals.troubles()[0] for totals in alone]
    assert [trouble and trouble.step for trouble in single] == [4, None, 2]
    assert together.troubles() == single
    for ours, theirs in zip(together.means(), alone, strict=True):
        assert ours == pytest.approx(theirs.means()[0], nan_ok=True)

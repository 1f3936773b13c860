from itertools import combinations

import pytest
import torch

from dessl.evaluation.risk_quality import Spread, Traces


def test_both_curves_are_those_of_every_split(population) -> None:
    loss, h = population
    a, b = [], []
    for rows in combinations(range(8), 3):
        chosen = list(rows)
        others = [i for i in range(8) if i not in chosen]
        a.append(loss[chosen].mean())
        b.append(h[others].mean() - h[chosen].mean())

    def traces(first: torch.Tensor, second: torch.Tensor) -> Traces:
        covariance = torch.cov(torch.stack([first, second])) * (len(first) - 1)
        return Traces(*covariance[[0, 1, 0], [0, 1, 1]].tolist())

    spread = Spread(traces(loss, h), traces(torch.stack(a), torch.stack(b)), 3, 5)
    result = spread.over([0.0, 0.5, 1.0])
    torch.testing.assert_close(result.theory, result.empirical)
    for lam, ratio in zip([0.5, 1.0], result.theory[1:].tolist(), strict=True):
        values = torch.stack(a) + lam * torch.stack(b)
        assert ratio == pytest.approx(float(values.var() / torch.stack(a).var()))
    assert spread.correlation == pytest.approx(float(torch.corrcoef(torch.stack([loss, h]))[0, 1]))


def test_a_loss_that_does_not_vary_has_no_ratio() -> None:
    spread = Spread(Traces(0.0, 1.0, 0.0), Traces(0.0, 1.0, 0.0), 2, 3)
    with pytest.raises(ValueError, match="must vary over the rows; it is the same for all"):
        spread.over([0.0, 1.0])

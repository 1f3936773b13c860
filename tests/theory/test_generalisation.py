"""The generalisation bound: its constant, its Rademacher term by enumeration, its coverage."""

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from dessl.risk import debiased_risk
from dessl.theory import generalisation_bound, generalisation_constant


def rows(models: int, n_l: int, n_u: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return (
        torch.rand(models, n_l, generator=generator, dtype=torch.float64),
        torch.rand(models, n_l, generator=generator, dtype=torch.float64),
        torch.rand(models, n_u, generator=generator, dtype=torch.float64),
    )


def test_the_constant_bounds_every_row_tightly() -> None:
    for lam, pi in product((-2.0, 0.0, 0.5, 3.0), (0.1, 0.5, 0.9)):
        c = generalisation_constant(lam, pi, maximum=2.0) / (4 * 2**0.5)
        corners = [
            abs(r / pi * loss + lam * ((1 - r) / (1 - pi) - r / pi) * h)
            for r, loss, h in product((0, 1), (-2.0, 2.0), (-2.0, 2.0))
        ]
        assert c == pytest.approx(max(corners))


def test_the_rademacher_term_by_enumeration_of_all_signs() -> None:
    loss, h_l, h_u = rows(3, 4, 5)
    lam, pi, n = 0.7, 4 / 9, 9
    weighted = torch.cat([(loss - lam * h_l) / pi, lam * h_u / (1 - pi)], dim=1)
    suprema = [
        float((torch.tensor(signs, dtype=torch.float64) * weighted).sum(1).max()) / n
        for signs in product((-1.0, 1.0), repeat=n)
    ]
    result = generalisation_bound(loss, h_l, h_u, lam, maximum=1.0, draws=20_000)
    assert result.rademacher == pytest.approx(
        np.mean(suprema), abs=4 * result.rademacher_standard_error
    )
    assert result.rademacher_standard_error == pytest.approx(
        np.std(suprema) / 20_000**0.5, rel=0.05
    )


def test_the_parts_add_up() -> None:
    loss, h_l, h_u = rows(3, 4, 5)
    result = generalisation_bound(loss, h_l, h_u, 0.7, maximum=1.0, delta=0.1)
    torch.testing.assert_close(result.bound, result.risk + 2 * result.rademacher + result.deviation)
    assert result.kappa == generalisation_constant(0.7, 4 / 9, 1.0)
    assert result.deviation == pytest.approx(result.kappa * (np.log(40) / 9) ** 0.5)
    # With π = n_l/n the πn-weighted risk is the debiased risk itself.
    for model in range(3):
        ours = debiased_risk(loss[model], h_l[model], h_u[model], 0.7).value
        assert float(result.risk[model]) == pytest.approx(float(ours))


def test_draws_come_from_the_generator() -> None:
    loss, h_l, h_u = rows(3, 4, 5)

    def rademacher(seed: int) -> float:
        generator = torch.Generator().manual_seed(seed)
        return generalisation_bound(
            loss, h_l, h_u, maximum=1.0, draws=50, generator=generator
        ).rademacher

    assert rademacher(1) == rademacher(1) != rademacher(2)


def test_the_bound_holds_in_simulation() -> None:
    """200 data sets of 60 rows, 5 models: the worst model's bound fails at most δ of the time."""
    rng = np.random.default_rng(0)
    failures = 0
    truth = np.linspace(0.2, 0.6, 5)
    for _ in range(200):
        loss = (rng.random((5, 60)) < truth[:, None]).astype(float)
        h = 0.5 * loss + 0.25
        labelled = rng.random(60) < 0.3
        result = generalisation_bound(
            loss[:, labelled], h[:, labelled], h[:, ~labelled], 0.5, maximum=1.0, pi=0.3, draws=50
        )
        failures += bool((result.bound.numpy() < truth).any())
    assert failures <= 200 * 0.05


class LargestTensor(TorchFunctionMode):
    """Notes the most entries that a tensor had while it was on."""

    entries = 0

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if isinstance(result, Tensor):
            self.entries = max(self.entries, result.numel())
        return result


def test_many_rows_do_not_take_many_sign_vectors_at_once() -> None:
    loss, h_unlabelled = torch.ones(2, 50_000), torch.ones(2, 150_000)
    with LargestTensor() as largest:
        generalisation_bound(loss, loss, h_unlabelled, maximum=1.0, draws=100)
    assert 4 * largest.entries < 100 * 200_000


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: generalisation_constant(1.0, 0.0, 1.0), r"pi must lie in \(0, 1\); got 0"),
        (
            lambda: generalisation_constant(float("-inf"), 0.5, 1.0),
            r"lam must lie in \(-inf, inf\); got -inf",
        ),
        (lambda: generalisation_constant(1.0, 0.5, 0.0), r"maximum must lie in \(0, inf\]; got 0"),
        (
            lambda: generalisation_bound(
                torch.ones(2, 3), torch.ones(2, 4), torch.ones(2, 5), maximum=1.0
            ),
            r"loss and h_labelled must be \(models, n_l\)",
        ),
        (
            lambda: generalisation_bound(
                torch.ones(2, 3), torch.ones(2, 3), 4 * torch.ones(2, 5), maximum=1.0
            ),
            r"h_unlabelled .*\[-1, 1\]; got from 4 to 4",
        ),
        (
            lambda: generalisation_bound(
                torch.ones(2, 3), torch.ones(2, 3), torch.ones(2, 5), maximum=1.0, delta=0.0
            ),
            r"delta must lie in \(0, 1\); got 0",
        ),
    ],
)
def test_bad_input_is_refused_with_a_remedy(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()

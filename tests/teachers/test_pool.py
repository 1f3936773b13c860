import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from dessl.teachers import fit_pool
from dessl.teachers.pool import best_of, exponent, least_cross_entropy, losses


def predictions(n: int, members: int, seed: int) -> tuple[dict[str, Tensor], Tensor]:
    """Noisy log-probabilities of three classes; the first candidate is the anchor."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 3, (n,), generator=generator)
    truth = 2.0 * torch.nn.functional.one_hot(y, 3)
    names = ["cc", *"abcdef"[: members - 1]]
    noisy = {
        name: (truth + 1.5 * torch.randn(n, 3, generator=generator)).double().log_softmax(1)
        for name in names
    }
    return noisy, y


def penalised(w: np.ndarray, stack: np.ndarray, y: np.ndarray, n: int) -> float:
    scores = torch.from_numpy(np.tensordot(w, stack, 1)).log_softmax(1).numpy()
    ridge = (1 + 100 / n) / n * (w[1:] ** 2).sum()
    return float(-scores[np.arange(len(y)), y].mean() + 10 / n * (w.sum() - 1) ** 2 + ridge)


def test_weights_are_the_least_on_a_grid() -> None:
    candidates, y = predictions(60, 3, seed=0)
    pool = fit_pool(candidates, y)
    stack = np.stack([pool.exponents[k] * p.numpy() for k, p in candidates.items()])
    best = penalised(np.array(list(pool.weights.values())), stack, y.numpy(), 60)
    grid = np.linspace(0, 1.2, 25)
    least = min(
        penalised(np.array(w), stack, y.numpy(), 60) for w in itertools.product(grid, repeat=3)
    )
    assert best <= least + 1e-9
    assert least - best < 0.01


def test_the_exponent_is_the_least_on_a_grid() -> None:
    candidates, y = predictions(80, 1, seed=1)
    log_p = 3 * candidates["cc"]  # overconfident
    found = exponent(log_p.log_softmax(1), y, 80)
    grid = np.linspace(0, 2, 4001)
    p = log_p.log_softmax(1)
    values = [
        float(-(t * p).log_softmax(1)[torch.arange(80), y].mean() + 10 / 80 * (t - 1) ** 2)
        for t in grid
    ]
    assert found == pytest.approx(grid[int(np.argmin(values))], abs=6e-4)
    assert found < 0.8


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10_000), share=st.floats(0, 1))
def test_the_objective_is_convex_and_the_start_does_not_matter(seed: int, share: float) -> None:
    candidates, y = predictions(30, 4, seed)
    stack, labels = np.stack([p.numpy() for p in candidates.values()]), y.numpy()
    rng = np.random.default_rng(seed)
    one, two = rng.uniform(0, 2, (2, 4))
    between = penalised(share * one + (1 - share) * two, stack, labels, 30)
    chord = share * penalised(one, stack, labels, 30) + (1 - share) * penalised(
        two, stack, labels, 30
    )
    assert between <= chord + 1e-9
    ridge = np.array([0, 1, 1, 1]) * (1 + 100 / 30) / 30
    first, second = (
        least_cross_entropy(stack, labels, 10 / 30, ridge, start) for start in (one, two)
    )
    assert first == pytest.approx(second, abs=1e-4)


def test_no_weight_can_be_moved_for_the_better() -> None:
    candidates, y = predictions(50, 5, seed=3)
    stack = np.stack([p.numpy() for p in candidates.values()])
    ridge = np.array([0, 1, 1, 1, 1]) * (1 + 100 / 50) / 50
    w = least_cross_entropy(stack, y.numpy(), 0.2, ridge, np.eye(5)[0])
    here = penalised(w, stack, y.numpy(), 50)
    for step in (*np.eye(5), *-np.eye(5)):
        moved = w + 1e-3 * step
        if moved.min() >= 0:
            assert penalised(moved, stack, y.numpy(), 50) >= here


def test_a_useless_candidate_leaves_the_anchor_alone() -> None:
    candidates, y = predictions(200, 1, seed=4)
    noise = torch.randn(200, 3, generator=torch.Generator().manual_seed(5)).double() * 2
    pool = fit_pool(candidates | {"noise": noise.log_softmax(1)}, y)
    assert pool.weights["noise"] * pool.exponents["noise"] < 0.1


def test_with_few_labels_the_anchor_keeps_its_weight() -> None:
    candidates, y = predictions(40, 2, seed=6)
    few, many = (fit_pool(candidates, y, n=n).weights for n in (2, 2000))
    share_few, share_many = (w["cc"] / sum(w.values()) for w in (few, many))
    assert share_few > share_many + 0.05


def test_row_order_and_a_constant_a_row_do_not_matter() -> None:
    candidates, y = predictions(70, 3, seed=7)
    turn = torch.randperm(70, generator=torch.Generator().manual_seed(0))
    moved = {k: p[turn] + 5.0 for k, p in candidates.items()}
    one, two = fit_pool(candidates, y), fit_pool(moved, y[turn])
    assert list(one.weights.values()) == pytest.approx(list(two.weights.values()), abs=1e-5)
    first, second = one.combine(candidates)[turn], two.combine(moved)
    assert first.numpy() == pytest.approx(second.numpy(), abs=1e-4)


def test_copies_count_once() -> None:
    candidates, y = predictions(30, 2, seed=8)
    tenfold = {k: p.repeat(10, 1) for k, p in candidates.items()}
    once, copied = fit_pool(candidates, y), fit_pool(tenfold, y.repeat(10), n=30)
    assert list(once.weights.values()) == pytest.approx(list(copied.weights.values()), abs=1e-5)


def test_best_of_calibrates_before_it_compares() -> None:
    candidates, y = predictions(100, 1, seed=9)
    sharp = (8 * candidates["cc"]).log_softmax(1)  # right order, far too sure
    flat = torch.zeros(100, 3).double().log_softmax(1)
    assert best_of({"flat": flat, "sharp": sharp}, y) == "sharp"


def test_wrong_candidates_are_refused() -> None:
    candidates, y = predictions(20, 2, seed=0)
    with pytest.raises(ValueError, match="anchor 'b'"):
        fit_pool(candidates, y, "b")
    with pytest.raises(ValueError, match="one row for each label"):
        fit_pool(candidates | {"a": candidates["a"][1:]}, y)
    with pytest.raises(ValueError, match="must be finite"):
        fit_pool(candidates | {"a": candidates["a"] * torch.nan}, y)
    with pytest.raises(ValueError, match="absent"):
        fit_pool(candidates, y).combine({"cc": candidates["cc"]})


@pytest.mark.parametrize("scale", [0.01, 0.3, 1.0, 20.0, 300.0])
@pytest.mark.parametrize("helpful", [True, False])
def test_the_exponent_is_the_least_of_its_function(scale: float, helpful: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(60, 3, generator=generator).double()
    y = scores.argmax(1) if helpful else torch.arange(60) % 3
    log_p = (scale * scores).log_softmax(1)
    found = exponent(log_p, y, 60)
    ours = least_cross_entropy(log_p.numpy()[None], y.numpy(), 10 / 60, np.zeros(1), np.ones(1))[0]

    def value(power: float) -> float:
        return float(losses(power * log_p, y).mean()) + 10 / 60 * (power - 1) ** 2

    assert found >= 0
    assert found == pytest.approx(ours, abs=1e-5)
    assert value(found) <= value(float(ours)) + 1e-13
